//! How old objects are. The clock of the machine may be wrong, or be set while the archiver runs. Nothing that is younger than
//! it should be may be merged or deleted for that. So an age is never more than what is known to have passed:
//!
//! - since this opening, the time that passed by a clock that cannot be set;
//! - before this opening, the time from an object to the end of the chain as it was found, as their stamps have it. A stamp
//!   counts no less than an earlier one does: the clock may have been set back for a while. The time between the
//!   openings does not count, because only the clock could tell it.

use std::collections::VecDeque;
use tonearm_base::Nanos;
use tonearm_format::ArchiveHeader;

/// The difference of both clocks from which on the clock was set, in milliseconds.
const JUMP_MS: u64 = 2_000;
/// Notes of objects that were put.
const NOTES_MAX: usize = 1 << 16;

/// Ages of the objects of a chain.
#[derive(Default)]
pub(super) struct Ages {
    /// When the archive was opened.
    opened: Nanos,
    /// The last object at that time, and its stamp in milliseconds since 1970.
    end: (u64, u64),
    /// All objects up to the number were put by then. Ascending.
    put: VecDeque<(u64, Nanos)>,
    /// Objects that were put within this time share a note.
    grain: Nanos,
    /// The clock, in milliseconds since 1970, and the other one, when they were looked at last.
    looked: Option<(u64, Nanos)>,
}

impl Ages {
    /// The archive is opened. Its last object is `end`.
    pub(super) fn open(&mut self, now: Nanos, unix_ms: u64, end: Option<&ArchiveHeader>) {
        self.opened = now;
        // A stamp in the future tells of a clock that was wrong.
        self.end = end.map_or((0, 0), |end| (end.number, end.unix_ms.min(unix_ms)));
        self.put.clear();
        (self.grain, self.looked) = (Nanos::from_millis(10), None);
    }

    /// Object `number` of the chain was put.
    pub(super) fn note(&mut self, number: u64, now: Nanos) {
        let grain = self.grain.0.max(1);
        match self.put.back_mut() {
            Some(last) if last.1.0 / grain == now.0 / grain => *last = (number, now),
            _ => self.put.push_back((number, now)),
        }
        if self.put.len() > NOTES_MAX {
            // The later note of two says less of both.
            self.grain = Nanos(2 * grain);
            let mut is_later = true;
            self.put.retain(|_| {
                is_later = !is_later;
                is_later
            });
        }
    }

    /// What counts as the stamp of `link`. `reached_ms` is what the links before it have reached. A stamp after the end of the
    /// chain is wrong, and says nothing of those that follow.
    pub(super) fn stamp(&self, link: &ArchiveHeader, reached_ms: &mut u64) -> u64 {
        if link.unix_ms > self.end.1 {
            return link.unix_ms;
        }
        *reached_ms = link.unix_ms.max(*reached_ms);
        *reached_ms
    }

    /// The least age of object `number`, in milliseconds. `stamp_ms` is what [`Ages::stamp`] gives.
    pub(super) fn of(&self, number: u64, stamp_ms: u64, now: Nanos) -> u64 {
        let (end, end_ms) = self.end;
        if number <= end {
            return millis(now, self.opened) + end_ms.saturating_sub(stamp_ms);
        }
        let note = self.put.partition_point(|(last, _)| *last < number);
        self.put.get(note).map_or(0, |(_, at)| millis(now, *at))
    }

    /// By how many milliseconds the clock was set since the last look, if it was.
    pub(super) fn jump(&mut self, now: Nanos, unix_ms: u64) -> Option<i64> {
        let (was_ms, was) = self.looked.replace((unix_ms, now))?;
        let expected = was_ms.saturating_add(millis(now, was));
        let is_jump = expected.abs_diff(unix_ms) > JUMP_MS;
        is_jump.then(|| unix_ms as i64 - expected as i64)
    }
}

fn millis(now: Nanos, before: Nanos) -> u64 {
    now.0.saturating_sub(before.0) / 1_000_000
}

#[cfg(test)]
#[path = "ages_test.rs"]
mod ages_test;
