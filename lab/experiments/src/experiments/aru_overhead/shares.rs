//! One processor time in percent of another.

use super::system::Spent;
use crate::harness::median;

/// Processor time in percent of another: the median over the runs, each of which has both.
pub fn percent_of<R>(runs: &[R], pair: impl Fn(&R) -> (&Spent, &Spent)) -> f64 {
    let percent = |run: &R| {
        let (this, other) = pair(run);
        100.0 * this.cpu_ns / other.cpu_ns
    };
    median(runs.iter().map(percent).collect())
}
