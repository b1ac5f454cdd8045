//! Files that are no stores or damaged stores: the error is one line that says what is wrong and what to do.

use tonearm_tests::{Bench, MIB, contains, noise};

/// Where the copies of the superblock begin in the store `s.tn`.
pub fn copies(bench: &Bench) -> [u64; 4] {
    let size = std::fs::metadata(bench.path("s.tn")).expect("a file").len();
    [0, 256 << 10, size - MIB, size - MIB + (256 << 10)]
}

/// Checks that every command that opens a store prints the same error.
fn all_say(bench: &Bench, store: &str, text: &str) {
    for command in ["serve", "info", "check"] {
        contains(&bench.fails(&[command, store]), text);
    }
    contains(&bench.fails(&["volume", "list", store]), text);
}

#[test]
fn a_file_that_is_no_store_is_named() {
    let bench = Bench::new();
    bench.write("noise", &noise(1, 2 << 20));
    bench.write("empty", b"");
    bench.write("short", b"TN");
    for name in ["noise", "empty", "short"] {
        let text = format!("{name} is not a member of a Tonearm store");
        all_say(&bench, name, &text);
    }
    all_say(&bench, "nothing", "nothing does not exist");
    all_say(&bench, ".", "neither a regular file nor a block device");
}

#[test]
fn truncated_store_error_names_the_missing_size() {
    let bench = Bench::with_store("64MiB");
    let file = std::fs::File::options()
        .write(true)
        .open(bench.path("s.tn"))
        .expect("a file");
    let whole = file.metadata().expect("a file").len();
    file.set_len(40 * MIB).expect("cut");
    let text = format!(
        "s.tn is truncated: it has {} bytes, the store needs {whole}",
        40 * MIB
    );
    all_say(&bench, "s.tn", &text);
    // Nothing but copies was stored in the part that was cut off, so following the advice repairs the store.
    file.set_len(whole).expect("longer");
    contains(
        &bench.ok(&["check", "s.tn", "--repair"]),
        "the store is whole again",
    );
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn a_member_of_another_store_is_refused() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        let (log, data) = (format!("{name}.log"), format!("{name}.2"));
        let create = ["create", name, "--size", "16MiB", "--log-size", "8MiB"];
        bench.ok(&[&create[..], &["--log", &log, "--data", &data]].concat());
    }
    for (member, text) in [
        ("b.2", "b.2 is a member of another store than a"),
        ("b.log", "b.log is a member of another store than a"),
    ] {
        contains(&bench.fails(&["serve", "a", "--member", member]), text);
    }
    std::fs::copy(bench.path("b.log"), bench.path("a.log")).expect("copied");
    all_say(&bench, "a", "a.log: is a member of another store than a");
    std::fs::remove_file(bench.path("a.log")).expect("removed");
    all_say(&bench, "a", "a.log does not exist");
    all_say(&bench, "b.2", "name the primary member's path");
}

#[test]
fn a_later_format_version_is_refused_by_its_number() {
    let bench = Bench::with_store("16MiB");
    for copy in copies(&bench) {
        bench.overwrite("s.tn", copy + 8, &99u32.to_le_bytes());
    }
    all_say(
        &bench,
        "s.tn",
        "superblock has format version 99, this program reads version 8 alone",
    );
}

/// Another program takes a drive of the store for empty, and writes its own header on it.
#[test]
fn store_serves_all_content_after_its_first_mib_is_overwritten() {
    let bench = Bench::new();
    let create = ["create", "s.tn", "--size", "32MiB", "--log-size", "8MiB"];
    bench.ok(&[&create[..], &["--log", "a.log", "--data", "b"]].concat());
    bench.write("image", &noise(3, 20 << 20));
    bench.ok(&["volume", "put", "s.tn", "main", "image"]);
    for (round, name) in ["s.tn", "a.log", "b", "s.tn"].into_iter().enumerate() {
        bench.overwrite(name, 0, &noise(9 + round as u64, 1 << 20));
        let server = bench.serve_store();
        let copy = format!("copy-{round}");
        bench.ok(&["volume", "get", "s.tn", "main", &copy]);
        assert!(bench.read(&copy)[..20 << 20] == bench.read("image"));
        server.kill9();
    }
    contains(&bench.ok(&["check", "s.tn", "--repair"]), "whole");
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn a_store_in_use_names_the_process() {
    let bench = Bench::with_store("16MiB");
    let server = bench.serve_store();
    let text = format!("s.tn is in use by process {}", server.pid());
    let other = ["serve", "s.tn", "--socket", "t.sock", "--control", "t.ctl"];
    contains(&bench.fails(&other), &text);
    contains(&bench.fails(&["check", "s.tn"]), &text);
    contains(
        &bench.fails(&["create", "s.tn", "--size", "16MiB", "--force"]),
        &text,
    );
    // A second server does not take over the socket of a running one.
    bench.ok(&["create", "t.tn", "--size", "16MiB", "--log-size", "8MiB"]);
    contains(
        &bench.fails(&["serve", "t.tn", "--socket", "s.sock"]),
        "s.sock",
    );
    bench.tool("nbdinfo", &["nbd+unix:///?socket=s.sock"]);
}

#[test]
fn a_new_store_does_not_overwrite_a_file() {
    let bench = Bench::new();
    bench.write("precious", b"precious");
    contains(
        &bench.fails(&["create", "precious", "--size", "16MiB"]),
        "use --force to overwrite",
    );
    assert_eq!(bench.read("precious"), b"precious");
}
