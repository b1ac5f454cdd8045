//! Moves sectors between buffer and host: one after the other, none before it is in the buffer.

use crate::mechanism::Run;
use tonearm_base::Nanos;

/// A transfer in progress.
pub struct Transfer {
    /// When the last sector so far has crossed.
    pub done: u64,
    /// Nanoseconds of one sector.
    sector: u64,
}

impl Transfer {
    /// A transfer that may begin at `from`.
    pub fn new(from: Nanos, sector: Nanos) -> Self {
        Self {
            done: from.0,
            sector: sector.0,
        }
    }

    /// Moves `count` sectors, all of which are in the buffer at `at`.
    #[inline]
    pub fn ready(&mut self, at: Nanos, count: u32) {
        self.done = self.done.max(at.0) + u64::from(count) * self.sector;
    }

    /// Moves `count` sectors of `run` from its `skip`-th on, each when it has passed.
    #[inline]
    pub fn stream(&mut self, run: &Run, skip: u32, count: u32) {
        if count == 0 {
            return;
        }
        let all = u64::from(count) * self.sector;
        // The slower of bus and medium determines the time. Both are even, so the first or the last sector decides.
        let first = run.passed(skip + 1).0 + all;
        let last = run.passed(skip + count).0 + self.sector;
        self.done = (self.done + all).max(first).max(last);
    }
}
