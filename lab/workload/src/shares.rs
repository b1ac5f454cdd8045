//! How often each page was accessed, and how uneven that was.

/// Accesses of one kind to each page.
#[derive(Default)]
pub struct PageCounts {
    counts: Vec<u32>,
}

impl PageCounts {
    /// Counts an access to `page`.
    #[inline]
    pub fn add(&mut self, page: u64) {
        let index = page as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add(1);
    }

    /// The pages with an access, in ascending order, and how many each has.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = (0..).zip(&self.counts);
        counts.filter_map(|(page, count)| (*count > 0).then_some((page, u64::from(*count))))
    }

    /// For each of `tops`, the share of the accesses that went to this share of `pages` pages: those with the most
    /// accesses. Pages without an access count among the pages.
    pub fn shares(mut self, pages: u64, tops: &[f64]) -> Vec<f64> {
        self.counts.sort_unstable_by(|one, other| other.cmp(one));
        let sum = |counts: &[u32]| -> u64 { counts.iter().map(|count| u64::from(*count)).sum() };
        let total = sum(&self.counts).max(1) as f64;
        let share = |top: &f64| {
            let first = ((pages as f64 * top).round() as usize).min(self.counts.len());
            sum(&self.counts[..first]) as f64 / total
        };
        tops.iter().map(share).collect()
    }
}
