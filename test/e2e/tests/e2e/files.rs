//! `tonearm files`: files are copied in and out atomically, with a server and without.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use tonearm_tests::{Bench, LAYOUTS, MIB, contains, noise, wait_until};

fn round_trip(bench: &Bench) {
    // Lengths: empty, one byte, about one block, and several steps of the copy.
    for (index, length) in [0, 1, 4095, 4096, 4097, 5 << 20].into_iter().enumerate() {
        let (name, bytes) = (format!("in-{length}"), noise(index as u64, length));
        bench.write(&name, &bytes);
        let said = bench.ok(&["files", "put", "s.tn", &name]);
        contains(&said, &format!("{name} -> {name}"));
        let said = bench.json(&["files", "get", "s.tn", &name, "out", "--force", "--json"]);
        assert_eq!(said["size_bytes"], length);
        assert!(
            bench.read("out") == bytes,
            "the file of {length} bytes came back changed"
        );
    }
    let sizes: Vec<u64> = bench.stored_files().iter().map(|file| file.1).collect();
    assert_eq!(sizes, [0, 1, 4095, 4096, 4097, 5 << 20]);
    contains(&bench.ok(&["files", "list", "s.tn"]), "4,097");

    // Under another name, and over an existing file.
    bench.write("new", b"new");
    bench.ok(&[
        "files",
        "put",
        "s.tn",
        "new",
        "--name",
        "a name with spaces",
    ]);
    contains(
        &bench.fails(&["files", "put", "s.tn", "new", "--name", "in-4097"]),
        "--force replaces it",
    );
    bench.ok(&[
        "files", "put", "s.tn", "new", "--name", "in-4097", "--force",
    ]);
    std::fs::create_dir(bench.path("folder")).expect("a folder");
    bench.ok(&["files", "get", "s.tn", "in-4097", "folder"]);
    assert_eq!(bench.read("folder/in-4097"), b"new");
    contains(
        &bench.fails(&["files", "get", "s.tn", "in-4097", "folder"]),
        "--force replaces it",
    );
    // With `-` standard output has only the content.
    assert_eq!(
        bench.ok(&["files", "get", "s.tn", "a name with spaces", "-"]),
        "new"
    );

    let gone = bench.fails(&["files", "rm", "s.tn", "in-1", "never"]);
    contains(&gone, "never");
    assert!(
        bench.stored_names().contains(&"in-1".to_string()),
        "nothing is removed when one file does not exist"
    );
    let said = bench.ok(&["files", "rm", "s.tn", "in-1", "in-4097"]);
    assert_eq!(said, "removed in-1\nremoved in-4097\n");
    contains(&bench.fails(&["files", "get", "s.tn", "in-1"]), "in-1");
    assert_eq!(
        bench.stored_names(),
        [
            "a name with spaces",
            "in-0",
            "in-4095",
            "in-4096",
            &format!("in-{}", 5 << 20)
        ]
    );
}

#[test]
fn files_round_trip_through_a_store() {
    for layout in LAYOUTS {
        let bench = Bench::with_small_store(layout);
        round_trip(&bench);
        contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    }
}

#[test]
fn files_round_trip_through_a_server() {
    let bench = Bench::with_small_store(&[]);
    let server = bench.serve_store();
    round_trip(&bench);
    // A file is not an export.
    let list = bench.tool("nbdinfo", &["--list", "nbd+unix:///?socket=s.sock"]);
    assert!(!list.contains("in-4096"), "{list}");
    server.end_ok();
    assert!(bench.stored_names().contains(&"in-4096".to_string()));
}

#[test]
fn standard_input_is_put_when_it_has_ended() {
    let bench = Bench::with_small_store(&[]);
    let put = ["files", "put", "s.tn", "-", "--name", "piped"];
    let start = || {
        let mut command = bench.command(&put);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("tonearm runs")
    };
    contains(&bench.fails(&put[..4]), "--name");
    // A client is killed before the end of its input. Then the file does not exist, not even as an empty one.
    let mut child = start();
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(&noise(1, 3 << 20)).expect("taken");
    child.kill().expect("killed");
    child.wait().expect("an end");
    drop(pipe);
    assert_eq!(bench.stored_names(), [""; 0]);
    // A pipe returns fewer bytes than asked for, and not only at its end.
    let mut child = start();
    let mut pipe = child.stdin.take().expect("piped");
    let bytes = noise(2, 2_500_000);
    for part in bytes.chunks(60_000) {
        pipe.write_all(part).expect("taken");
    }
    drop(pipe);
    assert!(child.wait().expect("an end").success());
    bench.ok(&["files", "get", "s.tn", "piped"]);
    assert!(bench.read("piped") == bytes);
}

