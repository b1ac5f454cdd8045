//! Scrubs that end before they have verified everything.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tonearm_tests::{Bench, Ran, contains, wait_until};

/// A large empty store, whose scrub takes a while.
fn large() -> Bench {
    Bench::with_store("4TiB")
}

/// Starts a scrub. Returns the lines of its progress.
fn begin(bench: &Bench) -> BufReader<UnixStream> {
    let mut control = UnixStream::connect(bench.path("s.tn.ctl")).expect("connected");
    let request = b"{\"tonearm\":1,\"request\":{\"command\":\"scrub\"}}\n";
    control.write_all(request).expect("sent");
    let mut events = BufReader::new(control);
    contains(&next(&mut events), "\"progress\"");
    events
}

fn next(events: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    events.read_line(&mut line).expect("a line");
    line
}

/// Waits for the end of the scrub and returns its result.
fn end(mut events: BufReader<UnixStream>) -> serde_json::Value {
    loop {
        let line = next(&mut events);
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if event["event"]["progress"].is_null() {
            return event["event"]["done"]["scrub"].clone();
        }
    }
}

#[track_caller]
fn cancelled(result: &serde_json::Value) {
    assert_eq!(result["cancelled"], true, "{result}");
    let groups = result["groups"].as_u64().expect("a number");
    assert!(Some(groups) < result["groups_total"].as_u64(), "{result}");
}

#[test]
fn a_signal_ends_a_scrub_and_shows_what_it_has_found() {
    let bench = large();
    let server = bench.serve_store();
    // On a busy machine the signal may arrive before the scrub begins.
    let found = [1, 4, 16].into_iter().any(|seconds| {
        let mut command = bench.command(&["scrub", "s.tn"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let scrub = command.spawn().expect("tonearm runs");
        std::thread::sleep(Duration::from_secs(seconds));
        kill_process(Pid::from_child(&scrub), Signal::INT).expect("sent");
        let ran = Ran::of(&scrub.wait_with_output().expect("an end"));
        ran.code == Some(130)
            && ran.out.contains("verified ")
            && ran.out.contains("cancelled after ")
    });
    assert!(found);
    server.end_ok();
}

#[test]
fn another_command_ends_a_scrub() {
    let bench = large();
    let server = bench.serve_store();
    let none = bench.run(&["scrub", "s.tn", "--cancel"]);
    assert_eq!(none.code, Some(1));
    contains(&none.err, "no scrub is running");
    let scrub = begin(&bench);
    contains(
        &bench.run(&["scrub", "s.tn"]).err,
        "a scrub is running already",
    );
    bench.ok(&["scrub", "s.tn", "--cancel"]);
    cancelled(&end(scrub));
    server.end_ok();
}

#[test]
fn scrub_ends_with_its_client() {
    let bench = large();
    let server = bench.serve_store();
    // The duration of a scrub that is not interrupted.
    let started = Instant::now();
    assert_eq!(end(begin(&bench))["cancelled"], false);
    let whole = started.elapsed();
    drop(begin(&bench));
    wait_until("the end of the scrub", whole / 2, || {
        let mut scrub = UnixStream::connect(bench.path("s.tn.ctl")).expect("connected");
        let request = b"{\"tonearm\":1,\"request\":{\"command\":\"scrub\"}}\n";
        scrub.write_all(request).expect("sent");
        !next(&mut BufReader::new(scrub)).contains("a scrub is running already")
    });
    server.end_ok();
}

#[test]
fn a_server_that_is_shut_down_does_not_wait_for_a_scrub() {
    let bench = large();
    let server = bench.serve_store();
    let scrub = begin(&bench);
    server.end_ok();
    cancelled(&end(scrub));
}
