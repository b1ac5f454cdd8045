//! The mean of paired differences, with its confidence interval.

/// Student's t of 97.5 %, for 1 to 30 degrees of freedom. Beyond, the normal distribution's 1.96 is less than 4 % below.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean, and the half of its 95 % confidence interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The interval is as wide on each side.
    pub half: f64,
}

impl Mean {
    /// Of `values`, which are independent.
    ///
    /// # Panics
    /// When there are fewer than two.
    pub fn of(values: &[f64]) -> Self {
        assert!(values.len() > 1, "an interval needs two values");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let t = T.get(values.len() - 2).copied().unwrap_or(1.96);
        Self {
            mean,
            half: t * deviation / count.sqrt(),
        }
    }

    /// By how many percent each of `values` differs from its pair in `bases`.
    ///
    /// # Panics
    /// When there are fewer than two pairs.
    pub fn of_differences(values: &[f64], bases: &[f64]) -> Self {
        let pairs = values.iter().zip(bases);
        let all: Vec<f64> = pairs
            .map(|(one, base)| 100.0 * (one / base - 1.0))
            .collect();
        Self::of(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_four_values_is_that_of_student() {
        let Mean { mean, half } = Mean::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean, 2.5);
        assert!((half - 2.0541).abs() < 1e-3, "{half}");
    }

    #[test]
    fn differences_are_percent_of_their_own_bases() {
        let Mean { mean, half } = Mean::of_differences(&[110.0, 22.0], &[100.0, 20.0]);
        assert!((mean - 10.0).abs() < 1e-9 && half < 1e-9, "{mean} {half}");
    }
}
