//! Power cuts at every I/O of seeded workloads. The crate's documentation says what is checked.

use std::path::Path;
use std::process::Command;
use tonearm_sim::{Counts, Kind, Layout, Met, Outcome, Script, Size, regressions, share};
use tonearm_world::FaultKind;

const SIZE: Size = Size {
    layout: None,
    commit_delay: None,
    operations: 60,
    generations: 3,
};

/// What a run without failure gives.
fn passes(kind: Kind, seed: u64, size: Size) -> Outcome {
    let outcome = kind.run(seed, size);
    outcome.unwrap_or_else(|failure| panic!("{kind} {failure}"))
}

#[test]
fn stored_runs_that_once_found_a_fault_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let kept = regressions(&folder).unwrap_or_else(|error| panic!("{error}"));
    assert!(kept.len() > 4, "the stored runs are found");
    for run in kept {
        if let Err(failure) = run.run() {
            panic!("seeds/{}: {failure}", run.name);
        }
    }
}

/// A script contains everything about its run, so parsing its text gives the same script.
#[test]
fn parsing_the_text_of_a_script_gives_the_same_script() {
    for seed in 0..40 {
        for kind in [Kind::Volumes, Kind::Faults] {
            let script = kind.script(seed, SIZE).expect("these kinds have scripts");
            let again: Script = script.to_string().parse().expect("a script can be read");
            assert!(again == script, "seed {seed}");
        }
    }
}

/// Only the seed determines a run, not memory addresses or the process.
#[test]
fn the_same_seed_gives_the_same_trace_in_two_processes() {
    let run = |kind: &str| {
        let mut crash = Command::new(env!("CARGO_BIN_EXE_crash"));
        let crash = crash.args(["--kind", kind, "--seed", "7", "--seeds", "4"]);
        let output = crash.output().expect("the program starts");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("it prints text");
        let at = text.find("trace hash").expect("it prints the hash");
        text[at..at + 27].to_owned()
    };
    let mut hashes = Vec::new();
    for kind in ["power-cuts", "heads", "volumes", "faults"] {
        hashes.push(run(kind));
        assert_eq!(hashes.last(), Some(&run(kind)), "{kind}");
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 4, "different runs have different hashes");
}

#[test]
fn volumes_and_faults_keep_every_promise() {
    let mut total = Outcome::default();
    for seed in 9000..9060 {
        for kind in [Kind::Volumes, Kind::Faults] {
            total.add(&passes(kind, seed, SIZE));
        }
    }
    assert!(
        total.cut_short > total.crash_points / 10,
        "enough cuts must lose unacknowledged commits"
    );
    assert!(
        total.refused + total.damaged > 0,
        "the faults must cause errors"
    );
    for (kind, points) in FaultKind::ALL.iter().zip(total.points) {
        assert!(points > 0, "{kind} never struck");
    }
}

#[test]
fn transactions_of_sqlite_are_whole_and_in_order() {
    let mut total = Outcome::default();
    for seed in 1..60 {
        total.add(&passes(Kind::Sqlite, seed, SIZE));
    }
    assert!(
        total.cut_short > total.crash_points / 10,
        "enough cuts must lose unacknowledged commits"
    );
    assert!(total.crash_points > 4000, "{} cuts", total.crash_points);
}

/// The archive restores what the store had, has nothing that a cut takes back, and is continued after each cut.
#[test]
fn archives_match_stores_and_continue_after_cuts() {
    let mut total = Outcome::default();
    let seeds = share(1..11);
    for seed in &seeds {
        total.add(&passes(Kind::Archives, *seed, SIZE));
    }
    let count = seeds.len() as u64;
    // Seeds differ: a share may have the poor ones.
    let least = |all: u64, share: u64| if count == 10 { all } else { share * count };
    let met = |what, least| total.met.of(what) > least;
    assert!(
        total.crash_points > least(5000, 250) && total.cut_short > least(1000, 50),
        "{total:?}"
    );
    assert!(
        met(Met::Restored, least(4000, 100)) && met(Met::Continued, least(1000, 50)),
        "{total:?}"
    );
}

/// Runs long enough for the cleaner, with blocks that are overwritten in place meanwhile. Few seeds carry a note: 1 does.
#[test]
fn long_runs_in_which_the_cleaner_works_lose_nothing() {
    let mut total = Outcome::default();
    let long = Size {
        layout: Some(Layout::Hylog),
        operations: 2500,
        generations: 1,
        ..SIZE
    };
    for seed in [1, 24] {
        total.add(&passes(Kind::PowerCuts, seed, long));
    }
    for met in [Met::Overwrite, Met::Heated, Met::Cleaned, Met::CarriedNote] {
        assert!(total.met.of(met) > 0, "{met:?} never happened");
    }
}

#[test]
fn long_runs_in_which_blocks_are_moved_into_holes_lose_nothing() {
    for layout in [Layout::Segments, Layout::Wolf] {
        let long = Size {
            layout: Some(layout),
            operations: 1500,
            generations: 1,
            ..SIZE
        };
        expect(Kind::PowerCuts, long, &[Met::Plugged], 40..46);
    }
}

#[test]
fn runs_with_indirect_writes_lose_nothing() {
    for layout in [Layout::Segments, Layout::Wolf, Layout::Hylog] {
        let size = Size {
            layout: Some(layout),
            operations: 400,
            generations: 2,
            ..SIZE
        };
        for kind in [Kind::PowerCuts, Kind::Arus] {
            expect(kind, size, &[Met::Indirect], 60..80);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| passes(Kind::PowerCuts, seed, SIZE);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).trace_hash, run(8).trace_hash);
}

#[test]
fn ten_thousand_power_cuts_lose_nothing_durable() {
    let (mut points, mut cut_short, mut seed) = (0, 0, 5000);
    while points < 10_000 {
        let outcome = passes(Kind::PowerCuts, seed, SIZE);
        points += outcome.crash_points;
        cut_short += outcome.cut_short;
        seed += 1;
    }
    assert!(
        cut_short > points / 10,
        "enough cuts must lose unacknowledged commits"
    );
}

/// Adds up the runs of `kind` with these seeds until each of `wanted` was met. A campaign that no longer reaches one of these events
/// would not notice a fault there.
fn expect(kind: Kind, size: Size, wanted: &'static [Met], seeds: impl Iterator<Item = u64>) {
    let mut met = Counts::default();
    for seed in seeds {
        met.add(&passes(kind, seed, size).met);
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
    expect(Kind::Arus, size, Met::UNITS, 0..60);
}
