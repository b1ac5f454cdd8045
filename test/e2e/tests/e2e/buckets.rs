//! Archives in a bucket of a real S3 server.

use crate::archives::{archived, insert, lose, rows};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tonearm_tests::s3::S3;
use tonearm_tests::sqlite::sql;
use tonearm_tests::{Bench, Server, contains, wait_until};

fn serve(bench: &Bench, s3: &S3) -> Server {
    bench.serve(&["s.tn", "--archive", &s3.url("app")])
}

#[test]
fn a_lost_machine_comes_back_from_a_bucket() {
    let mut bench = Bench::with_small_store(&[]);
    let s3 = S3::start(&mut bench);
    let server = serve(&bench, &s3);
    insert(&bench, 100);
    archived(&bench);
    std::thread::sleep(Duration::from_millis(700));
    let at = Instant::now();
    std::thread::sleep(Duration::from_millis(700));
    insert(&bench, 200);
    archived(&bench);
    // Transactions go on while the machine is lost. The archive has some of them.
    for part in 1..=20 {
        insert(&bench, 200 + 5 * part);
    }
    server.kill9();
    lose(&bench);

    let from = s3.url("app");
    let began = Instant::now();
    let ran = bench.ok(&["restore", &from, "s.tn"]);
    println!("restored in {:.2} s", began.elapsed().as_secs_f64());
    contains(&ran, "restored commit");
    let found: u64 = rows(&bench).parse().expect("a number");
    assert!(
        (200..=300).contains(&found) && found.is_multiple_of(5),
        "{found}"
    );
    lose(&bench);
    let (began, ago) = (Instant::now(), format!("{}ms", at.elapsed().as_millis()));
    bench.ok(&["restore", &from, "s.tn", "--to-time", &ago]);
    println!(
        "restored to a time in {:.2} s",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(rows(&bench), "100");
    bench.ok(&["archive", "verify", &from]);
}

/// The server of the bucket is killed while it is written to. The store goes on, and so does the archive once the server is
/// back; the chain has no hole.
#[test]
fn bucket_gets_all_commits_after_an_outage() {
    let mut bench = Bench::with_small_store(&[]);
    let mut s3 = S3::start(&mut bench);
    let server = serve(&bench, &s3);
    insert(&bench, 10);
    archived(&bench);
    for round in 1..=3 {
        // Kills in the middle of puts: the next one begins at once.
        for part in 0..5 {
            insert(&bench, 10 + 50 * round + part);
            std::thread::sleep(Duration::from_millis(37));
        }
        s3.kill();
        sql(&bench, "app.db", "UPDATE t SET v = randomblob(400)");
        wait_until("an archive that waits", Duration::from_secs(60), || {
            bench.json(&["archive", "status", "s.tn", "--json"])["state"] == "waiting"
        });
        let status = bench.ok(&["archive", "status", "s.tn"]);
        contains(&status, "it does not answer");
        s3.restart();
        archived(&bench);
    }
    let expected = rows(&bench);
    server.end_ok();
    lose(&bench);
    let from = s3.url("app");
    assert_eq!(
        bench.json(&["history", &from, "--json"])["faults"],
        serde_json::json!([])
    );
    bench.ok(&["restore", &from, "s.tn"]);
    assert_eq!(rows(&bench), expected);
}

#[test]
fn unusable_bucket_is_an_error() {
    let mut bench = Bench::with_small_store(&[]);
    let mut s3 = S3::start(&mut bench);
    // A server that cannot start its archive ends, because nobody would notice that it runs without one.
    let ran = bench
        .serve(&["s.tn", "--archive", "s3://nowhere/app"])
        .ended();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(&ran.err, "the bucket does not exist");
    contains(
        &bench.fails(&["restore", "s3://nowhere/app", "n.tn"]),
        "the bucket does not exist",
    );
    contains(
        &bench.fails(&["restore", &s3.url("app"), "n.tn"]),
        "has no archive: no object is there",
    );
    // Keys may become right.
    bench.set_env("AWS_SECRET_ACCESS_KEY", "another");
    let server = bench.serve(&["s.tn", "--archive", &s3.url("app")]);
    server.wait_for_note(
        "waits, and tries again until it can go on: access is denied: check the credentials",
    );
    insert(&bench, 10);
    s3.known_to(&mut bench);
    bench.ok(&["archive", "reload", "s.tn"]);
    archived(&bench);
    server.wait_for_note("goes on");
    server.end_ok();
    bench.set_env("AWS_SECRET_ACCESS_KEY", "another");
    contains(
        &bench.fails(&["history", &s3.url("app")]),
        "access is denied: check the credentials",
    );
    s3.kill();
    // A reader tries again for 15 minutes.
    let mut reader = bench.command(&["history", &s3.url("app")]);
    let mut reader = reader.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(reader.stderr.as_mut().expect("piped"))
        .read_line(&mut line)
        .expect("text");
    contains(&line, "it does not answer");
    contains(&line, "trying again for up to 15 minutes");
    reader.kill().expect("killed");
    reader.wait().expect("an end");
}
