//! Archives: the machine is lost, and the store comes back from a folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tonearm_tests::sqlite::sql;
use tonearm_tests::{Bench, Server, contains, noise, wait_until};

/// An archive in a folder of the bench.
pub(crate) fn url(bench: &Bench, name: &str) -> String {
    format!("file://{}", bench.path(name).display())
}

/// Serves `s.tn` with an archive.
pub(crate) fn serve(bench: &Bench, name: &str) -> Server {
    bench.serve(&[
        "s.tn",
        "--archive",
        &url(bench, name),
        "--archive-base-rate",
        "1GiB",
    ])
}

/// Waits until everything so far is archived and a base is complete. Returns the last commit.
pub(crate) fn archived(bench: &Bench) -> u64 {
    wait_until("a base", Duration::from_secs(30), || {
        bench.json(&["archive", "status", "s.tn", "--json"])["restorable"] == true
    });
    let status = bench.json(&["archive", "wait", "s.tn", "--json"]);
    assert_eq!(
        (&status["state"], &status["gaps"]),
        (&"running".into(), &0.into())
    );
    status["archived_lsn"].as_u64().expect("a number")
}

/// Inserts rows up to `count`.
pub(crate) fn insert(bench: &Bench, count: u64) {
    let rows = format!(
        "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t SELECT value, randomblob(500) FROM generate_series(
             (SELECT ifnull(max(id), 0) + 1 FROM t), {count});"
    );
    sql(bench, "app.db", &rows);
}

/// The rows of the database in `s.tn`, which must be whole.
pub(crate) fn rows(bench: &Bench) -> String {
    assert_eq!(sql(bench, "app.db", "PRAGMA integrity_check"), "ok");
    sql(bench, "app.db", "SELECT count(*) FROM t")
}

/// Fills the first parts of `main`, of 4 MiB each, and archives them. The content is in `before.raw`.
pub(crate) fn archive_noise(bench: &Bench, server: Server, parts: u64) {
    let mut client = server.client("main");
    for part in 0..parts {
        let bytes = noise(part, 4 << 20);
        client.write(part << 22, &bytes, 0).expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    archived(bench);
    server.end_ok();
    bench.ok(&["volume", "get", "s.tn", "main", "before.raw"]);
}

pub(crate) fn lose(bench: &Bench) {
    std::fs::remove_file(bench.path("s.tn")).expect("removed");
}

#[test]
fn a_database_comes_back_from_its_archive_at_any_commit() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    insert(&bench, 100);
    let first = archived(&bench);
    bench.ok(&["mark", "s.tn", "hundred"]);
    insert(&bench, 500);
    let last = archived(&bench);
    assert!(last > first);
    insert(&bench, 600);
    server.kill9();
    lose(&bench);

    let from = url(&bench, "backup");
    let history = bench.json(&["history", &from, "--json"]);
    assert_eq!(history["marks"][0]["name"], "hundred");
    assert_eq!(history["faults"], serde_json::json!([]));
    bench.ok(&["archive", "verify", &from]);
    let planned = bench.json(&["restore", &from, "s.tn", "--dry-run", "--json"]);
    assert_eq!(planned["restored"], false);
    assert!(!bench.path("s.tn").exists());

    let made = bench.json(&["restore", &from, "s.tn", "--json"]);
    assert!(made["lsn"].as_u64() >= Some(last), "{made}");
    let found: u64 = rows(&bench).parse().expect("a number");
    assert!((500..=600).contains(&found), "{found}");
    bench.ok(&["check", "s.tn"]);

    for target in [["--to-lsn", &first.to_string()], ["--to-mark", "hundred"]] {
        lose(&bench);
        bench.ok(&[&["restore", &from, "s.tn"], &target[..]].concat());
        assert_eq!(rows(&bench), "100", "{target:?}");
    }
    // Numbers of commits go on, and the new store has an archive of its own.
    let server = serve(&bench, "second");
    insert(&bench, 101);
    assert!(archived(&bench) > first);
    server.end_ok();
    lose(&bench);
    bench.ok(&[
        "restore",
        &url(&bench, "second"),
        "s.tn",
        "--layout",
        "hylog",
    ]);
    assert_eq!(rows(&bench), "101");
}

