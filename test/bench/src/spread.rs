//! Median and range of samples.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Median and range of at least one value.
#[derive(Serialize)]
pub struct Spread {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`, or none if there are no values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Self { median, min, max })
    }

    /// The text of the spread of `values`, or nothing if there are no values.
    pub fn cell(values: impl Iterator<Item = f64>, decimals: usize) -> String {
        Self::of(values).map_or(String::new(), |spread| spread.text(decimals))
    }

    /// `median (min-max)`, or only the value if there is one.
    pub fn text(&self, decimals: usize) -> String {
        let (median, min, max) = (self.median, self.min, self.max);
        if min == max {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
    }
}

/// Times of operations.
#[derive(Serialize)]
pub struct Quantiles {
    /// Median time in us.
    pub p50_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// 99.9th percentile in us.
    pub p999_us: f64,
    /// The longest time in us.
    pub max_us: f64,
}

impl Quantiles {
    /// An empty histogram of nanoseconds, from 100 ns to one minute with three significant digits.
    pub fn histogram() -> Histogram<u64> {
        Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("the bounds are valid")
    }

    /// Those of `times`, in nanoseconds.
    pub fn of(times: &Histogram<u64>) -> Self {
        let quantile = |share| times.value_at_quantile(share) as f64 / 1e3;
        Self {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: times.max() as f64 / 1e3,
        }
    }

    /// Text for the line of a sample.
    pub fn line(&self) -> String {
        let (p50, p99, p999) = (self.p50_us, self.p99_us, self.p999_us);
        format!("p50 {p50:6.0} p99 {p99:6.0} p99.9 {p999:6.0} us")
    }
}
