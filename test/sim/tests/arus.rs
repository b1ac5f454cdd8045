//! Runs with recovery units meet all that they are there for.

#![allow(clippy::unwrap_used)]

use tonearm_sim::{Counts, Kind, Size};

#[test]
fn everything_is_met() {
    let size = Size {
        operations: 200,
        generations: 2,
        segments: None,
        linger: None,
    };
    let mut met = Counts::default();
    for seed in 0..60 {
        met.add(&Kind::Arus.run(seed, size).unwrap().met);
        if met.iter().all(|(_, count)| count > 0) {
            break;
        }
    }
    let never: Vec<_> = met.iter().filter(|(_, count)| *count == 0).collect();
    assert!(never.is_empty(), "{never:?} of {met:?}");
}
