//! Write-back: blocks of the log are written home from memory (Trail 4.1), so that newer versions replace older ones.
//! The layout says which blocks go first and how many a round takes (`tonearm_layout::HomeShape`).
//!
//! [`Schedule`] decides when a round starts, and with which blocks. [`Throttle`] slows writers down gradually. Each
//! round frees all its memory and log space at once, and a round that has to clean first takes ten times as long as
//! others. Without the throttle, writers would use up memory or log, and then all of them would wait for such a round.
//! The throttle measures the pace at which recent rounds have written blocks home. Once memory or log are short, it
//! admits writes at twice this pace, and gradually at less: at two thirds of it when memory or log are used up. While no round
//! is under way, or a round waits for the log, the data drives have nothing to do, and writers do not wait. Both
//! types are without I/O and without await: time comes as an argument.

use crate::access::Busy;
use crate::error::EngineError;
use crate::pinned::{BLOCK_COST, Order, Pinned};
use crate::round::{Done, write_back_batch};
use crate::shared::Shared;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_device::StoreEvent;
use tonearm_layout::{HomeError, HomeShape, RoundOrder};
use tonearm_rt::Notify;

/// Period at which the age of pinned blocks is checked, and a full medium is tried again.
const TICK: Nanos = Nanos::from_millis(500);
/// Commits kept in the log from which on rounds start.
const COMMITS_PRESSING: usize = 1 << 19;
/// Pending ranges from which on rounds start.
const RANGES_PRESSING: usize = 1024;
/// One block gets an image in the log for so many that are written home: this bounds what the images add to the log. For each
/// block that is written home, so many are looked at.
const RENEWED_SHARE: u64 = 16;

/// Bytes of one round when neither memory nor log are short. Small rounds keep the waits of reads short.
const IDLE_ROUND_BYTES: usize = 4 << 20;
/// Bytes of the oldest blocks that are chosen at once, for several rounds: the choice looks at all pinned blocks.
const CHOSEN_BYTES: usize = 32 << 20;

/// Shorter delays are carried over to the next write, which saves timers.
const DELAY_MIN: Nanos = Nanos::from_millis(1);
/// Longest delay. Beyond it writers wait for memory and log, which have queues of their own.
pub(crate) const DELAY_MAX: Nanos = Nanos::from_secs(1);
/// Rounds over which the pace is averaged.
const PACE_ROUNDS: u64 = 32;
/// Writes over which the pressure is averaged: the use of tracks and memory moves in steps.
const PRESSURE_WRITES: u64 = 256;
/// Strain when memory or log are used up.
pub(crate) const PRESSURE_MAX: u64 = 1024;

/// The write-back of one store.
pub(crate) struct WriteBack {
    shared: Rc<Shared>,
    schedule: RefCell<Schedule>,
    throttle: Throttle,
    /// A round is under way.
    round: Cell<bool>,
    /// A round is under way, or follows at once.
    working: Cell<bool>,
    /// No round follows the last one.
    rounds_ended: Notify,
    /// Callers that wait for everything to be at home.
    draining: Cell<u32>,
    /// It was reported that there is no space.
    space_ended: Cell<bool>,
    /// Checkpoints under way.
    checkpoints: Cell<u32>,
    /// Blocks written home since holds were last renewed.
    unrenewed: Cell<u64>,
    pub counters: Counters,
}

/// One of those that a number counts. It counts no more when it ends, also when its caller is dropped before.
pub(crate) struct Counted<'a>(&'a Cell<u32>);

impl<'a> Counted<'a> {
    fn one_more(number: &'a Cell<u32>) -> Self {
        number.set(number.get() + 1);
        Self(number)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub rounds: Cell<u64>,
    pub blocks: Cell<u64>,
    pub superseded: Cell<u64>,
    /// Flushes of data devices in rounds that a checkpoint waited for.
    pub checkpoint_flushes: Cell<u64>,
}

impl WriteBack {
    /// The write-back of the store of `shared`. It does nothing before [`WriteBack::start`].
    pub fn new(shared: &Rc<Shared>) -> Self {
        let schedule = Schedule::new(shared.rt.now(), &shared.pinned.borrow());
        Self {
            shared: shared.clone(),
            schedule: RefCell::new(schedule),
            throttle: Throttle::default(),
            round: Cell::new(false),
            working: Cell::new(false),
            rounds_ended: Notify::new(&shared.rt),
            draining: Cell::new(0),
            space_ended: Cell::new(false),
            checkpoints: Cell::new(0),
            unrenewed: Cell::new(0),
            counters: Counters::default(),
        }
    }

