//! Block devices that have other names after a restart of the machine: members are found by what is on them.

use std::path::Path;
use tonearm_tests::mount::{Loop, possible};
use tonearm_tests::{Bench, MIB, contains, noise, skipped};

/// Attaches a file, which is made if it is not there, as a block device.
fn attach(bench: &Bench, file: &str) -> Loop {
    if !bench.path(file).exists() {
        let made = std::fs::File::create(bench.path(file)).expect("made");
        made.set_len(96 * MIB).expect("a size");
    }
    Loop::new(bench, &bench.path(file), 512)
}

fn states(bench: &Bench) -> Vec<String> {
    let list = bench.json(&["member", "list", "s.tn", "--json"]);
    let members = list["members"].as_array().expect("members");
    let state = |member: &serde_json::Value| member["state"].as_str().expect("a state").to_owned();
    members.iter().map(state).collect()
}

/// Detaches a device, and attaches its file under a name that it did not have: another device has the old one. Tests that run
/// at the same time take and free names too, so that the first name free may be the old one again.
fn renamed(bench: &Bench, device: Loop, file: &str) -> (Vec<Loop>, Loop) {
    let old = device.device.clone();
    drop(device);
    let mut others = Vec::new();
    loop {
        others.push(attach(bench, "blank"));
        let new = attach(bench, file);
        if new.device != old {
            return (others, new);
        }
    }
}

#[test]
fn member_of_an_array_under_another_name_is_not_missing() {
    if let Err(why) = possible() {
        return skipped("devices under other names", &why);
    }
    let bench = Bench::new();
    let (a, b, c) = (
        attach(&bench, "a"),
        attach(&bench, "b"),
        attach(&bench, "c"),
    );
    let data = [&a, &b, &c]
        .map(|device| ["--data", &device.device])
        .concat();
    let create = ["create", "s.tn", "--size", "128MiB", "--log-size", "8MiB"];
    let array = ["--redundancy", "raid5", "--force"];
    bench.ok(&[&create[..], &array, &data].concat());
    let server = bench.serve_store();
    server
        .client("main")
        .write(0, &noise(1, 1 << 20), 1)
        .expect("written");
    server.end_ok();
    let (_others, a) = renamed(&bench, a, "a");
    assert_eq!(states(&bench), ["in use"; 3]);
    // Opened for writing, all members stay in step.
    let server = bench.serve_store();
    let mut client = server.client("main");
    assert!(client.read(0, 1 << 20).expect("read") == noise(1, 1 << 20));
    client.write(0, &noise(2, 1 << 20), 1).expect("written");
    assert_eq!(states(&bench), ["in use"; 3]);
    server.end_ok();
    // A copy of a member under a name of its own is not taken for it in silence.
    std::fs::copy(bench.path("a"), bench.path("copy")).expect("copied");
    let copy = attach(&bench, "copy");
    contains(
        &bench.fails(&["member", "list", "s.tn"]),
        "one is a copy of the other",
    );
    drop(copy);
    drop(a);
    assert_eq!(states(&bench)[1..], ["in use", "in use"]);
}

#[test]
fn log_device_under_another_name_is_found() {
    if let Err(why) = possible() {
        return skipped("devices under other names", &why);
    }
    let bench = Bench::new();
    let log = attach(&bench, "log");
    let create = [
        "create",
        "s.tn",
        "--size",
        "64MiB",
        "--log",
        &log.device,
        "--force",
    ];
    bench.ok(&create);
    let (others, log) = renamed(&bench, log, "log");
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "32MiB"]);
    contains(&bench.ok(&["info", "s.tn"]), &log.device);
    // Nothing is found when it is not there.
    drop(log);
    contains(
        &bench.fails(&["volume", "list", "s.tn"]),
        "member 1 of s.tn",
    );
    assert!(others.iter().all(|other| Path::new(&other.device).exists()));
}
