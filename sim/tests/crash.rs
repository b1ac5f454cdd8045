//! Power cuts at every I/O of seeded workloads; see the crate's documentation for what is checked.

use tonearm_sim::{Campaign, run_seed};

fn campaign(seed: u64) -> Campaign {
    Campaign {
        seed,
        operations: 60,
        generations: 3,
    }
}

/// Seeds that found a fault once. What it was stands beside each.
const REGRESSIONS: [(u64, &str); 4] = [
    (
        2,
        "a commit replaced a version whose tracks it then waited for: the log stood still for ever",
    ),
    (5, "the same, with a small memory"),
    (
        38,
        "a data member ran two updates ahead of the log member after two cuts in a row at the opening",
    ),
    (
        101,
        "a record that an earlier recovery had cut off was taken for the later epoch's of the same number",
    ),
];

#[test]
fn seeds_that_found_a_fault_once_stay_clean() {
    for (seed, fault) in REGRESSIONS {
        if let Err(failure) = run_seed(&campaign(seed)) {
            panic!("{failure}\nthis seed once found: {fault}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| run_seed(&campaign(seed)).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).trace_hash, run(8).trace_hash);
}

#[test]
fn ten_thousand_power_cuts_lose_nothing_durable() {
    let (mut points, mut cut_short, mut seed) = (0, 0, 5000);
    while points < 10_000 {
        let outcome = run_seed(&campaign(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        points += outcome.crash_points;
        cut_short += outcome.cut_short;
        seed += 1;
    }
    assert!(
        cut_short > points / 10,
        "the cuts must hurt, or the test proves nothing"
    );
}
