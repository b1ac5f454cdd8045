//! Median and range.

/// Of some values; there is at least one.
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of `values`; none when there are none.
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

    /// `median (min-max)`, or the one value.
    pub fn text(&self, decimals: usize) -> String {
        let (median, min, max) = (self.median, self.min, self.max);
        if min == max {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
    }
}
