//! Which archived states can be had. When a range was read so late that later commits had changed what a commit had moved, it
//! has the content of those. Then the states from that commit on, before the last of those commits, cannot be had.

use tonearm_base::Lsn;

/// Intervals that are kept. Marks for older commits than those of the last ones do not come any more.
const INTERVALS_MAX: usize = 256;

/// The states that cannot be had.
#[derive(Default)]
pub(super) struct Exact {
    /// From the first commit on, before the second. Ascending.
    intervals: Vec<(Lsn, Lsn)>,
}

impl Exact {
    /// The states from `from` on, before `until`, cannot be had.
    pub(super) fn note(&mut self, from: Lsn, until: Lsn) {
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.remove(0);
        }
        self.intervals.push((from.max(Lsn(1)), until));
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.intervals.clear();
    }

    /// The last commit up to `archived` whose state can be had.
    pub(super) fn last(&self, archived: Lsn) -> Lsn {
        let mut last = archived;
        while let Some((from, _)) = self.at(last) {
            last = Lsn(from.0 - 1);
        }
        last
    }

    /// True when the state at `lsn` can be had.
    pub(super) fn has(&self, lsn: Lsn) -> bool {
        self.at(lsn).is_none()
    }

    /// The commit from which on states can be had again, if that is later than `lsn`.
    pub(super) fn pending(&self, lsn: Lsn) -> Option<Lsn> {
        let ends = self.intervals.iter().map(|(_, until)| *until);
        ends.max().filter(|until| *until > lsn)
    }

    fn at(&self, lsn: Lsn) -> Option<(Lsn, Lsn)> {
        let mut intervals = self.intervals.iter();
        intervals
            .find(|(from, until)| *from <= lsn && lsn < *until)
            .copied()
    }
}

#[cfg(test)]
#[path = "exact_test.rs"]
mod exact_test;
