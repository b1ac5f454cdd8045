//! `kill -9` of the server under load, fifty times.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonearm_tests::stamp::{Ledger, SPAN};
use tonearm_tests::{Background, Bench, MIB, tool};

/// Number of kills.
const ROUNDS: u64 = 50;

/// fio on the volume `name`. What a run with one `seed` writes is verified by a run with the same seed.
fn fio(bench: &Bench, name: &str, seed: u64, more: &[&str]) -> std::process::Command {
    let mut command = tool(bench.folder(), "fio");
    command.args([
        &format!("--name={name}"),
        "--ioengine=nbd",
        &format!("--uri=nbd+unix:///{name}?socket=s.sock"),
        "--rw=randwrite",
        "--bs=4k",
        "--size=1M",
        "--iodepth=16",
        "--thread",
        "--verify=crc32c",
        "--verify_fatal=1",
        &format!("--randseed={seed}"),
    ]);
    command.args(more);
    command
}

fn ended_well(mut command: std::process::Command) {
    let output = command.output().expect("timeout runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[test]
fn fifty_kills_under_fio_lose_and_tear_nothing() {
    let bench = Bench::created(&["--size", "160MiB", "--log-size", "16MiB"]);
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "16MiB"]);
    const { assert!(SPAN <= 16 * MIB) };
    for name in ["kept", "load"] {
        bench.ok(&["volume", "create", "s.tn", name, "--size", "64MiB"]);
    }
    let mut ledger = Ledger::new(1);
    let (mut sent, mut promised, mut lost, mut slowest) = (0, 0, 0, Duration::ZERO);
    for round in 0..ROUNDS {
        let server = bench.serve_store();
        slowest = slowest.max(server.started_in);
        if round > 0 {
            let found = ledger.verify(&mut server.client("main"));
            sent += found.sent;
            promised += found.promised;
            lost += found.sent - found.kept;
            ended_well(fio(&bench, "kept", round - 1, &["--verify_only=1"]));
        }
        // This data is written and flushed before the kill, and verified after it.
        let load = [
            "--do_verify=0",
            "--time_based",
            "--runtime=60",
            "--size=64M",
            "--bsrange=4k-64k",
        ];
        let mut load = fio(&bench, "load", round, &load);
        let _load = Background::start(load.stdout(Stdio::null()).stderr(Stdio::null()));
        let mut client = server.client("main");
        let writing = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writing.store(true, Ordering::Release);
                ledger.write_until_cut(&mut client);
            });
            ended_well(fio(
                &bench,
                "kept",
                round,
                &["--do_verify=0", "--end_fsync=1"],
            ));
            // The delays vary, so that the kills do not coincide with periodic work.
            std::thread::sleep(Duration::from_millis(20 + round * 37 % 211));
            assert!(writing.load(Ordering::Acquire));
            server.kill9();
        });
    }
    let server = bench.serve_store();
    let found = ledger.verify(&mut server.client("main"));
    ended_well(fio(&bench, "kept", ROUNDS - 1, &["--verify_only=1"]));
    sent += found.sent;
    promised += found.promised;
    println!(
        "{ROUNDS} kills: {sent} writes, {promised} of them promised, {lost} lost that were not; \
         slowest start {slowest:?}"
    );
    // With fewer flushed writes the rounds would prove nothing.
    assert!(
        promised > 1000,
        "{promised} writes were flushed in {ROUNDS} rounds"
    );
    server.end_ok();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn with_ack_write_no_acknowledged_write_is_lost() {
    let bench = Bench::with_store("64MiB");
    let serve = || bench.serve(&["s.tn", "--socket", "s.sock", "--ack", "write"]);
    let mut acknowledged = Vec::new();
    for round in 0..5u8 {
        let server = serve();
        let mut client = server.client("");
        for (offset, byte) in &acknowledged {
            assert_eq!(client.read(*offset, 4096).expect("read"), vec![*byte; 4096]);
        }
        std::thread::scope(|scope| {
            let acknowledged = &mut acknowledged;
            scope.spawn(move || {
                for number in 0.. {
                    let offset = (u64::from(round) * 2000 + number % 2000) * 4096;
                    let byte = number as u8 ^ round | 1;
                    // The client never flushes.
                    if number == 2000 || client.write(offset, &[byte; 4096], 0).is_err() {
                        break;
                    }
                    acknowledged.push((offset, byte));
                }
            });
            std::thread::sleep(Duration::from_millis(100 + u64::from(round) * 30));
            server.kill9();
        });
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    let server = serve();
    let mut client = server.client("");
    for (offset, byte) in acknowledged {
        assert_eq!(client.read(offset, 4096).expect("read"), vec![byte; 4096]);
    }
}
