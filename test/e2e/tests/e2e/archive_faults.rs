//! Archives with objects in the wrong place, and restores onto a full disk.

use super::archives::{archive_noise, archived, chain, insert, lose, serve, url};
use std::path::PathBuf;
use tonearm_tests::mount::{possible, small_host};
use tonearm_tests::{Bench, MIB, contains, noise, skipped};

#[test]
fn a_restore_goes_on_when_a_full_disk_has_space_again() {
    if let Err(why) = possible() {
        return skipped("a restore onto a full file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "64MiB"]);
    let server = serve(&bench, "backup");
    archive_noise(&bench, server, 12);
    lose(&bench);
    let from = url(&bench, "backup");
    let (_device, host) = small_host(&bench, 112 * MIB);
    let ballast = host.root().join("ballast");
    let store = ["restore", &from, "host/n.tn", "--log-size", "16MiB"];
    let only = ["restore", &from, "host/m.raw", "--only", "main"];
    // No space for the log of the new store; for a part of its blocks; for a part of the volume.
    for (command, path, ballast_mib, texts) in [
        (
            &store[..],
            "host/n.tn",
            95,
            ["host/n.tn.partial: no room for ", "free some space"],
        ),
        (
            &store,
            "host/n.tn",
            60,
            [
                "the restore is not complete; run the same command again to go on",
                "no space left for the store: write on host/n.tn.partial at byte ",
            ],
        ),
        (
            &only,
            "host/m.raw",
            70,
            [
                "the restore is not complete; run the same command again to go on",
                "host/m.raw.partial: No space left on device",
            ],
        ),
    ] {
        std::fs::write(&ballast, noise(5, ballast_mib << 20)).expect("written");
        let ran = bench.run(command);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for text in texts {
            contains(&ran.err, text);
        }
        // Again, without more space: it may end at the note of how far it is.
        let again = bench.run(command);
        assert_eq!(again.code, Some(1), "{again:?}");
        let text = again.err.to_lowercase();
        assert!(
            text.contains("no space left") || text.contains("no room"),
            "{text}"
        );
        assert!(!bench.path(path).exists());
        std::fs::remove_file(&ballast).expect("removed");
        bench.ok(command);
        let made = match path.ends_with("tn") {
            true => {
                bench.ok(&["volume", "get", path, "main", "after.raw"]);
                bench.read("after.raw")
            }
            false => bench.read(path),
        };
        assert!(bench.read("before.raw") == made, "other content");
        let _ = std::fs::remove_file(bench.path("after.raw"));
        std::fs::remove_file(bench.path(path)).expect("removed");
    }
}

fn swap(one: &PathBuf, other: &PathBuf) {
    let (first, second) = (
        std::fs::read(one).expect("an object"),
        std::fs::read(other).expect("an object"),
    );
    std::fs::write(one, second).expect("written");
    std::fs::write(other, first).expect("written");
}

fn name(path: &std::path::Path) -> String {
    let name = path.file_name().expect("a name");
    name.to_str().expect("text").to_string()
}

#[test]
fn misplaced_objects_are_reported_and_not_restored() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    let mut last = 0;
    for count in 1..=4 {
        insert(&bench, 100 * count);
        last = archived(&bench);
    }
    server.end_ok();
    lose(&bench);
    let sizes = ["--size", "64MiB", "--log-size", "8MiB", "--no-volume"];
    bench.ok(&[&["create", "s.tn"], &sizes[..]].concat());
    let from = url(&bench, "backup");
    let chain = chain(&bench);
    let count = chain.len();
    let server = serve(&bench, "second");
    // As many objects: how many commits are in one depends on the time.
    let second = |at: usize| bench.path("second/chain").join(name(&chain[at]));
    let mut rows = 0;
    while rows < 400 || !second(count - 1).exists() {
        rows += 100;
        insert(&bench, rows);
        archived(&bench);
    }
    server.end_ok();
    let state = last.to_string();
    let refused = |text: &str, name: &str| {
        let exact = bench.run(&["restore", &from, "n.tn", "--to-lsn", &state]);
        assert_eq!(exact.code, Some(1), "{exact:?}");
        contains(&exact.err, &format!("object {name} of the chain {text}"));
        contains(
            &exact.err,
            "cannot be restored; commits that can be restored: ",
        );
        let latest = bench.run(&["restore", &from, "n.tn", "--dry-run"]);
        assert_eq!(latest.code, Some(1), "an older state: {latest:?}");
        contains(&latest.err, &format!("object {name} of the chain {text}"));
        let (_, flag) = latest.err.split_once("take it with ").expect("a flag");
        let (flag, _) = flag.split_once(';').expect("its end");
        let flag: Vec<&str> = flag.split_whitespace().collect();
        bench.ok(&[&["restore", &from, "n.tn", "--dry-run"], &flag[..]].concat());
        let history = bench.run(&["history", &from]);
        assert_eq!(history.code, Some(3), "{history:?}");
        contains(&history.err, &format!("object {name} of the chain {text}"));
        let verified = bench.run(&["archive", "verify", &from]);
        assert_eq!(verified.code, Some(3), "{verified:?}");
        assert!(!bench.path("n.tn").exists() && !bench.path("n.tn.partial").exists());
    };
    // An object of another store.
    let own = std::fs::read(&chain[count - 2]).expect("an object");
    std::fs::copy(second(count - 2), &chain[count - 2]).expect("copied");
    refused(
        "does not follow the one before it",
        &name(&chain[count - 2]),
    );
    std::fs::write(&chain[count - 2], own).expect("written");
    // Two objects in each other's place.
    swap(&chain[count - 1], &chain[count - 2]);
    refused(
        "does not follow the one before it",
        &name(&chain[count - 2]),
    );
    swap(&chain[count - 1], &chain[count - 2]);

    // A part of a base that is missing, or another one.
    let folders = std::fs::read_dir(bench.path("backup/base")).expect("a folder");
    let folder = folders.last().expect("a base").expect("a folder").path();
    let part = folder.join("00000000");
    let object = format!("base/{}/00000000", name(&folder));
    let kept = std::fs::read(&part).expect("a part");
    std::fs::remove_file(&part).expect("removed");
    let error = bench.fails(&["restore", &from, "n.tn"]);
    contains(&error, &format!("object {object} is missing; commits "));
    contains(
        &error,
        " cannot be restored unless it is put back (`tonearm history` shows which can)",
    );
    let error = bench.fails(&["restore", &from, "app.db", "--only", "app.db"]);
    contains(&error, &format!("object {object} is missing; commits "));
    let verified = bench.run(&["archive", "verify", &from]);
    assert_eq!(verified.code, Some(3), "{verified:?}");
    contains(&verified.err, &format!("object {object} is missing"));
    let other = std::fs::read_dir(bench.path("second/base")).expect("a folder");
    let other = other.last().expect("a base").expect("a folder").path();
    std::fs::copy(other.join("00000000"), &part).expect("copied");
    let error = bench.fails(&["restore", &from, "app.db", "--only", "app.db"]);
    contains(
        &error,
        &format!(
            "object {object} does not follow the object before it: it was put in the place of another"
        ),
    );
    for left in ["n.tn", "app.db"] {
        assert!(!bench.path(left).exists());
    }
    // The same commands go on once it is put back.
    std::fs::write(&part, kept).expect("written");
    for command in [
        &["restore", &from, "n.tn"][..],
        &["restore", &from, "app.db", "--only", "app.db"],
    ] {
        bench.ok(command);
    }
}
