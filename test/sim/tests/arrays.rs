//! Runs over arrays and on segments meet the events of `Met`. A campaign that no longer reaches one of them would not notice a
//! fault there.

#![allow(clippy::unwrap_used)]

use tonearm_sim::{Counts, Kind, Layout, Met, Size};

/// Adds up the runs of `kind` from seed 1 on until each of `wanted` was met, or `most` seeds have run.
fn met(kind: Kind, layout: Option<Layout>, wanted: &'static [Met], most: u64) -> Counts {
    let size = Size {
        operations: 60,
        generations: 3,
        layout,
        commit_delay: None,
    };
    let mut met = Counts::default();
    for seed in 1..=most {
        let outcome = kind.run(seed, size);
        met.add(
            &outcome
                .unwrap_or_else(|failure| panic!("{kind} {failure}"))
                .met,
        );
        if met.iter(wanted).all(|(_, count)| count > 0) {
            println!("{kind}, {layout:?}: {seed} seeds");
            return met;
        }
    }
    let never: Vec<_> = met.iter(wanted).filter(|(_, count)| *count == 0).collect();
    panic!("{kind}, {layout:?}: {never:?} in {most} seeds");
}

#[test]
fn arrays_survive_member_failures_and_rebuilds() {
    let wanted = &[
        Met::Pulled,
        Met::Lost,
        Met::Stale,
        Met::Refused,
        Met::Degraded,
        Met::Replaced,
        Met::Rebuilt,
        Met::CutInRebuild,
    ];
    met(Kind::Arrays, None, wanted, 12);
}

/// The runs are too short for the cleaner: they do not yet meet `Met::Heated`, `Met::Cleaned` and `Met::CarriedNote`.
#[test]
fn blocks_become_cold_and_are_overwritten() {
    for kind in [Kind::PowerCuts, Kind::Arrays] {
        let wanted = &[Met::Overwrite, Met::Cooled, Met::Checkpoint];
        met(kind, Some(Layout::Hylog), wanted, 12);
    }
}
