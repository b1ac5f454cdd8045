use crate::segments::policy::{Costs, Policy, Sources, Way, choose, worth};
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
fn costs_are_those_of_equations_4_and_5() {
    for efficiency in [1.0, 5.0, 32.8] {
        for live in (5..100).step_by(5) {
            let sources = Sources {
                segments: 10,
                live: 10 * live,
            };
            let share = live as f64 / 100.0;
            // The equations count the write that needs the space, too.
            let (cleaned, plugged) = (sources.cleaned(100), sources.plugged(100, efficiency));
            let expected = (
                cost::cleaning(share) - 1.0,
                cost::plugging(share, efficiency) - 1.0,
            );
            assert!((cleaned - expected.0).abs() < 1e-9, "{live} % live");
            assert!((plugged - expected.1).abs() < 1e-9, "{live} % live");
        }
    }
}

#[test]
fn sources_that_free_nothing_cost_infinitely_much() {
    let none = Sources::default();
    let full = Sources {
        segments: 2,
        live: 200,
    };
    assert_eq!(
        (none.cleaned(100), none.plugged(100, 1.0)),
        (f64::INFINITY, f64::INFINITY)
    );
    assert_eq!(full.cleaned(100), f64::INFINITY);
    // Holes take also the blocks of full segments.
    assert_eq!(full.plugged(100, 3.0), 4.0);
}

/// The way of `costs`, as the name of its field.
fn way(chosen: f64, emptiest: f64, plugged: f64) -> &'static str {
    let costs = Costs {
        chosen,
        emptiest,
        plugged,
    };
    match costs.cheapest(Policy::CostAge, 7) {
        Way::Clean(Policy::CostAge) => "chosen",
        Way::Clean(Policy::Greedy) => "emptiest",
        Way::Plug(most) => {
            assert_eq!(most, 7);
            "plugged"
        }
    }
}

#[test]
fn plugging_is_compared_with_the_policy_first_then_with_the_emptiest() {
    let never = f64::INFINITY;
    assert_eq!(
        way(8.0, 2.0, 9.0),
        "chosen",
        "age is worth more than the emptiest"
    );
    assert_eq!(way(8.0, 6.0, 7.0), "emptiest");
    assert_eq!(way(8.0, 7.5, 7.0), "plugged");
    assert_eq!(way(never, never, 99.0), "plugged", "cleaning gains nothing");
    assert_eq!(way(never, never, never), "chosen", "nothing gains");
    assert_eq!(way(40.0, 8.0, never), "chosen", "no holes");
}
