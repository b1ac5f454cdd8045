//! A set of stripes, as disjoint runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Start and end of each run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowSet(BTreeMap<u64, u64>);

impl RowSet {
    pub fn of(rows: Range<u64>) -> Self {
        let mut set = Self::default();
        set.insert(rows);
        set
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    pub fn contains(&self, row: u64) -> bool {
        let run = self.0.range(..=row).next_back();
        run.is_some_and(|(_, end)| row < *end)
    }

    pub fn insert(&mut self, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        let (mut start, mut end) = (rows.start, rows.end);
        while let Some((first, stop)) = self.0.range(..=end).next_back().map(|(a, b)| (*a, *b)) {
            if stop < start {
                break;
            }
            (start, end) = (start.min(first), end.max(stop));
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    pub fn remove(&mut self, rows: Range<u64>) {
        while let Some((first, stop)) = self.0.range(..rows.end).next_back().map(|(a, b)| (*a, *b))
        {
            if stop <= rows.start {
                break;
            }
            self.0.remove(&first);
            if first < rows.start {
                self.0.insert(first, rows.start);
            }
            if stop > rows.end {
                self.0.insert(rows.end, stop);
            }
        }
    }
}
