//! Features of a store: large sizes, trimming, volumes that change while it is served, detection of damage.

use crate::bad_stores::copies;
use std::time::{Duration, Instant};
use tonearm_tests::{Bench, GIB, MIB, Server, TIB, contains, noise, wait_until};

/// Limit for operations whose time must not depend on the size.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Clears a whole volume with requests that are as long as NBD allows.
fn clear_all(bench: &Bench, server: &Server, call: &str) -> Duration {
    let started = Instant::now();
    let program = format!(
        "
size, at = h.get_size(), 0
while at < size:
    step = min(size - at, (1 << 32) - 65536)
    h.{call}(step, at)
    at += step
h.flush()
"
    );
    bench.nbdsh(&server.uri, &program);
    started.elapsed()
}

#[test]
fn sixteen_tebibytes_are_made_and_opened_at_once() {
    let bench = Bench::new();
    // Common file systems limit files to 16 TiB, so the store with tables and log must be smaller.
    let started = Instant::now();
    bench.ok(&["create", "s.tn", "--size", "15.9TiB", "--log-size", "64MiB"]);
    let created = started.elapsed();
    assert!(created < AT_ONCE, "created in {created:?}");
    let server = bench.serve_store();
    let opened = server.started_in;
    assert!(opened < AT_ONCE, "opened in {opened:?}");
    let mut client = server.client("main");
    assert!(client.size > 15 * TIB);
    let small = server.rss_kib();
    for tebibyte in 0..15 {
        client
            .write(tebibyte * TIB + 4096, &[5; 4096], 0)
            .expect("written");
    }
    client.flush().expect("flushed");
    let rss = server.rss_kib();
    assert!(rss < 150 << 10, "{rss} KiB resident");
    server.kill9();
    let server = bench.serve_store();
    assert!(
        server.started_in < AT_ONCE,
        "recovered in {:?}",
        server.started_in
    );
    let mut client = server.client("main");
    assert_eq!(client.read(14 * TIB + 4096, 4096).expect("read"), [5; 4096]);
    server.end_ok();
    let used = bench.allocated("s.tn");
    assert!(used < 80 * MIB, "{used} bytes allocated");
    println!("16 TiB: created in {created:?}, opened in {opened:?}, {small} KiB resident");
}