    /// Starts the tasks.
    pub fn start(self: &Rc<Self>) {
        let rt = &self.shared.rt;
        let shared = self.shared.clone();
        rt.spawn(async move {
            while shared.check_alive().is_ok() {
                shared.rt.sleep(TICK).await;
                shared.work.notify();
            }
        });
        let shared = self.shared.clone();
        rt.spawn(async move {
            while shared.check_alive().is_ok() {
                shared.trail.space_wanted().await;
                shared.work.notify();
            }
        });
        let own = self.clone();
        rt.spawn(async move { own.run().await });
    }

    /// Notes commit `lsn`.
    pub fn committed(&self, lsn: Lsn, has_zeroes: bool) {
        let now = self.shared.rt.now();
        self.schedule.borrow_mut().committed(now, lsn, has_zeroes);
        if !self.round.get() && self.is_pressed() {
            self.shared.work.notify();
        }
    }

    /// Waits until a write of `bytes` may ask for memory. While no round is under way the data drives have nothing to do, and no
    /// write waits.
    pub async fn turn(&self, bytes: u64) {
        if !self.working.get() {
            return;
        }
        let now = self.shared.rt.now();
        let delay = self.throttle.wait(now, bytes, self.pressure());
        if delay > Nanos(0) {
            self.rounds_ended.wait().until(now + delay.0).await;
        }
    }

    /// True when memory or log are short.
    pub fn is_pressed(&self) -> bool {
        let shared = &*self.shared;
        let (used, tracks) = shared.trail.usage();
        let memory = &shared.memory;
        memory.waiting() > 0
            || memory.used() > memory.limit() / 4 * 3
            || used > tracks / 2
            || shared.trail.is_full()
            || shared.trail.retained_commits() > COMMITS_PRESSING
            || shared.pinned.borrow().range_count() > RANGES_PRESSING
    }

    /// How much of memory and log is used up, in parts of [`PRESSURE_MAX`]: the greater of the two.
    fn pressure(&self) -> u64 {
        let (used, tracks) = self.shared.trail.usage();
        let memory = &self.shared.memory;
        let limit = memory.limit();
        let of_memory = pressure(memory.used(), limit / 4 * 3, limit);
        // The last few tracks are not given out.
        of_memory.max(pressure(used, tracks * 5 / 8, tracks * 15 / 16))
    }

    /// # Errors
    /// When the home is full.
    pub fn check_full(&self) -> Result<(), EngineError> {
        match &self.schedule.borrow().full {
            Some(full) => Err(full.clone().into()),
            None => Ok(()),
        }
    }

    /// Lets the next round find out again whether the home is full.
    pub fn try_full_again(&self) {
        self.schedule.borrow_mut().full = None;
    }

    /// True while the medium below is full.
    pub fn waits_for_space_below(&self) -> bool {
        self.schedule.borrow().limit.is_some()
    }

    /// True while the medium below or the home are full.
    pub fn waits_for_space(&self) -> bool {
        let schedule = self.schedule.borrow();
        schedule.limit.is_some() || schedule.full.is_some()
    }

    /// A checkpoint waits for rounds while the result lives.
    pub fn begin_checkpoint(&self) -> Counted<'_> {
        Counted::one_more(&self.checkpoints)
    }

    /// True while a round is under way.
    pub fn has_round(&self) -> bool {
        self.round.get()
    }

    /// For how long something has been pinned.
    pub fn lag(&self) -> Nanos {
        self.schedule.borrow().lag(self.shared.rt.now())
    }

    /// Makes rounds until `done`, whether or not there is another reason for them.
    ///
    /// # Errors
    /// When the store fails meanwhile, or its home is full.
    pub async fn until(&self, done: impl Fn() -> bool) -> Result<(), EngineError> {
        let _drains = Counted::one_more(&self.draining);
        while !done() {
            self.shared.check_alive()?;
            self.check_full()?;
            let changed = self.shared.access.changed.wait();
            self.shared.work.notify();
            changed.await;
        }
        Ok(())
    }

