//! Interruptions, and the region.

use crate::truth::{accuracy, disk_of};
use crate::world::{Troubles, all, run, spec};
use tonearm_calibrate::{Error, Journal, Options, replace};

/// Interrupted after every `every` requests, each time with another phase of the platter, until it is done.
fn in_pieces(name: &str, every: u64) -> (tonearm_calibrate::Findings, u32) {
    let spec = spec(name);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut journal = Journal::new("it", Some(path.clone()));
    let mut pieces = 0;
    loop {
        pieces += 1;
        let troubles = Troubles {
            stop_after: Some(every),
            phase: 0.1234 * f64::from(pieces),
            ..Troubles::default()
        };
        let run = run(&spec, &troubles, all, journal);
        match run.found {
            Ok(found) => return (found, pieces),
            Err(error) => assert!(matches!(error, Error::Interrupted), "{error}"),
        }
        let mut ended = run.journal;
        ended.save().unwrap();
        journal = Journal::load("it", &path).unwrap();
        assert!(pieces < 1000, "it gets on");
    }
}

#[test]
fn interrupted_calibration_finds_the_same_result() {
    // The longest questions take some hundred requests. Shorter intervals would never finish one.
    let on_one = [307, 353, 401, 463, 557, 691].map(|every| ("hylog2003", every));
    let others = [("hp_c3323a", 401), ("mimic80", 997), ("dec_rz26", 443)];
    for (name, every) in on_one.into_iter().chain(others) {
        let whole = run(&spec(name), &Troubles::default(), all, Journal::default());
        let whole = whole.found.unwrap();
        let (found, pieces) = in_pieces(name, every);
        assert!(pieces > 3, "{name}: interrupted {pieces} times");
        let (whole, found) = (disk_of(&whole), disk_of(&found));
        assert_eq!(whole.layout.heads, found.layout.heads);
        assert_eq!(whole.layout.sparing, found.layout.sparing);
        assert_eq!(whole.layout.zones.len(), found.layout.zones.len());
        for (a, b) in whole.layout.zones.iter().zip(&found.layout.zones) {
            assert_eq!((a.first, a.track_sectors), (b.first, b.track_sectors));
            assert_eq!((a.track_skew, &a.slips), (b.track_skew, &b.slips));
            assert_eq!(a.cylinder_skew, b.cylinder_skew);
            assert!((a.offset - b.offset).abs() < 0.01, "{name}: {a:?} {b:?}");
        }
        for ((_, a), (_, b)) in whole.arm.seeks.iter().zip(&found.arm.seeks) {
            // Least times are found to some microseconds.
            assert!((a - b).abs() < 0.02, "{name}: {a} {b}");
        }
    }
}

#[test]
fn nothing_outside_of_the_region_is_touched() {
    // The device of the tests refuses requests outside of the region, and `run` fails then.
    fn middle(sectors: u64) -> Options {
        Options {
            region: sectors / 3 / 8 * 8..sectors * 2 / 3 / 8 * 8,
            may_write: true,
        }
    }
    for name in ["hp_c3323a", "mimic80", "hylog2003", "st41601n", "barracuda"] {
        let spec = spec(name);
        let found = run(&spec, &Troubles::default(), middle, Journal::default());
        let found = found
            .found
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let accuracy = accuracy(&spec, &found);
        assert_eq!(accuracy.zones_right, accuracy.zones, "{name}: {accuracy:?}");
        assert!(accuracy.places.1 < 5, "{name}: {accuracy:?}");
    }
}

#[test]
fn the_state_of_another_subject_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut journal = Journal::new("one drive", Some(path.clone()));
    journal.note("turn 1 2".into(), vec![0.25]);
    journal.save().unwrap();
    let mut again = Journal::load("one drive", &path).unwrap();
    assert_eq!(again.recall("turn 1 2").unwrap(), Some(vec![0.25]));
    assert_eq!(again.recall("turn 2 3").unwrap(), None);
    let error = Journal::load("another drive", &path).unwrap_err();
    assert!(error.to_string().contains("one drive"), "{error}");
    let mut other = Journal::load("one drive", &path).unwrap();
    assert!(other.recall("turn 7 8").is_err());
    replace(&path, b"not a state").unwrap();
    assert!(Journal::load("one drive", &path).is_err());
}
