use super::{Demerit, per_request_rms_ms};
use tonearm_base::Nanos;

fn ms(times: &[u64]) -> Vec<Nanos> {
    times.iter().copied().map(Nanos::from_millis).collect()
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} {b}");
}

#[test]
fn equal_distributions_in_any_order_have_none() {
    let demerit = Demerit::of(&ms(&[1, 5, 9]), &ms(&[9, 1, 5])).unwrap();
    assert_eq!(demerit.demerit_ms, 0.0);
    near(demerit.measured_mean_ms, 5.0);
    near(
        per_request_rms_ms(&ms(&[1, 5, 9]), &ms(&[9, 1, 5])).unwrap(),
        (96.0f64 / 3.0).sqrt(),
    );
}

#[test]
fn equal_counts_pair_by_rank() {
    let demerit = Demerit::of(&ms(&[10, 20]), &ms(&[24, 13])).unwrap();
    near(demerit.demerit_ms, 12.5f64.sqrt());
    near(demerit.demerit_percent, 100.0 * 12.5f64.sqrt() / 15.0);
    near(demerit.simulated_mean_ms, 18.5);
}

#[test]
fn a_constant_shift_is_its_own_demerit() {
    let measured: Vec<Nanos> = (0..1000).map(|n| Nanos(n * n)).collect();
    let simulated: Vec<Nanos> = measured.iter().map(|time| *time + 250_000).collect();
    near(Demerit::of(&measured, &simulated).unwrap().demerit_ms, 0.25);
}

#[test]
fn unequal_counts_are_integrated_over_the_quantiles() {
    // Every time twice is the same distribution.
    let (once, twice) = (ms(&[3, 4, 8]), ms(&[3, 3, 4, 4, 8, 8]));
    assert_eq!(Demerit::of(&once, &twice).unwrap().demerit_ms, 0.0);
    assert_eq!(Demerit::of(&twice, &once).unwrap().demerit_ms, 0.0);
    // 0 for the first third and 6 for the rest, against 0 up to the middle and 6 from there.
    let demerit = Demerit::of(&ms(&[0, 6]), &ms(&[0, 6, 6])).unwrap();
    near(demerit.demerit_ms, (36.0f64 / 6.0).sqrt());
}

#[test]
fn demerit_without_requests_is_none() {
    assert_eq!(Demerit::of(&[], &ms(&[1])), None);
    assert_eq!(Demerit::of(&ms(&[1]), &[]), None);
    assert_eq!(Demerit::of(&ms(&[0]), &ms(&[1])), None);
    assert_eq!(per_request_rms_ms(&ms(&[1]), &[]), None);
}
