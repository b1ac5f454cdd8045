//! How old objects are. The clock of the machine may be wrong, or be set, while the archiver runs or while none does. Nothing
//! that is younger than it should be may be merged or deleted for that: what is kept for longer does no harm. So an age is
//! never more than what is known to have passed:
//!
//! - since this opening, the time that passed by a clock that cannot be set;
//! - before this opening, what the stamps of the objects of each epoch differ by. A writer begins another epoch with an object
//!   whose stamp is later than the time that has passed since the first object of the epoch allows. So the stamps
//!   of one epoch differ by no more than has passed, and those of two epochs say nothing of each other: the clock may have been set.
//!   Nor does the time between two openings count, because only the clock could show it.

use std::collections::{BTreeMap, VecDeque};
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
    /// The stamp of the first object of the epoch, in milliseconds since 1970, and when it was put.
    epoch: Option<(u64, Nanos)>,
}

/// The time that is known to have passed before this opening.
pub(super) struct Passed {
    /// Milliseconds from the first object to the one with this number.
    until: BTreeMap<u64, u64>,
    /// Milliseconds from the first object to the last one.
    whole: u64,
}

impl Ages {
    /// The archive is opened. Its last object is `end`.
    pub(super) fn open(&mut self, now: Nanos, unix_ms: u64, end: Option<&ArchiveHeader>) {
        self.opened = now;
        // A stamp in the future means that a clock was wrong.
        self.end = end.map_or((0, 0), |end| (end.number, end.unix_ms.min(unix_ms)));
        self.put.clear();
        (self.grain, self.looked, self.epoch) = (Nanos::from_millis(10), None, None);
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

    /// True when an object with this stamp, which is put now, must begin another epoch: the clock was set.
    pub(super) fn must_begin_epoch(&self, stamp_ms: u64, now: Nanos) -> bool {
        self.epoch.is_some_and(|(first_ms, at)| {
            let most_ms = first_ms.saturating_add(millis(now, at) + JUMP_MS);
            stamp_ms > most_ms || stamp_ms.saturating_add(JUMP_MS) < first_ms
        })
    }

    /// An object with this stamp was put at `now`. It `begins` an epoch.
    pub(super) fn note_epoch(&mut self, stamp_ms: u64, now: Nanos, begins: bool) {
        if begins || self.epoch.is_none() {
            self.epoch = Some((stamp_ms, now));
        }
    }

    /// What the stamps of `links`, ascending, show of the time before this opening.
    pub(super) fn passed<'a>(&self, links: impl Iterator<Item = &'a ArchiveHeader>) -> Passed {
        let (mut until, mut whole) = (BTreeMap::new(), 0);
        let mut reached = None::<(u64, u64)>;
        for link in links.filter(|link| link.number <= self.end.0) {
            let reached_ms = match reached {
                Some((epoch, reached_ms)) if epoch == link.epoch => reached_ms,
                _ => link.unix_ms,
            };
            // A stamp counts no less than an earlier one: the clock may have been set back for a while.
            whole += link.unix_ms.saturating_sub(reached_ms);
            reached = Some((link.epoch, link.unix_ms.max(reached_ms)));
            until.insert(link.number, whole);
        }
        Passed { until, whole }
    }

    /// The least age of object `number`, in milliseconds.
    pub(super) fn of(&self, number: u64, passed: &Passed, now: Nanos) -> u64 {
        if number <= self.end.0 {
            let before = passed.until.get(&number).map(|until| passed.whole - until);
            return millis(now, self.opened) + before.unwrap_or(0);
        }
        let note = self.put.partition_point(|(last, _)| *last < number);
        self.put.get(note).map_or(0, |(_, at)| millis(now, *at))
    }

    /// The age of object `number` as its stamp has it. Only for what does no harm if it is wrong.
    pub(super) fn by_stamp(&self, number: u64, stamp_ms: u64, now: Nanos) -> u64 {
        let nothing = Passed {
            until: BTreeMap::new(),
            whole: 0,
        };
        let before = if number <= self.end.0 {
            self.end.1.saturating_sub(stamp_ms)
        } else {
            0
        };
        self.of(number, &nothing, now) + before
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
