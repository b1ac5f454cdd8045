//! Response times and their statistics.

use tonearm_base::Nanos;

/// Milliseconds.
pub fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Response times of one kind of request.
#[derive(Clone, Default)]
pub struct Times(Vec<Nanos>);

impl Times {
    /// One more.
    pub fn push(&mut self, time: Nanos) {
        self.0.push(time);
    }

    /// Number of times.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The mean in milliseconds; 0 when there is none.
    pub fn mean_ms(&self) -> f64 {
        let sum: u128 = self.0.iter().map(|time| u128::from(time.0)).sum();
        sum as f64 / 1e6 / self.len().max(1) as f64
    }

    /// The time in milliseconds that a `share` of all do not exceed.
    ///
    /// # Panics
    /// When there is none.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        ms(sorted[rank.clamp(1, sorted.len()) - 1])
    }

    /// Share of the times that are above `limit_ms` milliseconds.
    pub fn share_above(&self, limit_ms: f64) -> f64 {
        let above = self.0.iter().filter(|time| ms(**time) > limit_ms).count();
        above as f64 / self.len().max(1) as f64
    }
}
