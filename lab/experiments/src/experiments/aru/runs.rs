//! Repeated runs: their mean and spread.

/// A value of several runs, which differ in the angle of the platter at time 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The largest less the least one, in percent of the mean.
    pub percent: f64,
}

impl Spread {
    /// Of these values, of which there is at least one.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        Self {
            mean,
            percent: 100.0 * (most - least) / mean,
        }
    }
}