#[test]
fn archive_continues_after_kills_and_restores_a_time() {
    let bench = Bench::with_small_store(&[]);
    let mut at = Instant::now();
    for round in 1..=3u64 {
        let server = serve(&bench, "backup");
        insert(&bench, 100 * round);
        match round {
            // Without waiting: the next server archives the rest.
            1 => server.kill9(),
            2 => server.end_ok(),
            _ => {
                archived(&bench);
                let pause = Duration::from_millis(1500);
                std::thread::sleep(pause);
                at = Instant::now();
                std::thread::sleep(pause);
                insert(&bench, 1000);
                archived(&bench);
                server.end_ok();
            }
        }
    }
    let from = url(&bench, "backup");
    let history = bench.json(&["history", &from, "--json"]);
    assert_eq!(history["faults"], serde_json::json!([]));
    lose(&bench);
    bench.ok(&["restore", &from, "s.tn"]);
    assert_eq!(rows(&bench), "1000");
    lose(&bench);
    let ago = format!("{}ms", at.elapsed().as_millis());
    bench.ok(&["restore", &from, "s.tn", "--to-time", &ago]);
    assert_eq!(rows(&bench), "300");
}

#[test]
fn a_restore_that_is_killed_goes_on() {
    // A log with room for all of it: the archiver cannot be overtaken.
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "256MiB"]);
    let server = serve(&bench, "backup");
    let mut client = server.client("main");
    for part in 0..48u64 {
        client
            .write(part << 22, &noise(part, 4 << 20), 0)
            .expect("written");
    }
    client.flush().expect("flushed");
    let first = archived(&bench);
    client.write(0, &noise(99, 4096), 0).expect("written");
    client.flush().expect("flushed");
    archived(&bench);
    drop(client);
    server.end_ok();
    bench.ok(&["volume", "get", "s.tn", "main", "before.raw"]);
    lose(&bench);
    let from = url(&bench, "backup");
    let mut restore = bench.command(&["restore", &from, "s.tn"]);
    let mut restore = restore.spawn().expect("tonearm runs");
    wait_until("a part of the store", Duration::from_secs(30), || {
        bench.path("s.tn.partial.json").exists()
    });
    std::thread::sleep(Duration::from_millis(30));
    restore.kill().expect("killed");
    let ended = restore.wait().expect("an end");
    assert!(
        !ended.success() && !bench.path("s.tn").exists(),
        "it was too fast to be killed"
    );
    let other = bench.fails(&["restore", &from, "s.tn", "--to-lsn", &first.to_string()]);
    contains(&other, "is from a restore of another state");
    let again = bench.run(&["restore", &from, "s.tn"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    contains(&again.err, "going on with the restore of commit");
    assert!(!bench.path("s.tn.partial").exists() && !bench.path("s.tn.partial.json").exists());
    bench.ok(&["volume", "get", "s.tn", "main", "after.raw"]);
    assert!(
        bench.read("before.raw") == bench.read("after.raw"),
        "other content"
    );
}

/// Paths of the objects of the chain, in order.
pub(crate) fn chain(bench: &Bench) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(bench.path("backup/chain")).expect("a folder");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("one").path()).collect();
    paths.sort();
    paths
}