    async fn run(&self) {
        let shared = &*self.shared;
        while shared.check_alive().is_ok() {
            let wait = shared.work.wait();
            match self.reason() {
                None => {
                    self.end_turns();
                    wait.await;
                }
                Some(reason) => {
                    self.working.set(true);
                    self.round.set(true);
                    let flushes = shared.home.stats().flushes;
                    let result = self.round(reason).await;
                    if self.checkpoints.get() > 0 {
                        let flushes = shared.home.stats().flushes - flushes;
                        let all = &self.counters.checkpoint_flushes;
                        all.set(all.get() + flushes);
                    }
                    self.round.set(false);
                    shared.release_indirect();
                    shared.access.changed.notify();
                    if let Err(error) = result {
                        shared.fail(error);
                    }
                }
            }
        }
        shared.access.changed.notify();
    }

    /// The data drives have nothing to do: writers do not wait any more.
    fn end_turns(&self) {
        if self.working.replace(false) {
            self.throttle.end_turns();
            self.rounds_ended.notify();
        }
    }

    fn reason(&self) -> Option<Reason> {
        let shared = &*self.shared;
        let schedule = self.schedule.borrow();
        let aged = schedule.lag(shared.rt.now()) >= shared.options.write_back_after;
        let pressed = self.draining.get() > 0 || self.is_pressed();
        schedule.reason(&shared.pinned.borrow(), pressed, aged)
    }

    /// One round: a batch is written back, is durable there, and its tracks are free.
    async fn round(&self, reason: Reason) -> Result<(), EngineError> {
        let shared = &*self.shared;
        let durable = shared.trail.durable();
        if self.range_is_read(durable) {
            shared.access.changed.wait().await;
            return Ok(());
        }
        let blocks_max = Schedule::blocks_max(
            shared.home.round_bytes_max(),
            shared.shape.get().block_size,
            reason,
        );
        let limit = self.schedule.borrow().limit;
        let chosen = match limit {
            Some(limit) => self.ready_among_oldest(limit.min(blocks_max), durable),
            None => self.sample(durable, reason).await,
        };
        let is_chosen = limit.is_some() || !chosen.is_empty();
        let busy = shared.access.busy();
        let mut oldest = Vec::new();
        let order = if is_chosen {
            Order::Explicit(&chosen)
        } else {
            self.schedule.borrow_mut().order(
                &shared.shape.get(),
                &shared.pinned.borrow(),
                durable,
                blocks_max,
                &busy,
                &mut oldest,
            )
        };
        let begun = shared.rt.now();
        let bring = |order, blocks_max| {
            let is_busy = |block| busy.contains(block);
            let (pinned, trail) = (&shared.pinned, &shared.trail);
            write_back_batch(
                &*shared.home,
                pinned,
                trail,
                durable,
                order,
                blocks_max,
                is_busy,
            )
        };
        let round = async {
            let mut freed = None;
            if limit.is_some() {
                // Zeroes make space below. A block for which there is none would end the round before all of them are at home.
                freed = bring(Order::Explicit(&[]), 0).await?;
                shared.trail.advance();
            }
            // Zeroes at home are a round, also when no block may follow.
            Ok(bring(order, blocks_max).await?.or(freed))
        };
        match round.await {
            Ok(None) => self.wait_for_ready(durable).await,
            Ok(Some(done)) => {
                self.finished(begun, reason, is_chosen, blocks_max, &done);
                Ok(())
            }
            Err(error) => self.refused(error, durable, blocks_max).await,
        }
    }

