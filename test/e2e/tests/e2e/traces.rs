//! Recorded requests: what clients have asked for is in the trace, and recording disturbs nobody.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tonearm_tests::nbd::{CMD_FLUSH, Client, FLAG_FUA, request};
use tonearm_tests::{Bench, Ran, contains, noise, wait_until};
use tonearm_trace::{Arrival, Format, Op, Reader, Record};
use tonearm_vhost_driver::{Guest, Kind};

/// A recording under way.
struct Recording {
    child: Option<Child>,
}

impl Recording {
    /// Starts the command and waits until it records.
    #[track_caller]
    fn start(bench: &Bench, command: &mut Command) -> Self {
        let err = bench.path("record.err");
        let file = std::fs::File::create(&err).expect("a file");
        let child = command.stdout(Stdio::piped()).stderr(file).spawn();
        let mut recording = Self {
            child: Some(child.expect("tonearm runs")),
        };
        wait_until("a recording", Duration::from_secs(30), || {
            let child = recording.child.as_mut().expect("started");
            assert!(child.try_wait().expect("a child").is_none(), "it has ended");
            let text = std::fs::read_to_string(&err).expect("a file");
            text.contains("Ctrl-C ends it")
        });
        recording
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("sent");
    }

    /// Waits for the end.
    fn wait(mut self, bench: &Bench) -> Ran {
        let child = self.child.take().expect("it runs");
        let mut ran = Ran::of(&child.wait_with_output().expect("an end"));
        ran.err = bench.read("record.err").escape_ascii().to_string();
        ran
    }

    /// Ends it as Ctrl-C does. Returns its result.
    #[track_caller]
    fn end(self, bench: &Bench) -> serde_json::Value {
        self.signal(Signal::INT);
        let ran = self.wait(bench);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.out).expect("JSON")
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn record(bench: &Bench, more: &[&str]) -> Recording {
    let arguments = [&["trace", "record", "s.tn", "--json"], more].concat();
    Recording::start(bench, &mut bench.command(&arguments))
}

/// The requests in a file, and how many were left out (trims and zeroings).
fn records(bench: &Bench, name: &str) -> (Vec<Record>, u64) {
    let format = match name.ends_with(".iolog") {
        true => Format::FioIolog,
        false => Format::Csv,
    };
    let file = BufReader::new(std::fs::File::open(bench.path(name)).expect("a trace"));
    let mut reader = Reader::new(name, format, file);
    let records: Result<Vec<Record>, _> = reader.by_ref().collect();
    assert_eq!(reader.clamped(), 0, "the file is in order");
    (records.expect("a trace"), reader.skipped())
}

fn shape(record: &Record) -> (u32, Op, bool, u64, u32) {
    (
        record.device,
        record.op,
        record.fua,
        record.sector,
        record.sectors,
    )
}

/// A store with the volumes `main` and `b`.
fn store() -> Bench {
    let bench = Bench::with_small_store(&[]);
    bench.ok(&["volume", "create", "s.tn", "b", "--size", "1MiB"]);
    bench
}

fn flushes(client: &mut Client, count: u64) {
    let batch: Vec<u8> = (0..100)
        .flat_map(|cookie| request(CMD_FLUSH, 0, cookie, 0, 0))
        .collect();
    let mut replies = vec![0; 100 * 16];
    for _ in 0..count / 100 {
        let stream = client.stream();
        stream.write_all(&batch).expect("sent");
        std::io::Read::read_exact(stream, &mut replies).expect("answered");
    }
}

#[test]
fn trace_records_the_requests_of_clients() {
    let bench = store();
    let server = bench.serve_store();
    let (mut main, mut b) = (server.client("main"), server.client("b"));
    main.write(0, &noise(0, 4096), 0).expect("written");
    let recording = record(&bench, &["--out", "t.csv"]);
    main.write(8192, &noise(1, 4096), 0).expect("written");
    b.write(512, &noise(2, 1024), FLAG_FUA).expect("written");
    main.read(8192, 4096).expect("read");
    main.flush().expect("flushed");
    main.trim(0, 8192).expect("trimmed");
    let beyond = main.read(1 << 40, 4096);
    assert!(beyond.is_err(), "a request that is refused");
    let summary = recording.end(&bench);
    let (records, left_out) = records(&bench, "t.csv");
    let shapes: Vec<_> = records.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            (0, Op::Write, false, 16, 8),
            (1, Op::Write, true, 1, 2),
            (0, Op::Read, false, 16, 8),
            (0, Op::Flush, false, 0, 0),
        ]
    );
    assert_eq!(left_out, 1, "the trim");
    for pair in records.windows(2) {
        let (Arrival::At(first), Arrival::At(second)) = (pair[0].arrival, pair[1].arrival) else {
            panic!("times: {pair:?}");
        };
        let response = pair[0].response.expect("a time");
        assert!(
            first + response.0 <= second,
            "one after the other: {pair:?}"
        );
    }
    assert_eq!(summary["requests"], 5, "{summary}");
    assert_eq!(
        (&summary["lost"], &summary["failed"]),
        (&0.into(), &1.into())
    );
    assert_eq!(summary["ended"], "signal");
    let bytes = bench.read("t.csv").len();
    assert_eq!(summary["bytes"].as_u64(), Some(bytes as u64));
    let text = String::from_utf8(bench.read("t.csv")).expect("text");
    contains(&text, "# device 0: volume \"main\"\n");
    contains(&text, "# device 1: volume \"b\"\n");
    contains(&text, ": 5 requests; 0 lost; 1 left out");

    let one = record(&bench, &["--out", "b.csv", "--volume", "b"]);
    main.write(0, &noise(3, 512), 0).expect("written");
    b.write(0, &noise(4, 512), 0).expect("written");
    one.end(&bench);
    let shapes: Vec<_> = self::records(&bench, "b.csv").0.iter().map(shape).collect();
    assert_eq!(shapes, [(0, Op::Write, false, 0, 1)]);
    server.end_ok();
}

