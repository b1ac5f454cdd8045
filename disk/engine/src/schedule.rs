//! When the write-back starts a round, and with which blocks. Without I/O and without await: time comes as an argument.

use crate::access::Busy;
use crate::pinned::{Order, Pinned};
use crate::round::Done;
use std::collections::VecDeque;
use tonearm_base::{Lsn, Nanos};
use tonearm_layout::{HomeError, HomeShape, RoundOrder};

/// Bytes of one round when neither memory nor log are short: a read waits for little.
const IDLE_ROUND_BYTES: usize = 4 << 20;
/// Bytes of the oldest blocks that are chosen at once, for several rounds: the choice looks at all pinned blocks.
const CHOSEN_BYTES: usize = 32 << 20;

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
    /// Blocks that go home next, oldest first ([`RoundOrder::OldestFirst`]).
    queue: VecDeque<u64>,
    /// Since when something has been pinned.
    since: Option<Nanos>,
    /// The last commit of zeroes, which may make space at home.
    last_zeroes: Lsn,
    /// Callers that wait for everything to be at home.
    pub draining: u32,
    /// The medium below is full: the round is tried again from time to time.
    pub no_space: bool,
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

    /// Commit `lsn` is made.
    pub fn committed(&mut self, now: Nanos, lsn: Lsn, has_zeroes: bool) {
        self.since.get_or_insert(now);
        if has_zeroes {
            (self.last_zeroes, self.full) = (lsn, None);
        }
    }

    /// True when a commit that may make space at home is not durable yet, and so has not been tried.
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
        if self.draining > 0 || pressed {
            return Some(Reason::Pressure);
        }
        aged.then_some(Reason::Age)
    }

    /// Blocks that a round takes at most.
    pub fn blocks_max(shape: &HomeShape, reason: Reason) -> usize {
        let bytes = match reason {
            Reason::Pressure => shape.round_bytes_max,
            Reason::Age => shape.round_bytes_max.min(IDLE_ROUND_BYTES),
        };
        bytes / shape.block_size
    }

    /// Which blocks the next round takes, for [`Pinned::start_batch`]: up to `blocks_max`, of those that may go home
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
                Order::These(oldest)
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
        for chosen in [false, true] {
            if chosen {
                not_yet.clear();
                self.queue = pinned.oldest(chosen_max);
            }
            while next.len() < blocks_max
                && let Some(block) = self.queue.pop_front()
            {
                match pinned.is_ready(block, durable) && !busy.contains(block) {
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
            .for_each(|block| self.queue.push_front(block));
        next.sort_unstable();
        next
    }

    /// A round has ended well; `pinned` is what it has left.
    pub fn finished(
        &mut self,
        now: Nanos,
        order: RoundOrder,
        reason: Reason,
        done: &Done,
        pinned: &Pinned,
    ) {
        let next = done.next.unwrap_or(self.cursor);
        // Once the sweep has come round, what is pinned is younger than it.
        let swept = reason == Reason::Pressure
            || match order {
                RoundOrder::Sweep => next <= self.cursor,
                RoundOrder::OldestFirst => self.queue.is_empty(),
            };
        self.cursor = next;
        (self.no_space, self.full) = (false, None);
        if pinned.is_empty() {
            self.since = None;
        } else if swept {
            self.since = Some(now);
        }
    }
}
