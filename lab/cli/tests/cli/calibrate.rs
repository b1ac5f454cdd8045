//! Calibrations from the command line: simulated drives, files, and refusals.

use crate::common::{Bench, bench, contains};
use std::time::Duration;
use tonearm_store::CreateOptions;

/// A file with content, which a calibration without permission must not change.
fn precious(bench: &Bench) -> Vec<u8> {
    let content: Vec<u8> = (0..64u32 << 20).map(|byte| (byte % 251) as u8).collect();
    std::fs::write(bench.path("precious.img"), &content).expect("a file");
    content
}

#[test]
fn a_simulated_drive_gets_a_drive_file_that_all_commands_take() {
    let bench = bench();
    let said = bench.ok(&["calibrate", "--drive", "hp_c3323a", "--out", "mine.toml"]);
    contains(&said, "rotation");
    contains(&said, "5396.");
    let shown = bench.json(&["drive", "show", "./mine.toml", "--json"]);
    let zones = shown["disk"]["geometry"]["zones"]
        .as_array()
        .expect("zones");
    let tracks: Vec<u64> = zones
        .iter()
        .map(|zone| zone["track_sectors"].as_u64().expect("a number"))
        .collect();
    assert_eq!(tracks, [120, 116, 112, 104, 96, 88, 80, 72]);
    bench.ok(&[
        "drive",
        "bench",
        "--drive",
        "./mine.toml",
        "--requests",
        "1000",
    ]);
    assert_eq!(bench.files(), ["mine.toml"], "no state file is left");
}

#[test]
fn without_an_output_file_the_result_goes_to_standard_output() {
    let bench = bench();
    let toml = bench.ok(&["calibrate", "--drive", "dec_rz26"]);
    std::fs::write(bench.path("again.toml"), &toml).expect("a file");
    bench.ok(&["drive", "show", "./again.toml"]);
    let json = bench.json(&["calibrate", "--drive", "dec_rz26", "--json"]);
    assert_eq!(json["rotates"], true);
    assert_eq!(json["found"]["heads"], 14);
    assert_eq!(json["found"]["fua_honoured"], true);
    assert!(bench.files() == ["again.toml"]);
}

#[test]
fn a_profile_can_be_taken_too() {
    let bench = bench();
    let command = ["calibrate", "--drive", "hylog2003", "--out", "a.toml"];
    bench.ok(&[&command[..], &["--profile", "a.profile"]].concat());
    let bytes = std::fs::read(bench.path("a.profile")).expect("a profile");
    let profile = tonearm_head::Profile::decode(&bytes).expect("a profile");
    assert_eq!(profile.taken(), profile.total());
    assert_eq!(bench.files(), ["a.profile", "a.toml"]);
}

#[test]
fn file_has_no_platter_and_is_not_written() {
    let bench = bench();
    let content = precious(&bench);
    let json = bench.json(&["calibrate", "precious.img", "--json"]);
    assert_eq!(json["rotates"], false);
    assert_eq!(json["written"], false);
    let left = std::fs::read(bench.path("precious.img")).expect("the file");
    assert!(left == content, "nothing was written");
}

#[test]
fn with_permission_only_the_region_is_written() {
    let bench = bench();
    let content = precious(&bench);
    let command = ["calibrate", "precious.img", "--allow-destroy", "--json"];
    let region = ["--region", "16MiB..56MiB"];
    let json = bench.json(&[&command[..], &region[..]].concat());
    assert_eq!(json["written"], true);
    let left = std::fs::read(bench.path("precious.img")).expect("the file");
    assert!(left[..16 << 20] == content[..16 << 20], "nothing before it");
    assert!(left[56 << 20..] == content[56 << 20..], "nothing beyond it");
    assert!(left != content, "something within it");
}

#[test]
fn a_store_is_destroyed_only_by_its_name() {
    let bench = bench();
    let options = CreateOptions {
        size_bytes: 64 << 20,
        ..CreateOptions::default()
    };
    tonearm_store::create(&bench.path("a.tonearm"), &options).expect("a store");
    let content = std::fs::read(bench.path("a.tonearm")).expect("the store");
    let error = bench.fails(&["calibrate", "a.tonearm", "--allow-destroy"]);
    contains(&error, "holds member 0 of the Tonearm store");
    let (_, named) = error.split_once("say ").expect("what to say");
    let error = bench.fails(&["calibrate", "a.tonearm", "--allow-destroy=another"]);
    contains(&error, "holds member 0");
    let left = std::fs::read(bench.path("a.tonearm")).expect("the store");
    assert!(left == content, "nothing was written");
    bench.ok(&["calibrate", "a.tonearm", named.trim()]);
}

#[test]
fn invalid_arguments_are_refused_with_advice() {
    let bench = bench();
    let fails = |arguments: &[&str], expected: &str| {
        let error = bench.fails(&[&["calibrate"], arguments].concat());
        contains(&error, expected);
    };
    fails(&["nowhere"], "nowhere");
    fails(&["--drive", "nodrive"], "there is no drive 'nodrive'");
    precious(&bench);
    fails(
        &["precious.img", "--region", "0..1GiB"],
        "the device has 67108864 bytes",
    );
    fails(
        &["precious.img", "--region", "0..1MiB"],
        "at least 65536 are needed",
    );
    fails(
        &["precious.img", "--profile", "p"],
        "give --allow-destroy, too",
    );
    fails(&["precious.img", "--resume"], "precious.img.calibration");
    let ran = bench.run(&["calibrate", "precious.img", "--region", "5GiB..1GiB"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let ran = bench.run(&["calibrate"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn interrupted_calibration_can_be_resumed() {
    let bench = bench();
    precious(&bench);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tonearm-lab"))
        .args([
            "calibrate",
            "precious.img",
            "--allow-destroy",
            "--out",
            "f.toml",
        ])
        .current_dir(bench.path(""))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("tonearm runs");
    // It waits for a random time of a quarter of a second or more before its first result.
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let mut error = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().expect("piped"), &mut error).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{error}");
    contains(&error, "precious.img.calibration. Go on with: ");
    contains(&error, "--resume");
    let command = [
        "calibrate",
        "precious.img",
        "--allow-destroy",
        "--out",
        "f.toml",
    ];
    contains(&bench.fails(&command), "--resume");
    bench.ok(&[&command[..], &["--resume"]].concat());
    assert_eq!(bench.files(), ["f.toml", "precious.img"]);
}
