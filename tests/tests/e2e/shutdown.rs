//! Orderly ends at awkward moments leave a clean store.

use std::time::Duration;
use tonearm_tests::{Bench, MIB, noise};

/// How often each moment is tried.
const ROUNDS: u64 = 12;

#[test]
fn an_end_soon_after_a_recovery_is_orderly() {
    let bench = Bench::with_store("64MiB");
    for round in 0..ROUNDS {
        let server = bench.serve_store();
        let mut client = server.client("main");
        let bytes = noise(round, 64 << 10);
        for step in 0..40 {
            client
                .write((step * 7 + round) % 900 * 65536, &bytes, 0)
                .expect("written");
        }
        client.flush().expect("flushed");
        server.kill9();
        let server = bench.serve_store();
        let mut client = server.client("main");
        let at = (39 * 7 + round) % 900 * 65536;
        assert!(client.read(at, 65536).expect("read") == bytes);
        std::thread::sleep(Duration::from_millis(round * 13 % 120));
        server.end_ok();
        assert_eq!(bench.json(&["info", "s.tn", "--json"])["state"], "clean");
    }
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn an_end_under_writers_is_orderly_and_keeps_what_was_flushed() {
    let bench = Bench::with_store("64MiB");
    for round in 0..ROUNDS {
        let server = bench.serve_store();
        let mut client = server.client("main");
        let bytes = noise(round, 4096);
        let flushed = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut flushed = 0;
                for step in 0.. {
                    let written = client.write(step * 4096 % (60 * MIB), &bytes, 0);
                    if written.and_then(|()| client.flush()).is_err() {
                        break;
                    }
                    flushed = step + 1;
                }
                flushed
            });
            std::thread::sleep(Duration::from_millis(20 + round * 17 % 90));
            server.end_ok();
            writer.join().expect("a writer")
        });
        assert_eq!(bench.json(&["info", "s.tn", "--json"])["state"], "clean");
        let server = bench.serve_store();
        let mut client = server.client("main");
        for step in 0..flushed.min(60 * MIB / 4096) {
            assert!(
                client.read(step * 4096, 4096).expect("read") == bytes,
                "{step}"
            );
        }
        server.end_ok();
    }
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn an_end_while_the_log_is_full_is_orderly() {
    let bench = Bench::with_store("128MiB");
    for round in 0..ROUNDS {
        let server = bench.serve(&["s.tn", "--socket", "s.sock", "--memory", "64MiB"]);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let mut client = server.client("main");
                scope.spawn(move || {
                    let bytes = noise(writer, 64 << 10);
                    for step in 0.. {
                        let at = (step * 37 + writer * 500) % 2000 * 65536;
                        if client.write(at, &bytes, 0).is_err() {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(60 + round * 29 % 120));
            // Every second time with a recovery between.
            if round % 2 == 0 {
                server.end_ok();
            } else {
                server.kill9();
                bench.serve_store().end_ok();
            }
        });
        assert_eq!(bench.json(&["info", "s.tn", "--json"])["state"], "clean");
    }
    bench.ok(&["check", "s.tn"]);
}
