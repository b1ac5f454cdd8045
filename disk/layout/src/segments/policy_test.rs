use crate::segments::policy::{Policy, choose, worth};

#[test]
fn greedy_takes_the_emptiest_segment_of_any_age() {
    let segments = [(1, 50, 1000), (2, 10, 1), (3, 100, 9), (4, 0, 1)];
    assert_eq!(
        choose(Policy::Greedy, segments.into_iter(), 100, 3),
        [4, 2, 1]
    );
}

#[test]
fn cost_age_prefers_full_old_to_empty_young_segments() {
    let segments = [(1, 75, 1000), (2, 15, 10), (3, 90, 10)];
    assert_eq!(
        choose(Policy::CostAge, segments.into_iter(), 100, 2),
        [1, 2]
    );
    // (1 - u) * age / (1 + u) = 0.25 * 1000 / 1.75 against 0.85 * 10 / 1.15.
    let ratio =
        worth(Policy::CostAge, 75, 100, 999) as f64 / worth(Policy::CostAge, 15, 100, 9) as f64;
    assert!(
        (ratio - (250.0 / 1.75) / (8.5 / 1.15)).abs() < 0.01,
        "{ratio}"
    );
}

#[test]
fn full_segments_are_never_taken_and_of_equals_the_first() {
    let segments = (1..=4).map(|segment| (segment, if segment == 2 { 100 } else { 7 }, 5));
    for policy in [Policy::Greedy, Policy::CostAge] {
        assert_eq!(choose(policy, segments.clone(), 100, 2), [1, 3]);
    }
}