#[test]
fn requests_of_virtual_machines_are_recorded_and_counted() {
    let bench = store();
    let server = bench.serve(&["s.tn", "--socket", "s.sock", "--vhost-user", "vm.sock:b"]);
    let mut guest = Guest::connect(&bench.path("vm.sock"), 0).expect("connected");
    let recording = record(&bench, &["--out", "t.csv"]);
    let mut ask = |kind, sector, data: &[u8], room| {
        let answered = guest.request(kind, sector, data, room);
        answered.expect("an answer").0
    };
    assert_eq!(ask(Kind::Write, 8, &noise(1, 4096), 0), 0);
    assert_eq!(ask(Kind::Flush, 0, &[], 0), 0);
    assert_eq!(ask(Kind::Read, 9, &[], 1024), 0);
    assert_eq!(ask(Kind::Read, 1 << 40, &[], 1024), 1, "beyond the end");
    let summary = recording.end(&bench);
    assert_eq!(
        (&summary["lost"], &summary["failed"]),
        (&0.into(), &1.into())
    );
    let shapes: Vec<_> = records(&bench, "t.csv").0.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            (0, Op::Write, false, 8, 8),
            (0, Op::Flush, false, 0, 0),
            (0, Op::Read, false, 9, 2),
        ]
    );
    let text = String::from_utf8(bench.read("t.csv")).expect("text");
    contains(&text, "# device 0: volume \"b\"\n");
    let stats = &bench.json(&["stats", "s.tn", "--json"])["vhost"];
    assert_eq!(stats["rings"], 1, "{stats}");
    let of = |command: &str| {
        let commands = stats["commands"].as_array().expect("commands").iter();
        let found = commands.clone().find(|row| row["command"] == command);
        let row = found.expect("the command");
        ["requests", "bytes", "errors"].map(|field| row[field].as_u64().expect("a number"))
    };
    assert_eq!(of("read"), [2, 1024, 1]);
    assert_eq!(of("write"), [1, 4096, 0]);
    assert_eq!(of("flush"), [1, 0, 0]);
    contains(&bench.ok(&["stats", "s.tn"]), "virtual machines");
    drop(guest);
    server.end_ok();
}

