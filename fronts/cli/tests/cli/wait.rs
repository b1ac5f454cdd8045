use crate::common::{Bench, contains};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

/// A served store with a durable commit; its number.
fn durable(bench: &Bench) -> u64 {
    bench.ok(&["volume", "create", "a", "more", "--size", "1MiB"]);
    let stats = bench.json(&["stats", "a", "--json"]);
    stats["store"]["durable_lsn"].as_u64().expect("a number")
}

fn store() -> Bench {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB", "--no-volume"]);
    bench
}

#[test]
fn a_wait_for_a_durable_commit_returns_at_once() {
    let bench = store();
    let _serving = bench.serve(&["a"]);
    let lsn = durable(&bench);
    let text = lsn.to_string();
    assert_eq!(
        bench.ok(&["wait", "a", "--durable", &text]),
        format!("commit {lsn} is durable\n")
    );
    let told = bench.json(&["wait", "a", "--durable", &text, "--timeout", "5s", "--json"]);
    assert_eq!(told["outcome"], "reached");
    assert_eq!(
        (&told["lsn"], &told["marks"]["durable"]),
        (&lsn.into(), &lsn.into())
    );
    contains(
        &bench.ok(&["stats", "a"]),
        &format!("{lsn} appended, {lsn} flushed, {lsn} durable"),
    );
}

#[test]
fn wait_for_a_future_commit_has_its_own_exit_code() {
    let bench = store();
    let _serving = bench.serve(&["a"]);
    let lsn = durable(&bench);
    let ran = bench.run(&["wait", "a", "--durable", &(lsn + 1).to_string()]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(
        ran.err,
        format!(
            "tonearm: there is no commit {} yet: the last one is {lsn}\n",
            lsn + 1
        )
    );
    let ran = bench.run(&["wait", "a", "--durable", "99999", "--json"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    contains(&ran.out, "\"not-committed\"");
}

#[test]
fn a_wait_that_takes_too_long_has_a_code_of_its_own() {
    let bench = Bench::new();
    // A server whose drive does not answer.
    let listener = UnixListener::bind(bench.path("a.ctl")).expect("bound");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        reader.read_line(&mut line).expect("a request");
        stream
            .write_all(
                b"{\"tonearm\":1,\"event\":{\"done\":{\"waited\":{\"outcome\":\"timed-out\",\"marks\":\
                  {\"appended\":9,\"flushed\":8,\"durable\":6,\"epoch\":2}}}}}\n",
            )
            .expect("sent");
        line
    });
    let ran = bench.run(&["wait", "a", "--durable", "7", "--timeout", "20ms"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(
        ran.err,
        "tonearm: commit 7 is not durable in time; commit 6 is, of 9\n"
    );
    assert_eq!(
        server.join().expect("an end"),
        "{\"tonearm\":1,\"request\":{\"command\":\"wait\",\"mark\":\"durable\",\"lsn\":7,\"timeout_ms\":20}}\n"
    );
}

#[test]
fn a_checkpoint_leaves_nothing_for_a_recovery() {
    let bench = store();
    let serving = bench.serve(&["a"]);
    let lsn = durable(&bench);
    contains(
        &bench.ok(&["checkpoint", "a"]),
        &format!("commit {lsn} and all before it are at home"),
    );
    let told = bench.json(&["checkpoint", "a", "--json"]);
    assert!(told["lsn"].as_u64() >= Some(lsn) && told["replayed_from"].as_u64() > Some(lsn));
    let stats = bench.json(&["stats", "a", "--json"]);
    assert_eq!(stats["store"]["checkpoints"], 2);
    contains(&bench.ok(&["stats", "a"]), "in 2 checkpoints");
    serving.kill();
    contains(
        &bench.fails(&["checkpoint", "a"]),
        "a is not being served here; start `tonearm serve a` first",
    );
    // The server makes them by itself.
    let serving = bench.serve(&["a", "--checkpoint-every", "1ms"]);
    let stats = || bench.json(&["stats", "a", "--json"])["store"]["checkpoints"].as_u64();
    let started = std::time::Instant::now();
    while stats() < Some(3) {
        assert!(started.elapsed() < std::time::Duration::from_secs(60));
    }
    assert_eq!(serving.end("-TERM").code, Some(0));
}

#[test]
fn a_wait_needs_a_server_and_a_time_with_a_unit() {
    let bench = store();
    contains(
        &bench.fails(&["wait", "a", "--durable", "1"]),
        "a is not being served here; start `tonearm serve a` first",
    );
    for (arguments, why) in [
        (&["--durable", "1", "--timeout", "5"][..], "50ms, 5s"),
        (&["--durable", "x"], "invalid digit"),
        (&[], "--durable <LSN>"),
    ] {
        let ran = bench.run(&[&["wait", "a"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        contains(&ran.err, why);
    }
}