    /// Waits after a round of at most `blocks_max` blocks for which the home or the medium below has no space.
    ///
    /// # Errors
    /// When it has failed for another reason.
    async fn refused(
        &self,
        error: HomeError,
        durable: Lsn,
        blocks_max: usize,
    ) -> Result<(), EngineError> {
        let shared = &*self.shared;
        match error {
            HomeError::NoSpace { .. } => {
                let order = shared.shape.get().order;
                let has_to_wait = self.schedule.borrow_mut().refused(order, blocks_max);
                self.note_no_space(&error);
                if has_to_wait {
                    shared.rt.sleep(TICK).await;
                }
                Ok(())
            }
            full @ HomeError::Full { .. } => {
                if self.schedule.borrow().awaits_zeroes(durable) {
                    return self.wait_for_ready(durable).await;
                }
                self.note_no_space(&full);
                // Waiting writers get the error.
                self.schedule.borrow_mut().full = Some(full);
                shared.access.changed.notify();
                shared.refusals.notify();
                shared.rt.sleep(TICK).await;
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    fn note_no_space(&self, error: &HomeError) {
        if !self.space_ended.replace(true) {
            self.shared.events.note(StoreEvent::SpaceEnded {
                why: error.to_string(),
            });
        }
    }

    /// The blocks of the round, if the home chooses them.
    async fn sample(&self, durable: Lsn, reason: Reason) -> Vec<u64> {
        let shared = &*self.shared;
        let (most, block_size) = (shared.home.sample_max(), shared.shape.get().block_size);
        if most == 0 {
            return Vec::new();
        }
        let most = Schedule::blocks_max(most * block_size, block_size, reason);
        let ready = self.ready_among_oldest(most, durable);
        shared.home.sample(ready).await
    }

    /// Those of the `most` oldest blocks that may be written back now, ascending.
    fn ready_among_oldest(&self, most: usize, durable: Lsn) -> Vec<u64> {
        let (pinned, busy) = (self.shared.pinned.borrow(), self.shared.access.busy());
        let mut ready = Vec::from(pinned.oldest(most));
        ready.retain(|block| pinned.is_ready(*block, durable) && !busy.contains(*block));
        ready.sort_unstable();
        ready
    }

    fn finished(
        &self,
        begun: Nanos,
        reason: Reason,
        is_chosen: bool,
        blocks_max: usize,
        done: &Done,
    ) {
        let shared = &*self.shared;
        let (now, order) = (shared.rt.now(), shared.shape.get().order);
        let (is_empty, has_space) = {
            let (mut schedule, pinned) = (self.schedule.borrow_mut(), shared.pinned.borrow());
            schedule.finished(now, order, reason, is_chosen, done, &pinned);
            schedule.had_space(done.blocks as usize, blocks_max, pinned.is_empty());
            (pinned.is_empty(), schedule.limit.is_none())
        };
        if has_space && self.space_ended.replace(false) {
            shared.events.note(StoreEvent::SpaceFound);
        }
        if is_empty {
            self.throttle.reset();
        }
        // A round of the home's choice has another pace.
        if order == RoundOrder::OldestFirst && !is_chosen {
            let bytes = done.blocks * shared.shape.get().block_size as u64;
            self.throttle.drained(now.since(begun), bytes);
        }
        let add = |counter: &Cell<u64>, count| counter.set(counter.get() + count);
        add(&self.counters.rounds, 1);
        add(&self.counters.blocks, done.blocks);
        add(&self.counters.superseded, done.superseded);
        self.renew_holds(done.blocks);
        shared.trail.advance();
    }

    /// Lets the log free commits of blocks that are never ready to be written back, after a round that has written `blocks`.
    fn renew_holds(&self, blocks: u64) {
        let shared = &*self.shared;
        let mut pinned = shared.pinned.borrow_mut();
        let written = self.unrenewed.get() + blocks;
        self.unrenewed.set(written);
        if written * RENEWED_SHARE < pinned.block_count() as u64 {
            return;
        }
        self.unrenewed.set(0);
        let (trail, most) = (&shared.trail, written.div_ceil(RENEWED_SHARE));
        let durable = trail.durable();
        let before = Lsn(durable
            .0
            .saturating_sub(trail.retained_commits() as u64 / 2));
        pinned.renew(before, durable, most as usize, trail);
    }

    /// No block may be written back yet: makes the log durable, or waits for it to be written.
    async fn wait_for_ready(&self, durable: Lsn) -> Result<(), EngineError> {
        let trail = &self.shared.trail;
        if trail.durable() > durable {
            return Ok(());
        }
        let progress = trail.progress();
        if trail.flushed() > durable {
            trail.sync_written().await?;
            return Ok(());
        }
        trail.check()?;
        if trail.appended() > durable {
            self.end_turns();
            if self.shared.memory.waiting() > 0 || trail.is_full() {
                // The round waits for these commits, and writers for the round: no more of them come.
                trail.write_now();
            }
            progress.await;
        } else {
            // Everything is durable and yet nothing may be written back: all of it is being read.
            self.shared.access.changed.wait().await;
        }
        Ok(())
    }

    /// True when a range that would be written back meets a read.
    fn range_is_read(&self, durable: Lsn) -> bool {
        let pinned = self.shared.pinned.borrow();
        let mut ranges = pinned.ranges_up_to(durable);
        ranges.any(|(first, count)| self.shared.access.is_read(first, first + count))
    }
}

/// Why a round starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Memory or log are short, or a caller waits for everything to be at home.
    Pressure,
    /// Something has been pinned for long.
    Age,
}

/// The state of the write-back.
#[derive(Default)]
pub(crate) struct Schedule {
    /// The block from which the sweep goes on ([`RoundOrder::Sweep`]).
    cursor: u64,
    /// Blocks that are written back next, oldest first ([`RoundOrder::OldestFirst`]).
    queue: VecDeque<u64>,
    /// Since when something has been pinned.
    since: Option<Nanos>,
    /// The last commit of zeroes, which may make space at home.
    last_zeroes: Lsn,
    /// While the medium below is full: the most blocks of a round. These are the oldest, for which the log keeps the most.
    pub limit: Option<usize>,
    /// The home is full: only zeroes can help.
    pub full: Option<HomeError>,
}

impl Schedule {
    /// `pinned` is what recovery has left.
    pub fn new(now: Nanos, pinned: &Pinned) -> Self {
        Self {
            since: (!pinned.is_empty()).then_some(now),
            ..Self::default()
        }
    }

    /// Notes commit `lsn`.
    pub fn committed(&mut self, now: Nanos, lsn: Lsn, has_zeroes: bool) {
        self.since.get_or_insert(now);
        if has_zeroes {
            (self.last_zeroes, self.full) = (lsn, None);
        }
    }

    /// True when the last commit of zeroes, which may make space at home, is not durable and so has not gone home.
    pub fn awaits_zeroes(&self, durable: Lsn) -> bool {
        self.last_zeroes > durable
    }

    /// For how long something has been pinned.
    pub fn lag(&self, now: Nanos) -> Nanos {
        self.since.map_or(Nanos(0), |since| now.since(since))
    }

    /// The reason to start a round now, if there is one.
    pub fn reason(&self, pinned: &Pinned, pressed: bool, aged: bool) -> Option<Reason> {
        if pinned.is_empty() {
            return None;
        }
        if pressed {
            return Some(Reason::Pressure);
        }
        aged.then_some(Reason::Age)
    }

    /// Blocks that a round takes at most.
    pub fn blocks_max(round_bytes_max: usize, block_size: usize, reason: Reason) -> usize {
        let bytes = match reason {
            Reason::Pressure => round_bytes_max,
            Reason::Age => round_bytes_max.min(IDLE_ROUND_BYTES),
        };
        bytes / block_size
    }

    /// Which blocks the next round takes, for [`Pinned::start_batch`]: up to `blocks_max`, of those that may be written back
    /// and are not `busy`.
    pub fn order<'a>(
        &mut self,
        shape: &HomeShape,
        pinned: &Pinned,
        durable: Lsn,
        blocks_max: usize,
        busy: &Busy,
        oldest: &'a mut Vec<u64>,
    ) -> Order<'a> {
        match shape.order {
            RoundOrder::Sweep => Order::Sweep(self.cursor),
            RoundOrder::OldestFirst => {
                let chosen_max = CHOSEN_BYTES / shape.block_size;
                *oldest = self.next_oldest(pinned, durable, blocks_max, chosen_max, busy);
                Order::Explicit(oldest)
            }
        }
    }