#[test]
fn fio_replays_a_recording() {
    let bench = store();
    let server = bench.serve_store();
    let (mut main, mut b) = (server.client("main"), server.client("b"));
    let recording = record(&bench, &["--out", "t.iolog", "--format", "fio-iolog"]);
    main.write(8192, &noise(1, 4096), 0).expect("written");
    main.trim(0, 8192).expect("trimmed");
    main.read(8192, 8192).expect("read");
    std::thread::sleep(Duration::from_millis(600));
    b.write(512, &noise(2, 1024), FLAG_FUA).expect("written");
    main.flush().expect("flushed");
    let summary = recording.end(&bench);
    assert_eq!(summary["requests"], 4, "{summary}");
    assert_eq!(summary["left_out"], 1, "the trim: {summary}");
    let (records, left_out) = records(&bench, "t.iolog");
    let shapes: Vec<_> = records.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            (0, Op::Write, false, 16, 8),
            (0, Op::Read, false, 16, 16),
            (1, Op::Write, false, 1, 2),
            (1, Op::Flush, false, 0, 0),
            (0, Op::Flush, false, 0, 0),
        ]
    );
    assert_eq!(left_out, 0);
    let (Arrival::At(first), Arrival::At(third)) = (records[0].arrival, records[2].arrival) else {
        panic!("times: {records:?}");
    };
    let pause = third.since(first).0 / 1_000_000;
    assert!((600..5_000).contains(&pause), "{pause} ms");
    server.end_ok();

    bench.write("disk", &[0; 1 << 20]);
    for (engine, paced) in [("psync", true), ("libaio", false)] {
        let text = bench.tool(
            "fio",
            &[
                "--name=replay",
                "--read_iolog=t.iolog",
                "--replay_redirect=disk",
                &format!("--ioengine={engine}"),
                &format!("--replay_no_stall={}", u8::from(!paced)),
                "--output-format=json",
            ],
        );
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let job = &answer["jobs"][0];
        assert_eq!(job["error"], 0, "{engine}: {text}");
        for (kind, requests, bytes) in [("read", 1, 8192), ("write", 2, 5120)] {
            assert_eq!(job[kind]["total_ios"], requests, "{engine}: {kind}: {text}");
            assert_eq!(job[kind]["io_bytes"], bytes, "{engine}: {kind}: {text}");
        }
        let took = job["job_runtime"].as_u64().expect("ms");
        assert!(!paced || took + 100 >= pause, "{took} ms of {pause} ms");
    }
}

#[test]
fn stalled_recorder_loses_requests_without_delays() {
    let bench = store();
    let server = bench.serve_store();
    let mut client = server.client("main");
    let recording = record(&bench, &["--out", "t.csv"]);
    // The time for the first batches; the recorder is not in the middle of one then.
    recording.signal(Signal::STOP);
    flushes(&mut client, 100_000);
    recording.signal(Signal::CONT);
    let summary = recording.end(&bench);
    let number = |name: &str| summary[name].as_u64().expect("a number");
    assert_eq!(number("requests") + number("lost"), 100_000, "{summary}");
    assert!(number("requests") >= 65_536, "{summary}");
    assert!(number("lost") > 0, "{summary}");
    let (records, _) = records(&bench, "t.csv");
    assert_eq!(records.len() as u64, number("requests"));
    let text = String::from_utf8(bench.read("t.csv")).expect("text");
    contains(&text, " are lost: they were not taken in time");
    contains(&text, &format!("; {} lost; ", number("lost")));
    server.end_ok();
}

