//! Random drive files: every file that passes the check can be run.

use crate::made::PLAIN;
use proptest::prelude::*;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, library};
use tonearm_world::{DriveRequest, Kind, Timing};

/// Runs some requests on every drive that passes the check.
fn exercise(spec: &DriveSpec) {
    let mut drive = Drive::new(spec, &DriveOptions::default());
    let last = drive.sectors() - 1;
    let mut done = Vec::new();
    let mut at = Nanos(0);
    for (id, lba) in [0, last, last / 2, last / 3, 1.min(last), 0]
        .into_iter()
        .enumerate()
    {
        for kind in [Kind::Write, Kind::Read, Kind::Flush] {
            let flush = kind == Kind::Flush;
            let request = DriveRequest {
                id: id as u64,
                kind,
                fua: id == 2,
                lba: if flush { 0 } else { lba },
                sectors: if flush {
                    0
                } else {
                    (last - lba + 1).min(700) as u32
                },
            };
            drive.submit(at, request);
            drive.submit(at, request);
            for _ in 0..2 {
                let next = drive.next().expect("something is under way");
                assert!(next >= at);
                at = next;
                drive.advance(at, &mut done);
                if done.len() == 2 {
                    break;
                }
            }
            assert_eq!(done.len(), 2);
            done.clear();
        }
    }
}

/// The text with its `which`-th number replaced, if there is one.
fn with_number(text: &str, which: usize, number: &str) -> String {
    let digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut places = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (digit(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                places.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    let mut text = text.to_owned();
    text.replace_range(places[which % places.len()].clone(), number);
    text
}

fn files() -> Vec<String> {
    let first_lines = |text: &str| {
        // Few points and zones, so that every number is replaced in some case.
        text.lines().take(400).collect::<Vec<_>>().join("\n")
    };
    let mut files: Vec<_> = library()
        .iter()
        .map(|drive| first_lines(drive.text))
        .collect();
    files.extend(std::iter::repeat_n(PLAIN.to_owned(), 12));
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_number_makes_the_model_panic(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<usize>(), prop_oneof![
            "[0-9]{1,3}",
            "-[0-9]{1,3}",
            "[0-9]{1,3}\\.[0-9]{1,3}",
            "1e[0-9]{1,3}",
            Just("nan".to_owned()),
            Just("inf".to_owned()),
            Just("18446744073709551615".to_owned()),
            Just("9223372036854775807".to_owned()),
            Just("4294967295".to_owned()),
            Just("4294967296".to_owned()),
            Just("0".to_owned()),
            Just("1".to_owned()),
        ]), 1..4),
    ) {
        let files = files();
        let mut text = file.get(&files).clone();
        for (which, number) in changes {
            text = with_number(&text, which, &number);
        }
        match DriveSpec::parse("made.toml", &text) {
            Ok(spec) => exercise(&spec),
            Err(error) => {
                prop_assert!(!error.key.is_empty() && !error.reason.is_empty());
            }
        }
    }
}