#[test]
fn a_client_that_dies_leaves_a_server_without_its_file() {
    let bench = Bench::with_small_store(&[]);
    let server = bench.serve_store();
    let mut command = bench.command(&["files", "put", "s.tn", "-", "--name", "piped"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("tonearm runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(&noise(1, 3 << 20)).expect("taken");
    child.kill().expect("killed");
    child.wait().expect("an end");
    wait_until("the end of the session", Duration::from_secs(10), || {
        bench.stored_names().is_empty()
    });
    // The client's space and its lock are free again.
    bench.write("piped", &noise(3, 20 << 20));
    bench.ok(&["files", "put", "s.tn", "piped"]);
    server.end_ok();
    bench.ok(&["files", "get", "s.tn", "piped", "out"]);
    assert!(bench.read("out") == noise(3, 20 << 20));
}

#[test]
fn a_full_store_takes_nothing_of_a_file_that_is_too_large() {
    let bench = Bench::with_small_store(&[]);
    bench.write("large", &noise(1, 80 << 20));
    bench.write("small", b"small");
    bench.ok(&["files", "put", "s.tn", "small", "--name", "kept"]);
    for server in [false, true] {
        let server = server.then(|| bench.serve_store());
        // The file is refused as a new file and as a replacement of an existing one.
        for more in [&[][..], &["--name", "kept", "--force"]] {
            let ran = bench.run(&[&["files", "put", "s.tn", "large"], more].concat());
            assert_eq!(ran.code, Some(1), "{ran:?}");
            contains(&ran.err, "bytes free");
        }
        assert_eq!(bench.stored_names(), ["kept"]);
        assert_eq!(bench.ok(&["files", "get", "s.tn", "kept", "-"]), "small");
        bench.ok(&["files", "put", "s.tn", "small", "--force"]);
        bench.ok(&["files", "rm", "s.tn", "small"]);
        if let Some(server) = server {
            server.end_ok();
        }
    }
}

#[test]
fn invalid_names_are_refused() {
    let bench = Bench::with_small_store(&[]);
    bench.write("x", b"x");
    let long = "n".repeat(256);
    for (name, text) in [
        ("", "empty"),
        (long.as_str(), "too long"),
        ("no-such/x", "there is no directory no-such"),
        ("main", "a volume has the name main"),
    ] {
        let error = bench.fails(&["files", "put", "s.tn", "x", "--name", name]);
        contains(&error, text);
    }
    // The `files` commands refuse volumes.
    contains(&bench.fails(&["files", "get", "s.tn", "main"]), "main");
    contains(&bench.fails(&["files", "rm", "s.tn", "main"]), "main");
    assert_eq!(
        bench.json(&["volume", "list", "s.tn", "--json"])["volumes"][0]["name"],
        "main"
    );
    contains(&bench.fails(&["files", "put", "s.tn", "."]), "folder");
    contains(
        &bench.fails(&["files", "put", "s.tn", "no-such"]),
        "no-such",
    );
    contains(
        &bench.fails(&["files", "list", "no-such"]),
        "no-such does not exist",
    );
    let link = bench.path("fifo");
    bench.tool("mkfifo", &[&link.to_string_lossy()]);
    bench.ok(&["files", "put", "s.tn", "x"]);
    contains(
        &bench.fails(&["files", "get", "s.tn", "x", "fifo", "--force"]),
        "regular file",
    );
}

#[test]
fn damaged_file_has_its_own_exit_code_and_no_copy() {
    let bench = Bench::with_small_store(&[]);
    let bytes = noise(7, MIB as usize);
    bench.write("x", &bytes);
    bench.ok(&["files", "put", "s.tn", "x"]);
    let log = 9 * MIB;
    let at = bench
        .find_block("s.tn", log, &bytes[40 * 4096..41 * 4096])
        .expect("at home");
    bench.overwrite("s.tn", at + 100, b"!!!!");
    let ran = bench.run(&["files", "get", "s.tn", "x", "copy"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    contains(&ran.err, "checksum");
    assert!(!bench.path("copy").exists());
    let left = std::fs::read_dir(bench.folder()).expect("a folder");
    let left = left.filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with(".tonearm-")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn the_process_that_has_a_store_open_is_named() {
    let bench = Bench::with_small_store(&[]);
    let mut command = bench.command(&["files", "put", "s.tn", "-", "--name", "piped"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("tonearm runs");
    let holder = format!("s.tn is in use by process {}", child.id());
    let mut said = String::new();
    wait_until("an open store", Duration::from_secs(10), || {
        let ran = bench.run(&["files", "list", "s.tn"]);
        said = ran.err;
        ran.code == Some(1)
    });
    contains(&said, &holder);
    contains(&said, "tonearm serve");
    drop(child.stdin.take());
    assert!(child.wait().expect("an end").success());
    assert_eq!(bench.stored_names(), ["piped"]);
}