#[test]
fn recording_ends_with_its_client() {
    let bench = store();
    let server = bench.serve_store();
    let recording = record(&bench, &["--out", "t.csv"]);
    let refused = bench.fails(&["trace", "record", "s.tn", "--out", "u.csv"]);
    contains(
        &refused,
        "another `tonearm trace record` is recording this store",
    );
    assert!(!bench.path("u.csv").exists());
    recording.signal(Signal::KILL);
    assert_eq!(recording.wait(&bench).code, None);
    wait_until("the end of the recording", Duration::from_secs(10), || {
        let command = ["trace", "record", "s.tn", "--out", "u.csv", "--for", "1s"];
        bench.run(&command).code == Some(0)
    });
    server.end_ok();
}

#[test]
fn a_server_that_ends_leaves_a_whole_trace() {
    let bench = store();
    let server = bench.serve_store();
    let mut client = server.client("main");
    let recording = record(&bench, &["--out", "t.csv"]);
    flushes(&mut client, 1_000);
    // Longer than the time between two batches.
    std::thread::sleep(Duration::from_millis(500));
    server.end_ok();
    let ran = recording.wait(&bench);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(
        &ran.err,
        "the recording has ended early, and t.csv is whole up to then: the server",
    );
    assert_eq!(records(&bench, "t.csv").0.len(), 1_000);
}

#[test]
fn full_disk_ends_a_recording_with_one_error() {
    let bench = store();
    let server = bench.serve_store();
    let mut client = server.client("main");
    // The bound on a file stands for the size of a disk: 64 blocks of 512 bytes.
    let tonearm = tonearm_tests::binary().display().to_string();
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" trace record s.tn --out t.csv";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, &tonearm])
        .current_dir(bench.folder())
        .stdin(Stdio::null());
    let recording = Recording::start(&bench, &mut command);
    flushes(&mut client, 10_000);
    recording.signal(Signal::INT);
    let ran = recording.wait(&bench);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(&ran.err, "cannot write t.csv: File too large");
    records(&bench, "t.csv");
    assert!(bench.read("t.csv").ends_with(b"\n"));
    flushes(&mut client, 100);
    let again = record(&bench, &["--out", "t.csv", "--force"]);
    flushes(&mut client, 1_000);
    assert_eq!(again.end(&bench)["requests"], 1_000);
    assert_eq!(records(&bench, "t.csv").0.len(), 1_000);
    server.end_ok();
}

#[test]
fn files_rotate_and_join_to_one_trace() {
    let bench = store();
    let server = bench.serve_store();
    let mut client = server.client("main");
    let bounds = ["--max-bytes", "64KiB", "--files", "3"];
    let recording = record(&bench, &[&["--out", "t.csv"], &bounds[..]].concat());
    flushes(&mut client, 20_000);
    let summary = recording.end(&bench);
    assert_eq!(summary["requests"], 20_000);
    assert_eq!(
        summary["files"],
        serde_json::json!(["t.csv", "t.csv.1", "t.csv.2"])
    );
    let joined = ["t.csv.2", "t.csv.1", "t.csv"].map(|name| bench.read(name));
    assert!(joined.iter().all(|bytes| bytes.len() <= 64 << 10));
    bench.write("joined.csv", &joined.concat());
    let count = records(&bench, "joined.csv").0.len();
    assert!(count > 2_000, "{count}");
    let full = record(
        &bench,
        &["--out", "one.csv", "--max-bytes", "64KiB", "--for", "1h"],
    );
    flushes(&mut client, 20_000);
    full.signal(Signal::INT);
    let ran = full.wait(&bench);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    contains(&ran.err, "the file is full");
    assert!(records(&bench, "one.csv").0.len() > 500);
    assert!(bench.read("one.csv").len() <= 64 << 10);
    server.end_ok();
}
