//! The bound on the time from a commit until it is durable (Durable WAL 5.7).
//!
//! A flush is asked for when the oldest commit that is not durable has waited for half of the bound. The other half is
//! for the device. A commit that just misses a flush waits for that one and for its own, so the bound is kept as long as
//! the device makes a commit durable within half of it.
//!
//! [`Bound`] is the policy, without I/O: time comes as an argument. `bound_task.rs` asks for the flushes.

use std::collections::VecDeque;
use tonearm_base::{Lsn, Nanos};

/// Commits that were made at one moment.
struct Made {
    at: Nanos,
    last: Lsn,
    missed: bool,
}

/// How long commits took to become durable, where a bound is set.
pub(crate) struct Bound {
    max: Nanos,
    /// Commits that are not durable, oldest first.
    waiting: VecDeque<Made>,
    durable: Lsn,
    delay_max: Nanos,
    pub(super) missed: u64,
}

impl Bound {
    /// A bound of `max` for commits after `durable`.
    pub fn new(max: Nanos, durable: Lsn) -> Self {
        Self {
            max,
            waiting: VecDeque::new(),
            durable,
            delay_max: Nanos(0),
            missed: 0,
        }
    }

    /// Notes commit `lsn`.
    pub fn committed(&mut self, now: Nanos, lsn: Lsn) {
        match self.waiting.back_mut() {
            Some(made) if made.at == now => made.last = lsn,
            _ => self.waiting.push_back(Made {
                at: now,
                last: lsn,
                missed: false,
            }),
        }
    }

    /// Notes that the commits up to `durable` are durable.
    pub fn durable(&mut self, now: Nanos, durable: Lsn) {
        self.overdue(now);
        while let Some(made) = self.waiting.pop_front_if(|made| made.last <= durable) {
            self.delay_max = Nanos(self.delay_max.0.max(now.since(made.at).0));
            self.durable = made.last;
        }
    }

    /// Counts the commits that the bound is missed for, each once, also while they are not durable.
    pub fn overdue(&mut self, now: Nanos) {
        let mut before = self.durable;
        for made in &mut self.waiting {
            if now.since(made.at) <= self.max {
                break;
            }
            if !made.missed {
                made.missed = true;
                self.missed += made.last - before;
            }
            before = made.last;
        }
    }

    /// When the log is to be made durable; `None` while everything is durable.
    pub fn flush_at(&self) -> Option<Nanos> {
        let oldest = self.waiting.front()?;
        Some(oldest.at + self.max.0 / 2)
    }

    /// The oldest commit that is not durable, with those that were made at the same moment.
    pub fn oldest(&self) -> Option<Lsn> {
        self.waiting.front().map(|made| made.last)
    }

    /// When the bound is missed for the next commits, if they are not durable by then.
    pub fn missed_at(&self) -> Option<Nanos> {
        let next = self.waiting.iter().find(|made| !made.missed)?;
        Some(next.at + self.max.0 + 1)
    }

    /// The longest time that a commit took, and the number of commits that took longer than the bound.
    pub fn observed(&self, now: Nanos) -> (Nanos, u64) {
        let oldest = self.waiting.front();
        let waits = oldest.map_or(0, |made| now.since(made.at).0);
        (Nanos(self.delay_max.0.max(waits)), self.missed)
    }
}
