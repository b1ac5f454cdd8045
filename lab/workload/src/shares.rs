//! How uneven the writes of a run were.

/// Writes to each page.
#[derive(Default)]
pub struct WriteCounts {
    counts: Vec<u32>,
}

impl WriteCounts {
    /// Counts a write to `page`.
    #[inline]
    pub fn add(&mut self, page: u64) {
        let index = page as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add(1);
    }

    /// For each of `tops`, the share of the writes that went to this share of `pages` pages: those with the most
    /// writes. Pages without a write count among the pages.
    pub fn shares(mut self, pages: u64, tops: &[f64]) -> Vec<f64> {
        self.counts.sort_unstable_by(|one, other| other.cmp(one));
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let share = |top: &f64| {
            let first = ((pages as f64 * top).round() as usize).min(self.counts.len());
            let writes: u64 = self.counts[..first]
                .iter()
                .map(|count| u64::from(*count))
                .sum();
            writes as f64 / total.max(1) as f64
        };
        tops.iter().map(share).collect()
    }
}
