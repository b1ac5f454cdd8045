//! Rules that every predictor keeps after any sequence of requests.

#![allow(clippy::unwrap_used)]
// Used by the expansion of proptest's macros.
#![allow(clippy::disallowed_types)]

mod steps;

use proptest::prelude::*;
use steps::{TURN, any_step, places_are_free, profile};
use tonearm_head::{
    Delta, Deltas, Formula, Head, Mimic, Online, Sequential, Table, TrackMap, TrackRun,
};

fn formula() -> Formula {
    let run = TrackRun {
        first: 300,
        tracks: 30,
        sectors: 90,
        turn_sectors: 100,
        angle: 77,
        group: 3,
        at: 1,
        short: 5,
        track_skew: 1 << 29,
        cylinder_skew: 1 << 30,
    };
    let delta = Delta {
        sectors: 4,
        turn_sectors: 100,
    };
    let map = TrackMap::new(vec![run]).unwrap();
    Formula::new(map, TURN, Deltas::one(delta), None)
}

fn heads() -> Vec<Box<dyn Head>> {
    let table = Table::best(&profile()).unwrap();
    vec![
        Box::new(Sequential),
        Box::new(formula()),
        Box::new(Online::new()),
        Box::new(Online::with_map(formula().map().clone())),
        Box::new(Mimic::new(*table.grid(), table)),
    ]
}

proptest! {
    #[test]
    fn place_is_free_and_exists_when_the_write_fits(
        steps in prop::collection::vec(any_step(), 1..12)
    ) {
        places_are_free(heads(), &steps)?;
    }
}

#[test]
fn names_differ_and_memory_is_reported() {
    let heads = heads();
    let mut names: Vec<&str> = heads.iter().map(|head| head.name()).collect();
    names.sort_unstable();
    names.dedup();
    // The predictor that learns is in the list twice, with and without a map.
    assert_eq!(names.len(), heads.len() - 1);
    let bytes = |name: &str| {
        heads
            .iter()
            .find(|head| head.name() == name)
            .unwrap()
            .memory_bytes()
    };
    assert_eq!(bytes("sequential"), 0);
    // 3 sizes by 21 think times, two bytes each.
    assert!(bytes("mimic") >= 126);
}
