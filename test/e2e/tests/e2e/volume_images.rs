//! `tonearm volume put` and `get`: images in and out, with holes kept, with a server and without.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use tonearm_tests::{Bench, LAYOUTS, MIB, contains, noise};

const VOLUME: usize = 16 << 20;

/// Creates an image with holes, with blocks of zeroes that are not holes, and with an end inside a block. Returns its
/// bytes.
fn sparse_image(bench: &Bench, name: &str) -> Vec<u8> {
    let size = (6 << 20) + 777;
    let mut bytes = vec![0; size];
    bytes[..(1 << 20) + 123].copy_from_slice(&noise(1, (1 << 20) + 123));
    bytes[3 << 20..(3 << 20) + 9000].copy_from_slice(&noise(2, 9000));
    bytes[size - 50..].copy_from_slice(&noise(3, 50));
    let file = File::create(bench.path(name)).expect("a file");
    file.set_len(size as u64).expect("a hole");
    let zeroes = (5 << 20)..(5 << 20) + 100_000;
    for part in [
        0..(1 << 20) + 123,
        3 << 20..(3 << 20) + 9000,
        zeroes,
        size - 50..size,
    ] {
        file.write_all_at(&bytes[part.clone()], part.start as u64)
            .expect("written");
    }
    bytes
}

fn with_zeroes(mut image: Vec<u8>) -> Vec<u8> {
    image.resize(VOLUME, 0);
    image
}

fn round_trip(bench: &Bench) {
    // Before the test every block of the volume has data.
    bench.write("full.raw", &noise(9, VOLUME));
    let said = bench.ok(&["volume", "put", "s.tn", "main", "full.raw"]);
    contains(&said, "full.raw -> main; 16 MiB, 16 MiB of it not zero");
    bench.ok(&["volume", "get", "s.tn", "main", "out.raw"]);
    assert!(bench.read("out.raw") == noise(9, VOLUME));

    let image = sparse_image(bench, "image.raw");
    let said = bench.json(&["volume", "put", "s.tn", "main", "image.raw", "--json"]);
    assert_eq!(said["volume"], "main");
    assert_eq!(said["size_bytes"], image.len());
    // Pieces of 4 KiB count as a whole, except the last one of the image.
    assert_eq!(said["data_bytes"], MIB + 4096 + 3 * 4096 + 777);
    let refused = bench.fails(&["volume", "get", "s.tn", "main", "out.raw"]);
    contains(&refused, "--force replaces it");
    let said = bench.json(&[
        "volume", "get", "s.tn", "main", "out.raw", "--force", "--json",
    ]);
    assert_eq!(said["size_bytes"], VOLUME);
    assert_eq!(said["data_bytes"], MIB + 4096 + 3 * 4096 + 4096);
    assert!(bench.read("out.raw") == with_zeroes(image));
    assert!(
        bench.allocated("out.raw") < 2 * MIB,
        "the file has the holes of the volume"
    );
}

#[test]
fn image_round_trips_and_replaces_old_content() {
    for layout in LAYOUTS {
        let bench = Bench::with_small_store(layout);
        round_trip(&bench);
        contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    }
}

#[test]
fn image_put_through_a_server_survives_a_kill() {
    let bench = Bench::with_small_store(&[]);
    let server = bench.serve_store();
    round_trip(&bench);
    bench.write("new.raw", &noise(4, 5_000_001));
    let flushes = || bench.json(&["stats", "s.tn", "--json"])["store"]["flush_requests"].as_u64();
    let before = flushes().expect("a number");
    bench.ok(&["volume", "put", "s.tn", "main", "new.raw"]);
    assert_eq!(
        flushes(),
        Some(before + 1),
        "the command flushes before it reports success"
    );
    server.kill9();
    let _server = bench.serve_store();
    bench.ok(&["volume", "get", "s.tn", "main", "new.out"]);
    assert!(bench.read("new.out") == with_zeroes(noise(4, 5_000_001)));
}

