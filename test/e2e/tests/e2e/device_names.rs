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

/// Attaches a file under another name than `old`, which is free or another device's. Tests that run at the same time take and free
/// names too, so that the first name free may be `old` again. The devices returned beside it keep other names in use.
fn attach_elsewhere(bench: &Bench, file: &str, old: &str) -> (Vec<Loop>, Loop) {
    let mut others = Vec::new();
    loop {
        others.push(attach(bench, "blank"));
        let new = attach(bench, file);
        if new.device != old {
            return (others, new);
        }
    }
}

/// Detaches a device and attaches its file under another name.
fn renamed(bench: &Bench, device: Loop, file: &str) -> (Vec<Loop>, Loop) {
    let old = device.device.clone();
    drop(device);
    attach_elsewhere(bench, file, &old)
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
    let old = a.device.clone();
    let (_others, a) = renamed(&bench, a, "a");
    assert_eq!(states(&bench), ["in use"; 3]);
    // Opened for writing, all members stay in step.
    let server = bench.serve_store();
    let mut client = server.client("main");
    assert!(client.read(0, 1 << 20).expect("read") == noise(1, 1 << 20));
    client.write(0, &noise(2, 1 << 20), 1).expect("written");
    assert_eq!(states(&bench), ["in use"; 3]);
    server.end_ok();
    // A copy of a member under a third name is not taken for it in silence.
    std::fs::copy(bench.path("a"), bench.path("copy")).expect("copied");
    let (_more, copy) = attach_elsewhere(&bench, "copy", &old);
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
