//! Write-back: what is in the log goes home, from memory (Trail 4.1), so that newer versions replace older ones.
//! Which blocks go first, and how many in one round, is the layout's to say (`tonearm_layout::HomeShape`).

use crate::engine::{Engine, State};
use crate::error::EngineError;
use crate::moves;
use crate::pinned::{Holds, Order, Pinned};
use crate::throttle::strain;
use std::cell::RefCell;
use tonearm_base::{Lsn, Nanos};
use tonearm_layout::{Home, HomeError, RoundOrder};

/// Bytes of the oldest blocks that are chosen at once, for several rounds: that takes a look at all.
const CHOSEN_BYTES: usize = 32 << 20;
/// Bytes of one round when nothing presses: a reader waits for little.
const IDLE_ROUND_BYTES: usize = 4 << 20;
/// How often the age of pinned blocks is looked at, and a full medium is tried again.
const TICK: Nanos = Nanos::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Press,
    Age,
}

impl Engine {
    /// Starts the tasks of the write-back.
    pub(crate) fn start_write_back(&self) {
        let engine = self.clone();
        self.0.rt.spawn(async move {
            while engine.check_alive().is_ok() {
                engine.0.rt.sleep(TICK).await;
                engine.0.work.notify();
            }
        });
        let engine = self.clone();
        self.0.rt.spawn(async move {
            while engine.check_alive().is_ok() {
                engine.0.trail.space_wanted().await;
                engine.0.work.notify();
            }
        });
        let engine = self.clone();
        self.0
            .rt
            .spawn(async move { engine.write_back_loop().await });
    }

    /// Wakes the write-back if there is a reason to.
    pub(crate) fn press(&self) {
        if !self.0.state.borrow().round_under_way && self.presses() {
            self.0.work.notify();
        }
    }

    async fn write_back_loop(self) {
        while self.check_alive().is_ok() {
            let wait = self.0.work.wait();
            match self.reason() {
                None => wait.await,
                Some(reason) => {
                    self.0.state.borrow_mut().round_under_way = true;
                    let result = self.round(reason).await;
                    self.0.state.borrow_mut().round_under_way = false;
                    self.0.idle.notify();
                    self.0.rounds.notify();
                    if let Err(error) = result {
                        self.fail(error);
                    }
                }
            }
        }
        self.0.idle.notify();
    }

    pub(crate) fn presses(&self) -> bool {
        let (used, tracks) = self.0.trail.usage();
        let memory = &self.0.memory;
        memory.waiting() > 0
            || memory.used() > memory.limit() / 4 * 3
            || used > tracks / 2
            || self.0.trail.is_full()
            || self.0.trail.retained_commits() > (1 << 19)
            || self.0.state.borrow().pinned.range_count() > 1024
    }

    /// How near the end memory and log are, for [`Throttle`](crate::throttle::Throttle).
    pub(crate) fn strain(&self) -> u64 {
        let (used, tracks) = self.0.trail.usage();
        let memory = &self.0.memory;
        let limit = memory.limit();
        let of_memory = strain(memory.used(), limit / 4 * 3, limit);
        // The last few tracks are not given out.
        of_memory.max(strain(used, tracks * 5 / 8, tracks * 15 / 16))
    }

    fn reason(&self) -> Option<Reason> {
        let state = self.0.state.borrow();
        if state.pinned.is_empty() {
            return None;
        }
        if state.draining > 0 {
            return Some(Reason::Press);
        }
        let aged = state
            .pinned_since
            .is_some_and(|since| self.0.rt.now().since(since) >= self.0.options.write_back_after);
        drop(state);
        if self.presses() {
            return Some(Reason::Press);
        }
        aged.then_some(Reason::Age)
    }

