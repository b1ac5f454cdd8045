use crate::segments::policy::{Policy, Sources, choose, plugs, worth};
use crate::separation::cost;

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

#[test]
fn plugging_is_taken_exactly_where_equation_5_is_below_equation_4() {
    let mut taken = [0, 0];
    for efficiency in [1.0, 5.0, 9.0, 32.8] {
        for live in (5..100).step_by(5) {
            let sources = Sources {
                segments: 10,
                live: 10 * live,
            };
            let share = live as f64 / 100.0;
            let expected = cost::plugging(share, efficiency) < cost::cleaning(share);
            assert_eq!(
                plugs(sources, sources, 100, efficiency),
                expected,
                "E {efficiency}, {live} % live"
            );
            taken[usize::from(expected)] += 1;
        }
    }
    assert!(taken[0] > 10 && taken[1] > 10, "{taken:?}");
}

#[test]
fn the_cheaper_sources_decide_between_cleaning_and_plugging() {
    let sources = |segments, live| Sources { segments, live };
    // Cleaning by cost and age takes fuller segments than plugging does.
    let (fuller, emptiest) = (sources(4, 360), sources(2, 140));
    assert!(plugs(fuller, emptiest, 100, 5.0));
    assert!(!plugs(emptiest, fuller, 100, 8.0));
    assert!(!plugs(emptiest, sources(0, 0), 100, 1.0), "nothing to plug");
    assert!(
        plugs(sources(0, 0), emptiest, 100, 99.0),
        "nothing to clean"
    );
    let full = sources(2, 200);
    assert!(plugs(full, emptiest, 100, 99.0), "cleaning gains nothing");
}