    /// The next blocks by age, ascending.
    fn next_oldest(
        &mut self,
        pinned: &Pinned,
        durable: Lsn,
        blocks_max: usize,
        chosen_max: usize,
        busy: &Busy,
    ) -> Vec<u64> {
        let (mut next, mut not_yet) = (Vec::new(), Vec::new());
        let mut left = blocks_max * BLOCK_COST;
        for chosen in [false, true] {
            if chosen {
                not_yet.clear();
                self.queue = pinned.oldest(chosen_max);
            }
            while let Some(block) = self.queue.pop_front_if(|block| pinned.cost(*block) <= left) {
                match pinned.is_ready(block, durable) && !busy.contains(block) {
                    true => {
                        left -= pinned.cost(block);
                        next.push(block);
                    }
                    false if pinned.get(block).is_some() => not_yet.push(block),
                    false => {}
                }
            }
            if !next.is_empty() {
                break;
            }
        }
        // They stay the oldest, because the log also keeps their earlier versions.
        not_yet
            .drain(..)
            .rev()
            .for_each(|block| self.queue.push_front(block));
        next.sort_unstable();
        next
    }

    /// Notes a round of up to `blocks_max` blocks for which the medium below has no space. A home that writes in place
    /// gets smaller rounds, down to one block: what is freed below may be enough for a few blocks and never for all of a
    /// large round. True when only time may help.
    pub fn refused(&mut self, order: RoundOrder, blocks_max: usize) -> bool {
        let last = self.limit.map_or(blocks_max, |limit| limit.min(blocks_max));
        let next = match order {
            RoundOrder::Sweep => (last / 2).max(1),
            RoundOrder::OldestFirst => last,
        };
        self.limit = Some(next);
        next == last
    }

