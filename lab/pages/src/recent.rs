//! Means of the most recent values.

/// Values of a mean (HyLog 4.2).
const RECENT: usize = 10_000;

/// The mean of the last 10,000 values; of the first ones, a prior.
pub(crate) struct Recent {
    prior: f64,
    values: Vec<u32>,
    next: usize,
    sum: u64,
}

impl Recent {
    pub fn new(prior: f64) -> Self {
        Self {
            prior,
            values: Vec::with_capacity(RECENT),
            next: 0,
            sum: 0,
        }
    }

    #[inline]
    pub fn note(&mut self, value: u64) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.sum += u64::from(value);
        if self.values.len() < RECENT {
            self.values.push(value);
            return;
        }
        self.sum -= u64::from(self.values[self.next]);
        self.values[self.next] = value;
        self.next = (self.next + 1) % RECENT;
    }

    /// The mean. A hundred values outweigh the prior.
    pub fn mean(&self) -> f64 {
        match self.values.len() {
            0..100 => self.prior,
            count => self.sum as f64 / count as f64,
        }
    }
}
