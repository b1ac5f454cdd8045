//! Runs meet the events of `Met`. A campaign that no longer reaches one of them would not notice a fault there.

use tonearm_sim::{Counts, Kind, Layout, Met, Size};

const SIZE: Size = Size {
    operations: 60,
    generations: 3,
    layout: None,
    commit_delay: None,
};

/// Adds up the runs of `kind` with these seeds until each of `wanted` was met.
fn expect(kind: Kind, size: Size, wanted: &'static [Met], seeds: impl Iterator<Item = u64>) {
    let mut met = Counts::default();
    for seed in seeds {
        let outcome = kind.run(seed, size);
        let outcome = outcome.unwrap_or_else(|failure| panic!("{kind} {failure}"));
        met.add(&outcome.met);
        if met.iter(wanted).all(|(_, count)| count > 0) {
            println!("{kind}, {size:?}: up to seed {seed}");
            return;
        }
    }
    let never: Vec<_> = met.iter(wanted).filter(|(_, count)| *count == 0).collect();
    panic!("{kind}, {size:?}: {never:?} of {met:?}");
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
    expect(Kind::Arrays, SIZE, wanted, 1..=12);
}

/// The runs are too short for the cleaner: they do not yet meet `Met::Heated`, `Met::Cleaned` and `Met::CarriedNote`.
#[test]
fn blocks_become_cold_and_are_overwritten() {
    let size = Size {
        layout: Some(Layout::Hylog),
        ..SIZE
    };
    for kind in [Kind::PowerCuts, Kind::Arrays] {
        let wanted = &[Met::Overwrite, Met::Cooled, Met::Checkpoint];
        expect(kind, size, wanted, 1..=12);
    }
}

#[test]
fn runs_with_recovery_units_produce_every_event() {
    let size = Size {
        operations: 200,
        generations: 2,
        ..SIZE
    };
    expect(Kind::Arus, size, &Met::UNITS, 0..60);
}