    /// Notes that the medium below had space for a round of `blocks`. The next one is larger. The shortage has ended when
    /// all that was ready or a round of `blocks_max` is at home.
    pub fn had_space(&mut self, blocks: usize, blocks_max: usize, is_empty: bool) {
        self.limit = match self.limit {
            _ if is_empty => None,
            Some(limit) if blocks == 0 => Some(limit),
            Some(limit) if blocks == limit && limit < blocks_max => Some(limit * 2),
            _ => None,
        };
    }

    /// Notes a round that has succeeded; `pinned` is the set after it. Of a choice of blocks (`is_chosen`), older ones or
    /// the rest of the sweep may be left.
    pub fn finished(
        &mut self,
        now: Nanos,
        order: RoundOrder,
        reason: Reason,
        is_chosen: bool,
        done: &Done,
        pinned: &Pinned,
    ) {
        let passed = done.next.filter(|_| !is_chosen);
        let next = passed.unwrap_or(self.cursor);
        // Once the sweep has passed all blocks, every block that is still pinned is younger than the sweep.
        let swept = reason == Reason::Pressure
            || match order {
                RoundOrder::Sweep => next <= self.cursor && !is_chosen,
                RoundOrder::OldestFirst => self.queue.is_empty() && !is_chosen,
            };
        self.cursor = next;
        self.full = None;
        if pinned.is_empty() {
            self.since = None;
        } else if swept {
            self.since = Some(now);
        }
    }
}

#[derive(Default)]
pub(crate) struct Throttle {
    /// The time that the last rounds took, and the bytes that they brought home; both decay.
    took: Cell<u64>,
    bytes: Cell<u64>,
    /// Average pressure of the last writes, in parts of [`PRESSURE_WRITES`] * [`PRESSURE_MAX`].
    pressure: Cell<u64>,
    /// When the next write may go on.
    turn: Cell<Nanos>,
}

/// How far `used` is on the way from `from` to `end`, in parts of [`PRESSURE_MAX`]. The resource is short from `from` on,
/// and used up at `end`.
pub(crate) fn pressure(used: u64, from: u64, end: u64) -> u64 {
    let all = end.saturating_sub(from).max(1);
    used.saturating_sub(from).min(all) * PRESSURE_MAX / all
}

impl Throttle {
    /// Notes a round that has written `bytes` home.
    pub fn drained(&self, took: Nanos, bytes: u64) {
        let mean = |sum: &Cell<u64>, new: u64| sum.set(sum.get() - sum.get() / PACE_ROUNDS + new);
        mean(&self.took, took.0);
        mean(&self.bytes, bytes);
    }

    /// Everything is at home: the pressure of the last writes says nothing about the next ones.
    pub fn reset(&self) {
        self.pressure.set(0);
    }

    /// Forgets the turns that were given: their writers do not wait any more.
    pub fn end_turns(&self) {
        self.turn.set(Nanos(0));
    }

    /// How long a write of `bytes` is delayed.
    pub fn wait(&self, now: Nanos, bytes: u64, pressure: u64) -> Nanos {
        let mean = self.pressure.get();
        self.pressure.set(mean - mean / PRESSURE_WRITES + pressure);
        let pressure = mean / PRESSURE_WRITES;
        if pressure == 0 || self.bytes.get() == 0 {
            return Nanos(0);
        }
        let turn = Nanos(self.turn.get().0.max(now.0));
        let at_pace =
            u128::from(bytes) * u128::from(self.took.get()) / u128::from(self.bytes.get());
        let cost = at_pace * u128::from(PRESSURE_MAX / 2 + pressure) / u128::from(PRESSURE_MAX);
        let wait = turn.since(now);
        if wait.0 < DELAY_MAX.0 {
            self.turn
                .set(turn + cost.min(u128::from(DELAY_MAX.0)) as u64);
        }
        if wait.0 < DELAY_MIN.0 {
            Nanos(0)
        } else {
            Nanos(wait.0.min(DELAY_MAX.0))
        }
    }
}
