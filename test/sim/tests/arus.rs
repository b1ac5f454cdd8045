//! Runs with recovery units produce every kind of event of `Met`.

#![allow(clippy::unwrap_used)]

use tonearm_sim::{Counts, Kind, Met, Size};

#[test]
fn runs_produce_every_event() {
    let size = Size {
        operations: 200,
        generations: 2,
        layout: None,
        commit_delay: None,
    };
    let mut met = Counts::default();
    for seed in 0..60 {
        met.add(&Kind::Arus.run(seed, size).unwrap().met);
        if met.iter(&Met::UNITS).all(|(_, count)| count > 0) {
            break;
        }
    }
    let never: Vec<_> = met
        .iter(&Met::UNITS)
        .filter(|(_, count)| *count == 0)
        .collect();
    assert!(never.is_empty(), "{never:?} of {met:?}");
}