#[test]
fn archive_damage_is_reported() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    archived(&bench);
    let of_base = chain(&bench).len();
    // How many commits are in one object depends on the time. Without the last but one there is a state that can be restored.
    for count in 1.. {
        insert(&bench, 10 * count);
        archived(&bench);
        if chain(&bench).len() >= of_base + 3 {
            break;
        }
    }
    server.end_ok();
    let from = url(&bench, "backup");
    let chain = chain(&bench);
    let last = chain.last().expect("objects").clone();
    let before = chain[chain.len() - 2].clone();
    let refused = |what: &str, damage: &dyn Fn()| {
        let (kept, kept_before) = (
            std::fs::read(&last).expect("an object"),
            std::fs::read(&before).expect("an object"),
        );
        damage();
        let ran = bench.run(&["restore", &from, "new.tn"]);
        assert_eq!(ran.code, Some(1), "{what}: {ran:?}");
        assert!(!bench.path("new.tn").exists(), "{what}");
        let _ = std::fs::remove_file(bench.path("new.tn.partial"));
        let _ = std::fs::remove_file(bench.path("new.tn.partial.json"));
        std::fs::write(&last, kept).expect("written");
        std::fs::write(&before, kept_before).expect("written");
        ran.err
    };
    let bytes = std::fs::read(&last).expect("an object");
    let name = last
        .file_name()
        .expect("a name")
        .to_str()
        .expect("text")
        .to_string();
    let text = refused("cut off", &|| {
        std::fs::write(&last, &bytes[..bytes.len() - 10]).expect("written");
    });
    contains(&text, &format!("object chain/{name}"));
    contains(
        &text,
        "it is not as long as its header says; put an undamaged copy of it back",
    );
    let text = refused("a flipped bit", &|| {
        let mut bytes = bytes.clone();
        bytes[200] ^= 4;
        std::fs::write(&last, bytes).expect("written");
    });
    contains(&text, "fails its checksum");
    let text = refused("a later version", &|| {
        let mut bytes = bytes.clone();
        bytes[8] = 9;
        std::fs::write(&last, bytes).expect("written");
    });
    contains(
        &text,
        "has format version 9, this program reads version 8 alone; use the tonearm that made it",
    );

    // What lies before a hole can be restored, and the hole is reported. An older state than the latest is not taken without a word.
    std::fs::remove_file(&before).expect("removed");
    let history = bench.run(&["history", &from]);
    assert_eq!(history.code, Some(3), "{history:?}");
    contains(&history.err, "of the chain is missing");
    let verified = bench.run(&["archive", "verify", &from]);
    assert_eq!(verified.code, Some(3), "{verified:?}");
    let refused = bench.run(&["restore", &from, "new.tn"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let advice = refused.err.split_once("--to-lsn ");
    let (_, advice) = advice.unwrap_or_else(|| panic!("{refused:?}"));
    let lsn = advice.split(';').next().expect("a number");
    bench.ok(&["restore", &from, "new.tn", "--to-lsn", lsn]);
}

#[test]
fn impossible_archive_requests_are_errors() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    insert(&bench, 10);
    let last = archived(&bench);
    contains(
        &bench.fails(&["mark", "s.tn", "a/b"]),
        "a mark has 1 to 100 letters",
    );
    bench.ok(&["mark", "s.tn", "one"]);
    contains(
        &bench.fails(&["mark", "s.tn", "one"]),
        "has a mark one already; choose another name",
    );
    contains(
        &bench.fails(&["archive", "start", "s.tn", &url(&bench, "other")]),
        "stop that archive first",
    );
    bench.ok(&["archive", "stop", "s.tn"]);
    contains(
        &bench.fails(&["archive", "start", "s.tn", "ftp://somewhere"]),
        "archives are at file:// or s3://, not at ftp://",
    );
    server.end_ok();
    let from = url(&bench, "backup");
    contains(
        &bench.fails(&["restore", &from, "s.tn"]),
        "s.tn exists; move it away, or choose another path",
    );
    contains(
        &bench.fails(&[
            "restore",
            &from,
            "n.tn",
            "--to-lsn",
            &(last + 1000).to_string(),
        ]),
        "cannot be restored; commits that can be restored: ",
    );
    contains(
        &bench.fails(&["restore", &from, "n.tn", "--to-mark", "two"]),
        "has no mark two; `tonearm history",
    );
    contains(
        &bench.fails(&["restore", &from, "n.tn", "--to-time", "yesterday"]),
        "'yesterday' is no time; write 2026-11-25T10:00:00Z, or 10m for ten minutes ago",
    );
    contains(
        &bench.fails(&["restore", &url(&bench, "nothing"), "n.tn"]),
        "has no archive: no object is there; check the address",
    );
    // Another store at the same place.
    std::fs::rename(bench.path("s.tn"), bench.path("old.tn")).expect("renamed");
    bench.ok(&["create", "s.tn", "--size", "64MiB", "--log-size", "8MiB"]);
    let ran = serve(&bench, "backup").ended();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(&ran.err, "belongs to another store");
    let server = bench.serve(&["s.tn"]);
    contains(
        &bench.fails(&["archive", "start", "s.tn", &from]),
        "belongs to another store",
    );
    contains(
        &bench.fails(&["archive", "wait", "s.tn"]),
        "is not archived: archive file://",
    );
    server.end_ok();
}

/// Two copies of a store archive at one place: the one that opens it last goes on, if its history is the archived one.
#[test]
fn of_two_copies_of_a_store_one_archives() {
    let bench = Bench::with_small_store(&[]);
    let first = serve(&bench, "backup");
    insert(&bench, 10);
    archived(&bench);
    first.end_ok();
    std::fs::copy(bench.path("s.tn"), bench.path("copy.tn")).expect("copied");
    let first = serve(&bench, "backup");
    archived(&bench);
    let second = bench.serve(&["copy.tn", "--archive", &url(&bench, "backup")]);
    wait_until("the second one", Duration::from_secs(30), || {
        bench.json(&["archive", "status", "copy.tn", "--json"])["state"] == "running"
    });
    insert(&bench, 20);
    wait_until("a fence", Duration::from_secs(30), || {
        bench.json(&["archive", "status", "s.tn", "--json"])["state"] == "ended"
    });
    let status = bench.ok(&["archive", "status", "s.tn"]);
    contains(
        &status,
        "another opening of the store has taken over (process ",
    );
    // Its commits went their own way.
    let refused = bench.fails(&["archive", "wait", "s.tn"]);
    contains(&refused, "is not archived");
    second.end_ok();
    first.end_ok();
    bench.ok(&["restore", &url(&bench, "backup"), "n.tn"]);
    std::fs::rename(bench.path("n.tn"), bench.path("s.tn")).expect("renamed");
    assert_eq!(rows(&bench), "10");
}