#[test]
fn standard_input_and_output_carry_images() {
    let bench = Bench::with_small_store(&[]);
    let image = sparse_image(&bench, "image.raw");
    bench.write("full.raw", &noise(9, VOLUME));
    bench.ok(&["volume", "put", "s.tn", "main", "full.raw"]);
    let mut put = bench.command(&["volume", "put", "s.tn", "main", "-"]);
    let put = put.stdin(File::open(bench.path("image.raw")).expect("a file"));
    let put = put.output().expect("tonearm runs");
    assert!(put.status.success(), "{put:?}");
    contains(
        &String::from_utf8_lossy(&put.stdout),
        "standard input -> main",
    );
    let get = bench
        .command(&["volume", "get", "s.tn", "main", "-"])
        .output();
    let get = get.expect("tonearm runs");
    assert!(get.status.success() && get.stdout == with_zeroes(image));

    // Input larger than the volume is an error, and the command does not read on forever.
    let mut put = bench.command(&["volume", "put", "s.tn", "main", "-"]);
    let put = put.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut put = put.spawn().expect("tonearm runs");
    let mut input = put.stdin.take().expect("a pipe");
    // The command may end before it has read everything.
    let _ = input.write_all(&noise(1, VOLUME + 1));
    drop(input);
    let put = put.wait_with_output().expect("an end");
    assert_eq!(put.status.code(), Some(1), "{put:?}");
    let said = String::from_utf8_lossy(&put.stderr);
    contains(&said, "volume main holds a part of standard input");
    contains(
        &said,
        "standard input is larger than the volume, which has 16 MiB",
    );

    let full = OpenOptions::new().write(true).open("/dev/full");
    let mut get = bench.command(&["volume", "get", "s.tn", "main", "-"]);
    let get = get.stdout(full.expect("a device")).output();
    let get = get.expect("tonearm runs");
    assert_eq!(get.status.code(), Some(1), "{get:?}");
    contains(&String::from_utf8_lossy(&get.stderr), "No space left");
}

fn refusals(bench: &Bench) {
    let put = |volume: &str, file: &str| bench.fails(&["volume", "put", "s.tn", volume, file]);
    bench.write("small.raw", b"small");
    contains(&put("mian", "small.raw"), "there is no volume \"mian\"");
    let get = bench.fails(&["volume", "get", "s.tn", "mian", "none.raw"]);
    contains(&get, "there is no volume \"mian\"");
    assert!(!bench.path("none.raw").exists());
    // A file in the store is not a volume.
    bench.ok(&["files", "put", "s.tn", "small.raw", "--force"]);
    contains(&put("small.raw", "small.raw"), "there is no volume");
    bench.write("large.raw", &vec![1; VOLUME + 1]);
    let large = put("main", "large.raw");
    contains(&large, "large.raw has");
    contains(&large, "tonearm volume resize s.tn main --size 16777217");
    contains(&put("main", "gone.raw"), "cannot read gone.raw");
    for odd in [".", "/dev/zero"] {
        contains(
            &put("main", odd),
            "is neither a regular file nor a block device",
        );
    }
    let onto = bench.fails(&["volume", "get", "s.tn", "main", "/dev/null"]);
    contains(&onto, "is not a regular file; use - for standard output");
}

#[test]
fn impossible_volume_commands_fail_before_any_change() {
    let bench = Bench::with_small_store(&[]);
    bench.write("full.raw", &noise(9, VOLUME));
    bench.ok(&["volume", "put", "s.tn", "main", "full.raw"]);
    refusals(&bench);
    let server = bench.serve_store();
    refusals(&bench);

    bench.ok(&["volume", "set", "s.tn", "main", "--read-only"]);
    let refused = bench.fails(&["volume", "put", "s.tn", "main", "small.raw"]);
    assert!(
        refused.starts_with("volume \"main\" is read-only"),
        "{refused}"
    );
    bench.ok(&["volume", "set", "s.tn", "main", "--read-write"]);

    // An NBD client is connected, which may have cached what it has read.
    let client = server.client("main");
    let used = bench.fails(&["volume", "put", "s.tn", "main", "small.raw"]);
    contains(&used, "volume main is in use by the NBD client unix:pid=");
    bench.ok(&["volume", "get", "s.tn", "main", "out.raw"]);
    assert!(bench.read("out.raw") == noise(9, VOLUME), "nothing changed");
    bench.ok(&["volume", "put", "s.tn", "main", "small.raw", "--force"]);
    drop(client);
    bench.ok(&["volume", "put", "s.tn", "main", "full.raw"]);
}
