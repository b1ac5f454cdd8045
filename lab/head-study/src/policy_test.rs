//! The policies, on samples for which they differ.

use crate::testing::{profile, steps};
use crate::{Choices, Coarse, LineFit, Loss, Policy};
use tonearm_base::Nanos;
use tonearm_head::{Cell, Grid, Profile, ProfileError, SkipModel, Table};

/// At skip 0 nearly always a revolution; at 10 the least time in seven of ten cases; at 20 somewhat more, but
/// two cases are bad; from 30 on no case is bad.
fn edge() -> Profile {
    profile(1, |_, skip, number| match (skip, number) {
        (0, 0) => 950,
        (0, _) => 9_000,
        (1, 0..7) => 1_000,
        (1, _) => 9_100,
        (2, 0..8) => 1_040,
        (2, _) => 1_900,
        (3, _) => 1_500,
        _ => 2_000,
    })
}

fn choose(policy: Policy) -> (usize, Vec<usize>) {
    let choice = policy.choose(&edge(), 0, 0).unwrap();
    (choice.best, choice.acceptable.iter().collect())
}

#[test]
fn aggressive_takes_a_skip_that_is_mostly_fast() {
    assert_eq!(
        choose(Policy::Aggressive { majority: 0.7 }),
        (1, vec![1, 2])
    );
    assert_eq!(choose(Policy::Aggressive { majority: 0.8 }), (2, vec![2]));
    assert_eq!(
        choose(Policy::Aggressive { majority: 0.1 }),
        (0, vec![0, 1, 2])
    );
    // Eight of ten samples must be fast.
    let three_quarters = choose(Policy::Aggressive { majority: 0.75 });
    assert_eq!(three_quarters, (2, vec![2]));
    // No skip is always fast, so the one with the least worst case is taken.
    assert_eq!(choose(Policy::Aggressive { majority: 1.0 }), (3, vec![3]));
}

#[test]
fn defensive_bounds_the_worst() {
    let bound = |micros| Policy::Defensive {
        bound: Nanos::from_micros(micros),
    };
    assert_eq!(choose(bound(1_900)), (3, vec![2, 3]));
    assert_eq!(choose(bound(2_000)), (3, vec![2, 3, 4]));
    // If no skip keeps the bound, the best one is left.
    assert_eq!(choose(bound(100)), (3, vec![3]));
}

#[test]
fn average_limit_takes_skips_near_the_best_mean() {
    // Means: 8195, 3430, 1212, 1500, 2000.
    let limit = |micros| Policy::AverageLimit {
        tolerance: Nanos::from_micros(micros),
    };
    assert_eq!(choose(limit(0)), (2, vec![2]));
    assert_eq!(choose(limit(287)), (2, vec![2]));
    assert_eq!(choose(limit(288)), (2, vec![2, 3]));
    assert_eq!(choose(limit(800)), (2, vec![2, 3, 4]));
    let choice = limit(0).choose(&edge(), 0, 0).unwrap();
    assert_eq!(choice.costs[2..], [1_212_000, 1_500_000, 2_000_000]);
}

#[test]
fn a_profile_with_a_hole_is_refused() {
    let full = edge();
    let mut part = Profile::new(Grid {
        thinks: steps(0, 100_000, 2),
        ..*full.grid()
    })
    .unwrap();
    let policy = Policy::Aggressive { majority: 0.9 };
    let hole = |think_ns| {
        Err(ProfileError::Incomplete {
            sectors: 8,
            think_ns,
        })
    };
    assert_eq!(Choices::new(&part, policy), hole(0));
    part.add_sample(
        Cell {
            size: 0,
            think: 0,
            skip: 2,
        },
        Nanos(1_000),
    );
    assert_eq!(Choices::new(&part, policy), hole(100_000));
    // A single sample is enough. A skip without samples is no candidate.
    part.add_sample(
        Cell {
            size: 0,
            think: 1,
            skip: 2,
        },
        Nanos(1_000),
    );
    let choices = Choices::new(&part, policy).unwrap();
    assert_eq!(choices.at(0, 1).acceptable.iter().collect::<Vec<_>>(), [2]);
}

/// The best skips are 0 to 4, repeatedly, by think time.
fn saw() -> Profile {
    profile(10, |think, skip, _| {
        1_000 + 100 * skip.abs_diff(think % 5) as u64
    })
}

fn exact() -> Policy {
    Policy::AverageLimit {
        tolerance: Nanos(0),
    }
}

#[test]
fn line_fit_finds_the_segments_by_itself() {
    let profile = saw();
    let lines = LineFit::new(&Choices::new(&profile, exact()).unwrap());
    let skips: Vec<u32> = (0..10).map(|think| lines.skip(0, think)).collect();
    assert_eq!(skips, [0, 10, 20, 30, 40, 0, 10, 20, 30, 40]);
    assert_eq!(lines.stored_bytes(), 2 * 12 + 2, "two lines");
}

#[test]
fn coarse_is_right_at_its_points_and_straight_between_them() {
    let profile = saw();
    let choices = Choices::new(&profile, exact()).unwrap();
    // With points at 0, 3, 6 and 9.
    let coarse = Coarse::new(&choices, 4);
    let skips: Vec<u32> = (0..10).map(|think| coarse.skip(0, think)).collect();
    assert_eq!(skips, [0, 10, 20, 30, 23, 16, 10, 20, 30, 40]);
    assert_eq!(coarse.stored_bytes(), 8);
    let loss = Loss::of(
        std::slice::from_ref(&profile),
        &coarse,
        0,
        Nanos::from_micros(150),
    );
    // 23 counts as 20 instead of 40, and 16 as 20 instead of 0: 200 us each.
    assert_eq!((loss.mean, loss.most), (Nanos(40_000), Nanos(200_000)));
    assert!((loss.outliers - 0.2).abs() < 1e-9);
    // With all points it equals the table; with one point requested it has two.
    let skips: Vec<u32> = (0..10)
        .map(|think| Coarse::new(&choices, 99).skip(0, think))
        .collect();
    assert_eq!(skips, [0, 10, 20, 30, 40, 0, 10, 20, 30, 40]);
    assert_eq!(Coarse::new(&choices, 1).stored_bytes(), 4);
}

#[test]
fn store_table_holds_the_skips_of_the_least_mean() {
    let profile = saw();
    let table = Table::best(&profile).unwrap();
    let choices = Choices::new(&profile, exact()).unwrap();
    let best: Vec<u16> = choices
        .of_size(0)
        .iter()
        .map(|choice| choice.best as u16)
        .collect();
    assert_eq!(table.skips(), best);
    assert_eq!(
        Loss::of(std::slice::from_ref(&profile), &table, 0, Nanos(0)).most,
        Nanos(0)
    );
}
