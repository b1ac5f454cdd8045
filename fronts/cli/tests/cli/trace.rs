//! What a recording is refused for. Traces of requests are in the end-to-end tests.

use crate::common::{Bench, contains};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

fn served() -> (Bench, crate::common::Serving) {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let serving = bench.serve(&["a"]);
    (bench, serving)
}

#[test]
fn record_without_a_server_is_an_error_with_advice() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let record = |store: &str| bench.fails(&["trace", "record", store, "--out", "t"]);
    contains(
        &record("a"),
        "a is not being served here; start `tonearm serve a` first",
    );
    contains(&record("missing"), "missing does not exist");
    assert_eq!(bench.files(), ["a"]);
}

#[test]
fn refused_recording_leaves_no_file() {
    let (bench, _serving) = served();
    std::fs::write(bench.path("mine"), "mine").expect("written");
    std::fs::write(bench.path("t.3"), "mine").expect("written");
    let before = bench.files();
    for (arguments, why) in [
        (
            &["--out", "mine"][..],
            "mine exists; choose another name, or overwrite it with --force",
        ),
        (
            &["--out", "t", "--files", "4"],
            "t.3 exists; choose another name, or overwrite it with --force",
        ),
        (&["--out", "."], ". is not a regular file"),
        (
            &["--out", "no/t"],
            "cannot write no/t: No such file or directory",
        ),
        (&["--out", "mine/t"], "cannot write mine/t: Not a directory"),
        (
            &["--out", "t", "--volume", "x"],
            "there is no volume 'x' in this store; `tonearm volume list` names them",
        ),
        (
            &["--out", "t", "--control", "no"],
            "cannot reach the server at its control socket no",
        ),
    ] {
        let error = bench.fails(&[&["trace", "record", "a"], arguments].concat());
        contains(&error, why);
        assert_eq!(bench.files(), before, "{arguments:?}");
    }
    assert_eq!(std::fs::read(bench.path("mine")).expect("a file"), b"mine");
    for wrong in [
        &["--for", "10"][..],
        &["--files", "0"],
        &["--max-bytes", "x"],
    ] {
        let ran = bench.run(&[&["trace", "record", "a", "--out", "t"], wrong].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}

#[test]
fn an_older_server_is_named_as_the_reason() {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    let listener = UnixListener::bind(bench.path("a.ctl")).expect("bound");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut request = String::new();
        BufReader::new(&stream)
            .read_line(&mut request)
            .expect("a line");
        let why =
            "the request is not known: unknown variant `trace-start`, expected one of `stats`";
        writeln!(
            &stream,
            "{{\"tonearm\":1,\"event\":{{\"failed\":\"{why}\"}}}}"
        )
        .expect("sent");
        request
    });
    contains(
        &bench.fails(&["trace", "record", "a", "--out", "t"]),
        "the server is of an older version, which cannot record; start it anew with version",
    );
    let request = server.join().expect("asked");
    assert_eq!(
        request,
        "{\"tonearm\":1,\"request\":{\"command\":\"trace-start\"}}\n"
    );
    assert!(!bench.path("t").exists());
}

#[test]
fn a_recording_of_nothing_is_an_empty_trace() {
    let (bench, serving) = served();
    let text = bench.ok(&["trace", "record", "a", "--out", "t", "--for", "1s"]);
    contains(&text, "recorded 0 requests in 1.");
    let trace = std::fs::read_to_string(bench.path("t")).expect("a file");
    contains(
        &trace,
        "\narrival_ms,device,rw,lba,sectors,fua,response_ms\n# end after 1.",
    );
    contains(&trace, ": all volumes of store ");
    assert_eq!(serving.end("-INT").code, Some(0));
}

#[test]
fn only_the_connection_that_records_takes_requests() {
    let (bench, _serving) = served();
    let control = std::os::unix::net::UnixStream::connect(bench.path("a.ctl")).expect("connected");
    let mut answers = BufReader::new(&control);
    for command in ["trace-take", "trace-stop"] {
        writeln!(
            &control,
            "{{\"tonearm\":1,\"request\":{{\"command\":\"{command}\"}}}}"
        )
        .expect("sent");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("an answer");
        contains(
            &answer,
            "this connection records nothing; it begins with trace-start",
        );
    }
}
