//! Takes the requests that the parsers have read.

use crate::error::Reason;
use crate::record::Record;
use std::collections::VecDeque;
use tonearm_base::Nanos;

/// How far an arrival may lie before the previous one. Logs of several processors, and records that were written when a
/// request was done, are slightly out of order.
const BACK_MAX_NS: u64 = 10_000_000_000;

/// Records that are ready, in order of arrival.
#[derive(Default)]
pub(crate) struct Sink {
    ready: VecDeque<Record>,
    last: Nanos,
    /// Number of the line that is being read.
    pub line: u64,
    /// Requests that have no meaning for a drive of this project: discards, zeroings, and those of zero bytes.
    pub skipped: u64,
    /// Arrivals that were moved up to the previous one.
    pub clamped: u64,
}

impl Sink {
    pub fn push(&mut self, record: Record) {
        self.ready.push_back(record);
    }

    pub fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// The arrival that goes for `at`; invariant 3.
    pub fn arrival(&mut self, at: Nanos) -> Result<Nanos, Reason> {
        if at < self.last {
            let back = self.last.since(at);
            if back.0 > BACK_MAX_NS {
                return Err(Reason::BackInTime { back });
            }
            self.clamped += 1;
        }
        self.last = self.last.max(at);
        Ok(self.last)
    }
}
