//! Drives that report wrongly, and drives without a platter.

use crate::truth::{accuracy, disk_of, parsed};
use crate::world::{Troubles, all, run, spec};
use tonearm_base::Nanos;
use tonearm_calibrate::{Journal, Kind, Method, Options};

#[test]
fn drive_ignoring_fua_is_measured_by_flushes() {
    let spec = spec("mimic80");
    let troubles = Troubles {
        no_fua: true,
        ..Troubles::default()
    };
    let found = run(&spec, &troubles, all, Journal::default())
        .found
        .unwrap();
    let disk = disk_of(&found);
    assert_eq!(disk.method, Method::Flushed);
    assert_eq!(disk.memory.fua_honoured, Some(false));
    assert_eq!(disk.memory.flush_honoured, Some(true));
    let accuracy = accuracy(&spec, &found);
    assert_eq!(accuracy.zones_right, accuracy.zones);
    assert_eq!(accuracy.places.1, 0);
}

#[test]
fn drive_ignoring_flushes_is_measured_by_reads() {
    let spec = spec("mimic80");
    let troubles = Troubles {
        no_fua: true,
        no_flush: true,
        ..Troubles::default()
    };
    let found = run(&spec, &troubles, all, Journal::default())
        .found
        .unwrap();
    let disk = disk_of(&found);
    assert!(matches!(disk.method, Method::Read(_)));
    assert_eq!(disk.memory.fua_honoured, Some(false));
    assert_eq!(disk.memory.flush_honoured, Some(false));
    assert_eq!(accuracy(&spec, &found).places.1, 0);
}

#[test]
fn a_drive_that_honours_fua_and_flushes_is_reported() {
    let spec = spec("mimic80");
    let found = run(&spec, &Troubles::default(), all, Journal::default());
    let found = found.found.unwrap();
    let memory = &disk_of(&found).memory;
    assert_eq!(memory.fua_honoured, Some(true));
    assert_eq!(memory.flush_honoured, Some(true));
    assert_eq!(memory.write_cache, Some(true));
    let cache = parsed(&found).write_cache;
    assert!(cache.enabled);
    // The drive empties the cache while it is filled.
    assert!((8192..10_000).contains(&cache.sectors), "{cache:?}");
}

#[test]
fn flash_is_no_platter() {
    let truth = spec("ssd");
    let found = run(&truth, &Troubles::default(), all, Journal::default());
    let found = found.found.unwrap();
    assert!(matches!(found.kind, Kind::Flash(_)));
    let (truth, made) = (truth.flash.unwrap(), parsed(&found).flash.unwrap());
    let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * b + 0.001;
    assert!(near(made.read_ms, truth.read_ms));
    assert!(near(made.write_ms, truth.write_ms));
    assert!(near(made.write_cached_ms, truth.write_cached_ms));
    assert!(near(made.flush_ms, truth.flush_ms));
    assert!(near(made.flush_ms_per_mib, truth.flush_ms_per_mib));
    assert!(near(made.read_mib_per_s, truth.read_mib_per_s));
    assert!(near(made.write_mib_per_s, truth.write_mib_per_s));
    assert_eq!(made.channels, truth.channels);
}

/// Nothing is found to rotate under these troubles. The calibration takes less than `seconds`, and few requests.
fn no_platter(troubles: &Troubles, options: fn(u64) -> Options, seconds: u64) {
    let ran = run(&spec("ssd"), troubles, options, Journal::default());
    let found = ran.found.unwrap();
    assert!(matches!(found.kind, Kind::Flash(_)), "{troubles:?}");
    // Some 300 to 400 requests search for a platter; the others measure latencies.
    assert!(ran.requests < 800, "{troubles:?}: {}", ran.requests);
    assert!(
        ran.took.0 < seconds * 1_000_000_000,
        "{troubles:?}: {}",
        ran.took.0
    );
}

fn reads(sectors: u64) -> Options {
    Options {
        region: 0..sectors,
        may_write: false,
    }
}

#[test]
fn irregular_answers_are_no_platter() {
    // As for a file on a busy host: 0 to 1 ms, and up to 60.
    for late in [Nanos(1_000_000), Nanos(60_000_000)] {
        for seed in 0..10 {
            let troubles = Troubles {
                late,
                seed,
                ..Troubles::default()
            };
            no_platter(&troubles, all, 40);
            no_platter(&troubles, reads, 40);
        }
    }
}

#[test]
fn a_clock_that_ticks_is_no_platter() {
    for tick in [4_000_000, 8_333_333, 10_000_000] {
        let troubles = Troubles {
            tick: Nanos(tick),
            ..Troubles::default()
        };
        no_platter(&troubles, all, 40);
        no_platter(&troubles, reads, 40);
    }
}
