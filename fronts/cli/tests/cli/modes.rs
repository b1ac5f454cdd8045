//! Whose is what a command makes: contents of a store, which is for its owner alone, stay so.

use crate::common::Bench;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn extracted_files_are_readable_by_their_owner_only() {
    let bench = Bench::new();
    bench.ok(&["create", "s.tn", "--size", "16MiB", "--log-size", "8MiB"]);
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "1MiB"]);
    std::fs::write(bench.path("in"), "content").expect("written");
    let readable = PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(bench.path("in"), readable).expect("a mode");
    let archive = format!("file://{}", bench.path("archive").display());
    let rate = ["--archive-base-rate", "1GiB"];
    let server = bench.serve(&[&["s.tn", "--archive", &archive], &rate[..]].concat());
    bench.ok(&["files", "put", "s.tn", "in"]);
    bench.ok(&["archive", "wait", "s.tn"]);
    let started = Instant::now();
    while bench.json(&["archive", "status", "s.tn", "--json"])["restorable"] != true {
        assert!(started.elapsed() < Duration::from_secs(30), "no base");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.end("-TERM").code, Some(0));

    let listed = bench.json(&["files", "list", "s.tn", "--json"]);
    assert_eq!(listed["files"][0]["mode"], 0o100_600, "{listed}");
    for command in [
        &["volume", "get", "s.tn", "main", "out"][..],
        &["files", "get", "s.tn", "in", "out"],
        &["files", "get", "s.tn", "in", "out", "--force"],
        &["restore", &archive, "out", "--only", "main"],
        &["restore", &archive, "out", "--only", "in"],
        &["restore", &archive, "out"],
    ] {
        let replaces = command.contains(&"--force");
        if !replaces {
            let _ = std::fs::remove_file(bench.path("out"));
        }
        bench.ok(command);
        let made = bench.path("out").metadata().expect("a file");
        assert_eq!(made.permissions().mode() & 0o7777, 0o600, "{command:?}");
    }
}
