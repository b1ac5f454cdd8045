//! Wrong files: one clear error each.

use crate::common::{Bench, contains};

fn store(bench: &Bench, name: &str) {
    bench.ok(&["create", name, "--size", "16MiB", "--log-size", "8MiB"]);
}

#[test]
fn a_file_that_is_no_store() {
    let bench = Bench::new();
    std::fs::write(bench.path("letter"), vec![b'x'; 100_000]).expect("written");
    std::fs::write(bench.path("empty"), b"").expect("written");
    for command in ["info", "check", "serve"] {
        contains(
            &bench.fails(&[command, "letter"]),
            "letter is not a member of a Tonearm store",
        );
        contains(
            &bench.fails(&[command, "empty"]),
            "empty is not a member of a Tonearm store",
        );
        contains(
            &bench.fails(&[command, "missing"]),
            "missing does not exist",
        );
    }
}

#[test]
fn a_truncated_member() {
    let bench = Bench::new();
    store(&bench, "a");
    let file = std::fs::File::options()
        .write(true)
        .open(bench.path("a"))
        .expect("a file");
    file.set_len(12 << 20).expect("cut");
    for command in ["info", "check", "serve"] {
        contains(
            &bench.fails(&[command, "a"]),
            "a is truncated: it has 12582912 bytes, the store needs",
        );
    }
}

#[test]
fn an_unsupported_version() {
    let bench = Bench::new();
    store(&bench, "a");
    for slot in 0..4 {
        bench.overwrite("a", bench.superblock("a", slot) + 8, &9u32.to_le_bytes());
    }
    for command in ["info", "check", "serve"] {
        contains(
            &bench.fails(&[command, "a"]),
            "superblock has format version 9, this program reads version 8 alone",
        );
    }
}

#[test]
fn superblocks_all_damaged() {
    let bench = Bench::new();
    store(&bench, "a");
    for slot in 0..4 {
        bench.flip("a", bench.superblock("a", slot) + 100);
    }
    contains(
        &bench.fails(&["info", "a"]),
        "all 4 copies of the superblock are damaged",
    );
}

#[test]
fn a_member_of_another_store() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        let data = format!("{name}.2");
        bench.ok(&[
            "create",
            name,
            "--size",
            "16MiB",
            "--log-size",
            "8MiB",
            "--data",
            &data,
        ]);
    }
    contains(
        &bench.fails(&["info", "a", "--member", "b.2"]),
        "b.2 is a member of another store than a",
    );
    std::fs::copy(bench.path("b.2"), bench.path("a.2")).expect("copied");
    for command in ["info", "check", "serve"] {
        contains(
            &bench.fails(&[command, "a"]),
            "is a member of another store than a",
        );
    }
}

#[test]
fn an_old_copy_of_a_member() {
    let bench = Bench::new();
    bench.ok(&[
        "create",
        "a",
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--data",
        "a.2",
    ]);
    std::fs::copy(bench.path("a.2"), bench.path("old")).expect("copied");
    bench.ok(&["volume", "resize", "a", "main", "--size", "8MiB"]);
    std::fs::copy(bench.path("old"), bench.path("a.2")).expect("copied");
    contains(
        &bench.fails(&["info", "a"]),
        "was not in use together with the rest of the store",
    );
}

#[test]
fn a_store_in_use() {
    let bench = Bench::new();
    store(&bench, "a");
    let serving = bench.serve(&["a"]);
    let holder = format!("a is in use by process {}", serving.pid());
    contains(
        &bench.fails(&["serve", "a", "--socket", "other", "--control", "other.ctl"]),
        &holder,
    );
    let error = bench.fails(&["check", "a"]);
    contains(&error, &holder);
    contains(&error, "tonearm scrub");
    contains(&bench.fails(&["bench", "a"]), &holder);
    contains(
        &bench.fails(&["create", "a", "--size", "16MiB", "--force"]),
        &holder,
    );
}
