//! A drive fails under a server: one line on standard error at the moment, the same in `stats` and the metrics, and the exit code.

use std::time::Duration;
use tonearm_tests::mount::{Loop, possible};
use tonearm_tests::{Bench, MIB, Server, contains, skipped, wait_until};

/// A block device of 128 MiB, whose writes a test lets fail.
fn drive(bench: &Bench) -> Option<Loop> {
    if let Err(why) = possible() {
        skipped("a server whose drive fails", &why);
        return None;
    }
    let file = std::fs::File::create(bench.path("drive")).expect("made");
    file.set_len(128 * MIB).expect("a size");
    Some(Loop::new(bench, &bench.path("drive"), 512))
}

fn serve(bench: &Bench, store: &str) -> Server {
    let sockets = ["--socket", "s.sock", "--control", "s.ctl"];
    let metrics = ["--metrics", "unix:m.sock"];
    bench.serve(&[&[store], &sockets[..], &metrics[..]].concat())
}

/// Waits for a line with `text` on standard error, and checks that `stats` and the metrics of `store` have the event in `number`.
#[track_caller]
fn is_reported(bench: &Bench, server: &Server, store: &str, text: &str, number: &str) {
    server.wait_for_note(text);
    let stats = bench.json(&["stats", store, "--control", "s.ctl", "--json"]);
    contains(&stats["events"].to_string(), text);
    assert_eq!(stats["store"][number], 1, "{stats}");
    contains(
        &bench.metrics("m.sock"),
        &format!("\ntonearm_{number}_total 1\n"),
    );
}

/// How often a line with `text` is in `err`.
fn count(err: &str, text: &str) -> usize {
    err.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn store_whose_drive_fails_is_reported_read_only() {
    let bench = Bench::new();
    let Some(drive) = drive(&bench) else { return };
    let store = drive.device.clone();
    bench.ok(&[
        "create",
        &store,
        "--log-size",
        "8MiB",
        "--size",
        "64MiB",
        "--force",
    ]);
    let server = serve(&bench, &store);
    let mut client = server.client("main");
    client.write(0, &[1; 4096], 0).expect("written");
    client.flush().expect("flushed");
    drive.fail_writes(&bench);
    // The reply to a write need not wait for the log.
    let written = client.write(0, &[2; 4096], 0);
    assert!(written.and_then(|()| client.flush()).is_err());
    let text = "the store is READ-ONLY from now on: ";
    is_reported(&bench, &server, &store, text, "failures");
    contains(&bench.metrics("m.sock"), "\ntonearm_failed 1\n");
    assert!(client.write(4096, &[2; 4096], 0).is_err());
    client.read(4096, 4096).expect("reads go on");
    drop(client);
    let ended = server.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(count(&ended.err, text), 1, "{ended:?}");
}

#[test]
fn member_that_fails_is_reported_as_dropped() {
    let bench = Bench::new();
    let Some(drive) = drive(&bench) else { return };
    let device = &drive.device;
    let data = ["--data", "a", "--data", device, "--data", "c", "--force"];
    let create = ["create", "s.tn", "--log-size", "8MiB", "--size", "64MiB"];
    bench.ok(&[&create[..], &["--redundancy", "raid5"], &data].concat());
    let server = serve(&bench, "s.tn");
    drive.fail_writes(&bench);
    let mut client = server.client("main");
    for part in 0..8 {
        client
            .write(part * MIB, &vec![3; MIB as usize], 0)
            .expect("written");
    }
    client.flush().expect("flushed");
    let text = format!("{device} has failed (");
    is_reported(&bench, &server, "s.tn", &text, "failures");
    let metrics = bench.metrics("m.sock");
    contains(&metrics, "\ntonearm_array_degraded_members 1\n");
    contains(&metrics, "\ntonearm_failed 0\n");
    contains(
        &bench.ok(&["stats", "s.tn", "--control", "s.ctl"]),
        "`tonearm member replace`",
    );
    // The service goes on, and its exit code reports it.
    assert_eq!(client.read(5 * MIB, 4096).expect("read"), [3; 4096]);
    drop(client);
    let ended = server.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(count(&ended.err, "is not used any more"), 1, "{ended:?}");
    contains(
        &ended.err,
        "the store was closed in order, but the array is DEGRADED",
    );
}

#[test]
fn read_that_fails_is_reported() {
    let bench = Bench::with_store("64MiB");
    let server = serve(&bench, "s.tn");
    let mut client = server.client("main");
    client.write(48 * MIB, &[4; 4096], 0).expect("written");
    drop(client);
    server.end_ok();
    let server = serve(&bench, "s.tn");
    let file = std::fs::File::options()
        .write(true)
        .open(bench.path("s.tn"));
    // What lies beyond can be read no more.
    file.expect("a file").set_len(32 * MIB).expect("cut");
    let mut client = server.client("main");
    assert!(client.read(48 * MIB, 4096).is_err());
    is_reported(
        &bench,
        &server,
        "s.tn",
        "a read has failed: ",
        "failed_reads",
    );
    wait_until("the next read", Duration::from_secs(1), || {
        client.read(0, 4096).is_ok()
    });
}
