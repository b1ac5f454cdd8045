//! Orderly ends of the server at difficult times leave a clean store.

use std::time::Duration;
use tonearm_store::StoreOptions;
use tonearm_store::files::Open;
use tonearm_tests::{Bench, MIB, noise};

/// How often each case is tried.
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
            // Every second round has a recovery in between.
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

#[test]
fn shutdown_under_file_clients_keeps_durable_data() {
    const CREATE: Open = Open {
        create: true,
        exclusive: false,
    };
    let bench = Bench::created(&["--size", "64MiB", "--log-size", "512KiB", "--no-volume"]);
    let path = bench.path("s.tn");
    for round in 0..20u64 {
        let server = bench.serve_store();
        let durable = std::thread::scope(|scope| {
            let programs: Vec<_> = (0..6u64)
                .map(|number| {
                    let files =
                        tonearm_store::open_files(&path, StoreOptions::default()).expect("files");
                    scope.spawn(move || {
                        let file = files.open(&format!("f{number}"), CREATE).expect("a file");
                        // Larger than in any earlier round.
                        for step in round * 1_000_000 + 1.. {
                            let Ok(unit) = files.begin() else {
                                return step - 1;
                            };
                            let bytes = noise(step, 60_000);
                            let place = step % 8 * 60_000;
                            let written = files
                                .write(file, Some(unit), place, &bytes)
                                .and_then(|()| {
                                    files.write(file, Some(unit), 0, &step.to_le_bytes())
                                })
                                .and_then(|()| files.end(unit, true));
                            if written.is_err() {
                                return step - 1;
                            }
                        }
                        unreachable!("it ends with the server")
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(40 + round * 17 % 90));
            server.end_ok();
            let ends = programs.into_iter().map(|program| program.join());
            ends.map(|end| end.expect("a program"))
                .collect::<Vec<u64>>()
        });
        assert_eq!(bench.json(&["info", "s.tn", "--json"])["state"], "clean");
        // Read the files without a server.
        let options = StoreOptions {
            server_wait: Duration::ZERO,
            ..StoreOptions::default()
        };
        let files = tonearm_store::open_files(&path, options).expect("files");
        for (number, durable) in durable.into_iter().enumerate() {
            if durable == round * 1_000_000 {
                continue;
            }
            let file = files.open(&format!("f{number}"), CREATE).expect("a file");
            let mut seen = [0; 8];
            assert_eq!(files.read(file, None, 0, &mut seen).expect("read"), 8);
            // One more unit may have become durable without an answer.
            let seen = u64::from_le_bytes(seen);
            assert!(seen >= durable, "{seen} of {durable} in round {round}");
        }
    }
    bench.ok(&["check", "s.tn"]);
}
