//! Measures how well simulated response times match measured ones.
//!
//! The demerit figure (C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994)
//! compares distributions: the root mean square of the horizontal distance between the two cumulative curves. It does
//! not compare single requests; [`per_request_rms_ms`] does.

use tonearm_base::Nanos;

const NS_PER_MS: f64 = 1e6;

/// Two distributions of response times, compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demerit {
    /// Mean of the measured times, ms.
    pub measured_mean_ms: f64,
    /// Mean of the simulated times, ms.
    pub simulated_mean_ms: f64,
    /// Root mean square of the horizontal distance, ms.
    pub demerit_ms: f64,
    /// The same as a share of the measured mean, percent.
    pub demerit_percent: f64,
}

impl Demerit {
    /// Compares the two distributions. None when one of them is empty, or when all measured times are zero, because
    /// there is no mean then.
    pub fn of(measured: &[Nanos], simulated: &[Nanos]) -> Option<Self> {
        let measured_mean_ms = mean_ms(measured)?;
        let simulated_mean_ms = mean_ms(simulated)?;
        if measured_mean_ms == 0.0 {
            return None;
        }
        let demerit_ms = distance_ms(&sorted(measured), &sorted(simulated));
        Some(Self {
            measured_mean_ms,
            simulated_mean_ms,
            demerit_ms,
            demerit_percent: 100.0 * demerit_ms / measured_mean_ms,
        })
    }
}

/// Root mean square of the difference between each request's two times, in ms: `measured` and `simulated` have the same
/// requests in the same order. None when there are none.
pub fn per_request_rms_ms(measured: &[Nanos], simulated: &[Nanos]) -> Option<f64> {
    if measured.is_empty() || measured.len() != simulated.len() {
        return None;
    }
    let squares = measured.iter().zip(simulated);
    let sum: f64 = squares.map(|(a, b)| difference_ms(*a, *b).powi(2)).sum();
    Some((sum / measured.len() as f64).sqrt())
}

fn mean_ms(times: &[Nanos]) -> Option<f64> {
    let sum: u128 = times.iter().map(|time| u128::from(time.0)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64 / NS_PER_MS)
}

fn sorted(times: &[Nanos]) -> Vec<Nanos> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}

fn difference_ms(a: Nanos, b: Nanos) -> f64 {
    a.0.abs_diff(b.0) as f64 / NS_PER_MS
}

/// Both cumulative curves are steps, so the integral over all quantiles is a sum: both are constant between two
/// quantiles at which either has a step. With equal counts these are the pairs of equal rank. Widths are counted in
/// units of `1 / (m * n)`, so nothing is rounded.
fn distance_ms(measured: &[Nanos], simulated: &[Nanos]) -> f64 {
    let (m, n) = (measured.len() as u128, simulated.len() as u128);
    let (mut i, mut j, mut from) = (0, 0, 0u128);
    let mut sum = 0.0;
    while i < measured.len() && j < simulated.len() {
        let (end_i, end_j) = ((i as u128 + 1) * n, (j as u128 + 1) * m);
        let to = end_i.min(end_j);
        let square = difference_ms(measured[i], simulated[j]).powi(2);
        sum += square * ((to - from) as f64 / m.max(n) as f64);
        from = to;
        i += usize::from(end_i == to);
        j += usize::from(end_j == to);
    }
    (sum / m.min(n) as f64).sqrt()
}

#[cfg(test)]
#[path = "demerit_test.rs"]
mod demerit_test;
