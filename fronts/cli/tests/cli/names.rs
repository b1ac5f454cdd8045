//! A store under several names: all of them lead to its server, to its members, and to its lock.

use crate::common::{Bench, contains};
use std::os::unix::fs::symlink;

/// A store of two files in a folder, with a link to it, a link to its folder, and a hard link.
fn named() -> Bench {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("real")).expect("a folder");
    let log = ["--log", "real/r.log", "--log-size", "8MiB", "--no-volume"];
    bench.ok(&[&["create", "real/r.tn", "--size", "16MiB"], &log[..]].concat());
    symlink("real/r.tn", bench.path("link.tn")).expect("a link");
    symlink("real", bench.path("d")).expect("a link");
    std::fs::hard_link(bench.path("real/r.tn"), bench.path("real/hard.tn")).expect("a name");
    bench
}

#[test]
fn every_name_through_links_reaches_the_server() {
    let bench = named();
    let names = ["link.tn", "real/r.tn", "d/r.tn"];
    for served in names {
        let serving = bench.serve(&[served]);
        for name in names {
            for command in [
                &["stats", name][..],
                &["info", name],
                &["volume", "list", name],
                &["files", "list", name],
                &["checkpoint", name],
            ] {
                bench.ok(command);
            }
        }
        assert!(!bench.path("link.tn.ctl").exists());
        assert_eq!(serving.end("-TERM").code, Some(0));
    }
    // The members of a store lie beside the store itself.
    bench.ok(&["check", "link.tn"]);
}

#[test]
fn another_name_for_the_file_opens_no_second_time() {
    let bench = named();
    let serving = bench.serve(&["real/r.tn"]);
    let process = format!("process {}", serving.pid());
    for command in [
        &["stats", "real/hard.tn"][..],
        &["serve", "real/hard.tn"],
        &["volume", "create", "real/hard.tn", "v", "--size", "1MiB"],
        &["files", "list", "real/hard.tn"],
    ] {
        contains(&bench.fails(command), &process);
    }
    contains(&bench.fails(&["stats", "real/hard.tn"]), "hard link");
    assert_eq!(serving.end("-TERM").code, Some(0));
}

#[test]
fn no_mount_hides_its_own_store() {
    let bench = named();
    for dir in ["real", "d", "."] {
        let refused = bench.fails(&["mount", "real/r.tn", dir]);
        contains(&refused, "would hide it and its sockets");
    }
}

/// The mount would hide the member from the next server, and what looks at its path would wait for the server itself.
#[test]
fn no_mount_hides_a_member_of_its_store() {
    let bench = Bench::new();
    for folder in ["m", "m/deep", "log"] {
        std::fs::create_dir(bench.path(folder)).expect("made");
    }
    std::os::unix::fs::symlink("m/deep", bench.path("link")).expect("a link");
    let base = [
        "create",
        "s.tn",
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--no-volume",
        "--force",
    ];
    for more in [
        &["--data", "m/second"][..],
        &["--data", "link/second"],
        &["--log", "m/log"],
        &["--redundancy", "raid0", "--data", "one", "--data", "m/two"],
    ] {
        bench.ok(&[&base[..], more].concat());
        let refused = bench.fails(&["mount", "s.tn", "m"]);
        contains(&refused, "a mount there would hide it");
    }
}