    /// One round: a batch home, durable there, and its tracks freed.
    async fn round(&self, reason: Reason) -> Result<(), EngineError> {
        let durable = self.0.trail.durable();
        if self.range_is_being_read(durable) {
            let idle = self.0.idle.wait();
            idle.await;
            return Ok(());
        }
        let shape = &self.0.shape;
        let bytes = match reason {
            Reason::Press => shape.round_bytes_max,
            Reason::Age => shape.round_bytes_max.min(IDLE_ROUND_BYTES),
        };
        let busy = self.busy_blocks();
        let is_busy = move |block: u64| {
            let at = busy.partition_point(|(first, _)| *first <= block);
            at > 0 && block < busy[at - 1].1
        };
        let blocks_max = bytes / self.block_size();
        let cursor = self.0.state.borrow().cursor;
        let by_age = shape.order == RoundOrder::OldestFirst;
        let oldest = if by_age {
            self.next_oldest(durable, blocks_max, &is_busy)
        } else {
            Vec::new()
        };
        let order = match by_age {
            true => Order::These(&oldest),
            false => Order::Sweep(cursor),
        };
        let begun = self.0.rt.now();
        let done = write_back_batch(
            &*self.0.home,
            durable,
            order,
            blocks_max,
            is_busy,
            &self.0.trail,
            || &self.0.state,
        )
        .await;
        match done {
            Ok(None) => self.wait_for_eligible(durable).await,
            Ok(Some(done)) => {
                let mut state = self.0.state.borrow_mut();
                let swept = match by_age {
                    true => state.queue.is_empty(),
                    false => done.next_cursor <= cursor,
                };
                state.cursor = done.next_cursor;
                (state.no_space, state.full) = (false, None);
                // Once the sweep has come round, what is pinned is younger than it.
                let swept = swept || reason == Reason::Press;
                if state.pinned.is_empty() {
                    state.pinned_since = None;
                } else if swept {
                    state.pinned_since = Some(self.0.rt.now());
                }
                drop(state);
                let took = self.0.rt.now().since(begun);
                let bytes = done.blocks * self.block_size() as u64;
                if by_age {
                    self.0.throttle.drained(took, bytes);
                }
                self.0.counters.rounds.set(self.0.counters.rounds.get() + 1);
                self.0
                    .counters
                    .written_back
                    .set(self.0.counters.written_back.get() + done.blocks);
                self.0
                    .counters
                    .superseded
                    .set(self.0.counters.superseded.get() + done.superseded);
                self.0.trail.advance();
                Ok(())
            }
            Err(HomeError::NoSpace { .. }) => {
                self.0.state.borrow_mut().no_space = true;
                self.0.rt.sleep(TICK).await;
                Ok(())
            }
            Err(full @ HomeError::Full { .. }) => {
                if self.0.state.borrow().last_trim > durable {
                    // What may make room is not durable yet.
                    return self.wait_for_eligible(durable).await;
                }
                // Waiting writers are refused.
                self.0.state.borrow_mut().full = Some(full);
                self.0.idle.notify();
                self.0.refusals.notify();
                self.0.rt.sleep(TICK).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The next blocks by age, ascending.
    fn next_oldest(&self, durable: Lsn, blocks_max: usize, busy: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut state = self.0.state.borrow_mut();
        let State { pinned, queue, .. } = &mut *state;
        let (mut next, mut not_yet) = (Vec::new(), Vec::new());
        for chosen in [false, true] {
            if chosen {
                not_yet.clear();
                *queue = pinned.oldest(CHOSEN_BYTES / self.block_size());
            }
            while next.len() < blocks_max
                && let Some(block) = queue.pop_front()
            {
                match pinned.is_ready(block, durable) && !busy(block) {
                    true => next.push(block),
                    false if pinned.get(block).is_some() => not_yet.push(block),
                    false => {}
                }
            }
            if !next.is_empty() {
                break;
            }
        }
        // They stay the oldest: the log keeps what they were before, too.
        not_yet
            .drain(..)
            .rev()
            .for_each(|block| queue.push_front(block));
        next.sort_unstable();
        next
    }

    /// Nothing may go home yet: makes the log durable, or waits for it to be written.
    async fn wait_for_eligible(&self, durable: Lsn) -> Result<(), EngineError> {
        if self.0.trail.durable() > durable {
            return Ok(());
        }
        let progress = self.0.trail.progress();
        if self.0.trail.flushed() > durable {
            self.0.trail.sync_written().await?;
            return Ok(());
        }
        self.0.trail.check()?;
        if self.0.trail.appended() > durable {
            progress.await;
        } else {
            // Everything is durable and yet nothing is eligible: all of it is being read.
            self.0.idle.wait().await;
        }
        Ok(())
    }

    fn busy_blocks(&self) -> Vec<(u64, u64)> {
        let mut busy: Vec<(u64, u64)> = Vec::new();
        let mut reads: Vec<(u64, u64)> = self.0.state.borrow().reads.values().copied().collect();
        reads.sort_unstable();
        for (first, end) in reads {
            match busy.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => busy.push((first, end)),
            }
        }
        busy
    }

    fn range_is_being_read(&self, durable: Lsn) -> bool {
        let state = self.0.state.borrow();
        state.pinned.ranges_up_to(durable).any(|(first, count)| {
            state
                .reads
                .values()
                .any(|(start, end)| first < *end && *start < first + count)
        })
    }
}

pub(crate) struct Done {
    pub blocks: u64,
    pub superseded: u64,
    pub next_cursor: u64,
}

/// Where the pinned set lives: in the engine's state, or in recovery's.
pub(crate) trait HasPinned {
    fn pinned(&mut self) -> &mut Pinned;
}

impl HasPinned for crate::engine::State {
    fn pinned(&mut self) -> &mut Pinned {
        &mut self.pinned
    }
}

impl HasPinned for Pinned {
    fn pinned(&mut self) -> &mut Pinned {
        self
    }
}

/// Writes one batch home; `None` when nothing is eligible.
pub(crate) async fn write_back_batch<'a, S: HasPinned + 'a>(
    home: &dyn Home,
    durable: Lsn,
    order: Order<'_>,
    blocks_max: usize,
    busy: impl Fn(u64) -> bool,
    holds: &dyn Holds,
    state: impl Fn() -> &'a RefCell<S>,
) -> Result<Option<Done>, HomeError> {
    let mut batch = state()
        .borrow_mut()
        .pinned()
        .start_batch(durable, order, blocks_max, busy);
    if batch.is_empty() {
        return Ok(None);
    }
    let written = std::mem::take(&mut batch.written);
    let from = match order {
        Order::Sweep(cursor) => cursor,
        Order::These(_) => 0,
    };
    let next_cursor = written.last().map_or(from, |(block, _)| block + 1);
    let ranges = batch.ranges.len();
    let result = match moves::read(home, &batch.moved).await {
        Ok(moved) => {
            batch.blocks.extend(moved);
            batch.sort();
            home.write_back(batch.ranges, batch.blocks).await
        }
        Err(error) => Err(error),
    };
    let mut guard = state().borrow_mut();
    match result {
        Ok(()) => {
            let before = guard.pinned().block_count() as u64;
            guard.pinned().finish_batch(ranges, &written, holds);
            let freed = before - guard.pinned().block_count() as u64;
            let blocks = written.len() as u64;
            Ok(Some(Done {
                blocks,
                superseded: blocks - freed.min(blocks),
                next_cursor,
            }))
        }
        Err(error) => {
            guard.pinned().cancel_batch(&written, holds);
            Err(error)
        }
    }
}