#[test]
fn a_tebibyte_is_trimmed_and_zeroed_at_once() {
    let bench = Bench::created(&["--size", "1TiB", "--log-size", "64MiB"]);
    let server = bench.serve_store();
    let mut client = server.client("main");
    let places = [0, 77 * GIB, TIB / 2 + 4096, TIB - MIB];
    for call in ["trim", "zero"] {
        for at in places {
            client
                .write(at, &noise(at, MIB as usize), 0)
                .expect("written");
        }
        client.flush().expect("flushed");
        let took = clear_all(&bench, &server, call);
        println!("1 TiB: {call} in {took:?}");
        assert!(took < AT_ONCE, "{call} took {took:?}");
        for at in places {
            let read = client.read(at, MIB as u32).expect("read");
            assert!(
                read.iter().all(|byte| *byte == 0),
                "{call} left data at {at}"
            );
        }
    }
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn trimmed_space_is_given_back_to_the_host() {
    let bench = Bench::with_store("128MiB");
    let server = bench.serve_store();
    let mut client = server.client("main");
    for step in 0..16 {
        let bytes = noise(step, 4 << 20);
        client.write(step * 4 * MIB, &bytes, 0).expect("written");
    }
    client.flush().expect("flushed");
    wait_until("data at home", Duration::from_secs(20), || {
        bench.allocated("s.tn") > 60 * MIB
    });
    clear_all(&bench, &server, "trim");
    wait_until("less space in use", Duration::from_secs(20), || {
        bench.allocated("s.tn") < 24 * MIB
    });
    server.end_ok();
    assert!(bench.allocated("s.tn") < 24 * MIB);
}

#[test]
fn volumes_come_and_go_while_the_store_is_served() {
    let bench = Bench::with_small_store(&[]);
    let server = bench.serve_store();
    bench.ok(&["volume", "create", "s.tn", "two", "--size", "16MiB"]);
    let names = || {
        let list = bench.json(&["volume", "list", "s.tn", "--json"]);
        let volumes = list["volumes"].as_array().expect("a list").clone();
        let name = |volume: &serde_json::Value| volume["name"].as_str().expect("a name").to_owned();
        volumes.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["main", "two"]);
    let mut client = server.client("two");
    client.write(0, &[1; 4096], 1).expect("written");
    bench.ok(&["volume", "resize", "s.tn", "two", "--size", "32MiB"]);
    let mut larger = server.client("two");
    assert_eq!(larger.size, 32 * MIB);
    assert_eq!(larger.read(0, 4096).expect("read"), [1; 4096]);
    larger.write(31 * MIB, &[2; 4096], 0).expect("written");
    // A volume that shrinks and grows again reads as zeroes beyond its former end.
    let smaller = ["volume", "resize", "s.tn", "two", "--size", "16MiB"];
    let refused = bench.fails(&[&smaller[..], &["--shrink"]].concat());
    contains(&refused, "volume two is in use by the NBD client unix:");
    contains(
        &bench.fails(&["volume", "delete", "s.tn", "two"]),
        "--force",
    );
    bench.ok(&[&smaller[..], &["--shrink", "--force"]].concat());
    bench.ok(&["volume", "resize", "s.tn", "two", "--size", "32MiB"]);
    let mut again = server.client("two");
    assert_eq!(again.read(31 * MIB, 4096).expect("read"), [0; 4096]);
    contains(
        &bench.fails(&["volume", "create", "s.tn", "two", "--size", "1MiB"]),
        "there is a volume \"two\" already",
    );
    // The store grows for it, and clients go on.
    bench.ok(&["volume", "create", "s.tn", "much", "--size", "1GiB"]);
    assert_eq!(again.read(31 * MIB, 4096).expect("read"), [0; 4096]);
    bench.ok(&["volume", "delete", "s.tn", "much"]);
    drop((client, larger, again));
    let deletion = ["volume", "delete", "s.tn", "two"];
    // The server may not have seen the ends of the connections yet.
    wait_until("the deletion", Duration::from_secs(5), || {
        bench.run(&deletion).code == Some(0)
    });
    assert_eq!(names(), ["main"]);
    // A new volume does not show the data of a deleted one.
    bench.ok(&["volume", "create", "s.tn", "three", "--size", "48MiB"]);
    let read = server.client("three").read(0, 32 << 20).expect("read");
    assert!(read.iter().all(|byte| *byte == 0));
    server.end_ok();
    assert_eq!(names(), ["main", "three"]);
}

/// A store with 64 known blocks, closed, and the offset of block 17 in the file.
fn corrupted() -> (Bench, u64) {
    let bench = Bench::with_store("64MiB");
    let server = bench.serve_store();
    let mut client = server.client("main");
    for block in 0..64 {
        client
            .write(block * 4096, &noise(block, 4096), 0)
            .expect("written");
    }
    server.end_ok();
    // The search starts after the superblocks and the log.
    let place = bench.find_block("s.tn", 9 * MIB, &noise(17, 4096));
    let place = place.expect("block 17 lies at home");
    let mut byte = noise(17, 2000)[1999..].to_vec();
    byte[0] ^= 0x10;
    bench.overwrite("s.tn", place + 1999, &byte);
    (bench, place)
}

#[test]
fn a_damaged_block_fails_only_reads_that_contain_it() {
    let (bench, place) = corrupted();
    let server = bench.serve_store();
    let mut client = server.client("main");
    let error = client
        .read(17 * 4096, 4096)
        .expect_err("a damaged block is not returned");
    assert_eq!(error.raw_os_error(), Some(5), "EIO: {error}");
    assert!(client.read(0, 64 * 4096).is_err());
    assert!(client.read(18 * 4096, 4096).expect("read") == noise(18, 4096));
    // A scrub of the served store finds the block, ...
    let scrub = bench.run(&["scrub", "s.tn"]);
    assert_eq!(scrub.code, Some(3), "{scrub:?}");
    contains(&scrub.out, &format!("on s.tn at byte {place}"));
    contains(&scrub.out, "(volume main, byte 69632)");
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    assert!(
        stats["store"]["checksum_errors"].as_u64() > Some(0),
        "{stats}"
    );
    // ... and writing the block again repairs it.
    client
        .write(17 * 4096, &noise(17, 4096), 1)
        .expect("written");
    assert!(client.read(17 * 4096, 4096).expect("read") == noise(17, 4096));
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn check_names_the_corrupt_block_and_repair_keeps_it() {
    let (bench, place) = corrupted();
    let check = bench.run(&["check", "s.tn"]);
    assert_eq!(check.code, Some(3), "{check:?}");
    contains(&check.out, "main");
    contains(&check.out, "69632");
    println!("{}", check.out);
    let json = bench.run(&["check", "s.tn", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((json.code, &report["sound"]), (Some(3), &false.into()));
    let repair = bench.run(&["check", "s.tn", "--repair"]);
    assert_eq!(repair.code, Some(3), "there is no second copy: {repair:?}");
    let mut byte = [0];
    let file = std::fs::File::open(bench.path("s.tn")).expect("a file");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, place + 1999).expect("read");
    assert_eq!(
        byte[0],
        noise(17, 2000)[1999] ^ 0x10,
        "repair does not change the block"
    );
}

#[test]
fn superblock_copies_are_repaired_from_each_other() {
    let bench = Bench::with_store("64MiB");
    // Each update writes two of the four copies. One copy of each pair stays intact.
    let [first, _, _, last] = copies(&bench);
    for copy in [first, last] {
        bench.overwrite("s.tn", copy + 64, &[0xee; 64]);
    }
    let check = bench.run(&["check", "s.tn"]);
    assert_eq!(check.code, Some(3), "{check:?}");
    contains(&check.out, "2 are not");
    contains(&bench.ok(&["check", "s.tn", "--repair"]), "whole again");
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}
