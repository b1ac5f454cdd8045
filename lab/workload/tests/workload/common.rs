//! What the tests share.

use tonearm_workload::{Access, Workload};

/// All accesses of `workload`, each checked against the page space.
pub fn all(workload: &mut impl Workload) -> Vec<Access> {
    let pages = workload.pages();
    let mut accesses = Vec::new();
    while let Some(access) = workload.next_access().expect("an access") {
        assert!(access.page < pages, "{access:?} of {pages} pages");
        accesses.push(access);
    }
    assert_eq!(workload.next_access().expect("the end"), None);
    accesses
}

/// True if `count` of `trials` is within five standard deviations of the share `p`. A right generator fails once in 1.7
/// million such comparisons.
pub fn near(count: u64, trials: u64, p: f64) -> bool {
    let (count, trials) = (count as f64, trials as f64);
    (count - trials * p).abs() <= 5.0 * (trials * p * (1.0 - p)).sqrt() + 1.0
}

/// Pearson's statistic of `counts` against `probabilities`, as a number of standard deviations from its mean. Cells
/// with an expected count below 10 are joined with the next ones.
pub fn chi_square_deviations(counts: &[u64], probabilities: &[f64]) -> f64 {
    let trials = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut observed, mut expected) = (0.0, 0.0);
    for (count, probability) in counts.iter().zip(probabilities) {
        observed += *count as f64;
        expected += probability * trials;
        if expected >= 10.0 {
            statistic += (observed - expected) * (observed - expected) / expected;
            cells += 1.0;
            (observed, expected) = (0.0, 0.0);
        }
    }
    let freedom: f64 = cells - 1.0;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}
