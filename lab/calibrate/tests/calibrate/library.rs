//! Every drive of the project.

use crate::truth::{Accuracy, accuracy};
use crate::world::{Troubles, all, run, spec};
use tonearm_base::Nanos;
use tonearm_calibrate::{Journal, Options, deltas_section};
use tonearm_drive_file::DriveSpec;

fn check(
    name: &str,
    spec: &DriveSpec,
    troubles: &Troubles,
    options: fn(u64) -> Options,
) -> Accuracy {
    let run = run(spec, troubles, options, Journal::default());
    let found = run.found.unwrap_or_else(|error| panic!("{name}: {error}"));
    let accuracy = accuracy(spec, &found);
    println!(
        "| `{name}` | {:.3} | {} / {} | {:.2} | {} / {} | {} / {} | {:.3} | {:.3} | {:.3} | {} | {:.0} |",
        accuracy.period_ppm,
        accuracy.zones_right,
        accuracy.zones,
        accuracy.skew,
        accuracy.places.0 - accuracy.places.1,
        accuracy.places.0,
        accuracy.heads.0,
        accuracy.heads.1,
        accuracy.seek_rms_ms,
        accuracy.seek_max_ms,
        accuracy.seek_all_rms_ms,
        run.requests,
        run.took.0 as f64 / 1e9
    );
    assert!(accuracy.period_ppm.abs() < 100.0, "{name}: {accuracy:?}");
    assert_eq!(accuracy.zones_right, accuracy.zones, "{name}: {accuracy:?}");
    assert!(accuracy.skew < 1.0, "{name}: {accuracy:?}");
    assert_eq!(accuracy.heads.0, accuracy.heads.1, "{name}");
    accuracy
}

#[test]
fn an_unknown_drive_is_measured_correctly() {
    for drive in tonearm_drive_file::library() {
        let spec = spec(drive.name);
        if !spec.has_head() {
            continue;
        }
        let accuracy = check(drive.name, &spec, &Troubles::default(), all);
        // A defect may be found some sectors farther on.
        assert!(accuracy.places.1 <= 5, "{}: {accuracy:?}", drive.name);
        assert!(accuracy.seek_rms_ms < 0.2, "{}: {accuracy:?}", drive.name);
    }
}

#[test]
fn late_reports_of_ends_do_not_change_the_result() {
    // Delays as a host adds them, if they are less than a third of a sector. More seeds: SEEDS=50.
    let seeds = std::env::var("SEEDS").map_or(5, |seeds| seeds.parse().unwrap());
    for (name, late_ns) in [
        ("hp_c3323a", 20_000),
        ("st41601n", 20_000),
        ("barracuda", 15_000),
        ("hylog2003", 3_000),
        ("mimic80", 2_500),
    ] {
        for seed in 0..seeds {
            let troubles = Troubles {
                late: Nanos(late_ns),
                seed,
                ..Troubles::default()
            };
            let accuracy = check(name, &spec(name), &troubles, all);
            assert_eq!(accuracy.places.1, 0, "{name}, seed {seed}: places");
        }
    }
}

#[test]
fn reads_alone_find_the_same_places() {
    fn reads(sectors: u64) -> Options {
        Options {
            region: 0..sectors,
            may_write: false,
        }
    }
    for name in ["dec_rz26", "hylog2003", "mimic80", "st41601n", "hp_c3323a"] {
        let accuracy = check(name, &spec(name), &Troubles::default(), reads);
        assert_eq!(accuracy.places.1, 0, "{name}: every place is right");
    }
}

#[test]
fn the_deltas_of_a_drive_file_are_those_of_its_model() {
    for drive in tonearm_drive_file::library() {
        let spec = spec(drive.name);
        let Some(section) = deltas_section(&spec) else {
            assert!(!spec.has_head(), "{}", drive.name);
            continue;
        };
        let found = format!("\n{}", section.trim_end());
        assert!(
            drive.text.contains(&found),
            "{}: its file needs{found}",
            drive.name
        );
    }
}
