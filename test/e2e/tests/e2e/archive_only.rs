//! One database or volume comes out of an archive as a plain file.

use super::archives::{archive_noise, archived, insert, lose, serve, url};
use std::time::Duration;
use tonearm_tests::sqlite::{Connection, host_sql, sql};
use tonearm_tests::{Bench, contains, noise, wait_until};

/// Rows of the database in a plain file, which must be whole.
fn plain_rows(bench: &Bench, file: &str) -> String {
    assert_eq!(host_sql(bench, file, "PRAGMA integrity_check"), "ok");
    host_sql(bench, file, "SELECT count(*) FROM t")
}

#[test]
fn one_database_comes_back_as_a_plain_file_at_any_commit() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    insert(&bench, 100);
    let first = archived(&bench);
    bench.ok(&["mark", "s.tn", "hundred"]);
    sql(
        &bench,
        "other.db",
        "CREATE TABLE u(v); INSERT INTO u VALUES (1);",
    );
    let mut client = server.client("main");
    client.write(8192, &noise(3, 1 << 20), 0).expect("written");
    client.flush().expect("flushed");
    drop(client);
    insert(&bench, 3000);
    sql(&bench, "app.db", "DELETE FROM t WHERE id % 3 = 0; VACUUM;");
    let last = archived(&bench);
    server.end_ok();
    bench.ok(&["volume", "get", "s.tn", "main", "main.raw"]);
    lose(&bench);

    let from = url(&bench, "backup");
    let planned = bench.json(&[
        "restore",
        &from,
        "app.db",
        "--only",
        "app.db",
        "--dry-run",
        "--json",
    ]);
    assert_eq!(
        (&planned["restored"], &planned["name"]),
        (&false.into(), &"app.db".into())
    );
    assert!(!bench.path("app.db").exists());
    let made = bench.json(&["restore", &from, "app.db", "--only", "app.db", "--json"]);
    assert_eq!(made["lsn"], last);
    assert_eq!(made["companions"], serde_json::json!([]));
    assert_eq!(plain_rows(&bench, "app.db"), "2000");
    for target in [["--to-lsn", &first.to_string()], ["--to-mark", "hundred"]] {
        std::fs::remove_file(bench.path("app.db")).expect("removed");
        let said = bench.ok(&[
            &["restore", &from, "app.db", "--only", "app.db"],
            &target[..],
        ]
        .concat());
        contains(&said, &format!("restored app.db of commit {first} in "));
        assert_eq!(plain_rows(&bench, "app.db"), "100", "{target:?}");
    }
    bench.ok(&["restore", &from, "main2.raw", "--only", "main"]);
    assert!(bench.read("main.raw") == bench.read("main2.raw"));

    // Which names there are at a commit.
    let names = bench.json(&["history", &from, "--names", "--json"]);
    let of = |names: &serde_json::Value| -> Vec<String> {
        let names = names["names"].as_array().expect("a list").iter();
        names
            .map(|name| name["name"].as_str().expect("text").to_string())
            .collect()
    };
    assert_eq!(of(&names), ["app.db", "main", "other.db"]);
    assert_eq!(names["names"][1]["kind"], "volume");
    assert_eq!(names["names"][1]["size_bytes"], 16 << 20);
    let then = bench.json(&[
        "history",
        &from,
        "--names",
        "--to-mark",
        "hundred",
        "--json",
    ]);
    assert_eq!(of(&then), ["app.db", "main"]);
    contains(&bench.ok(&["history", &from, "--names"]), "other.db");

    for (arguments, text) in [
        (
            &["x.db", "--only", "other.db", "--to-mark", "hundred"][..],
            "there is no volume or file other.db; there are app.db, main",
        ),
        (
            &["main2.raw", "--only", "main"],
            "main2.raw exists; move it away",
        ),
    ] {
        contains(
            &bench.fails(&[&["restore", &from], arguments].concat()),
            text,
        );
    }
    contains(
        &bench.fails(&["history", &from, "--to-lsn", "3"]),
        "add --names to show them",
    );
    assert!(!bench.path("x.db").exists() && !bench.path("x.db.partial").exists());
}

/// A database in WAL mode is not whole without its log.
#[test]
fn wal_of_a_database_is_reported() {
    let bench = Bench::with_small_store(&[]);
    let server = serve(&bench, "backup");
    insert(&bench, 10);
    // A connection that stays open keeps the log.
    let mut connection = Connection::new(&bench, "app.db");
    for statement in [
        "PRAGMA locking_mode=EXCLUSIVE",
        "PRAGMA journal_mode=WAL",
        "PRAGMA wal_autocheckpoint=0",
        "INSERT INTO t(v) SELECT v FROM t",
        "INSERT INTO t(v) SELECT v FROM t",
    ] {
        connection.ok(statement);
    }
    let lsn = archived(&bench);
    drop(connection);
    server.end_ok();
    let from = url(&bench, "backup");
    let at = lsn.to_string();
    let ran = bench.run(&[
        "restore", &from, "app.db", "--only", "app.db", "--to-lsn", &at,
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let next = format!("app.db-wal --only app.db-wal --to-lsn {at}");
    contains(
        &ran.err,
        "app.db-wal has a part of its content; restore it, too: tonearm restore ",
    );
    contains(&ran.err, &next);
    bench.ok(&[
        "restore",
        &from,
        "app.db-wal",
        "--only",
        "app.db-wal",
        "--to-lsn",
        &at,
    ]);
    assert_eq!(plain_rows(&bench, "app.db"), "40");
}

#[test]
fn the_restore_of_one_volume_that_is_killed_goes_on() {
    let bench = Bench::created(&["--size", "512MiB", "--log-size", "256MiB"]);
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "256MiB"]);
    let server = serve(&bench, "backup");
    archive_noise(&bench, server, 48);
    lose(&bench);
    let from = url(&bench, "backup");
    let arguments = ["restore", &from, "m.raw", "--only", "main"];
    let mut killed = 0;
    for wait_ms in [0, 20, 50, 100, 150] {
        let mut restore = bench.command(&arguments).spawn().expect("tonearm runs");
        wait_until("a part of it", Duration::from_secs(30), || {
            bench.path("m.raw.partial").exists() || bench.path("m.raw").exists()
        });
        std::thread::sleep(Duration::from_millis(wait_ms));
        restore.kill().expect("killed");
        restore.wait().expect("an end");
        if bench.path("m.raw").exists() {
            break;
        }
        killed += 1;
        let other = bench.fails(&["restore", &from, "m.raw"]);
        contains(&other, "is from another restore; remove it and ");
    }
    assert!(killed > 0, "it was too fast to be killed");
    if !bench.path("m.raw").exists() {
        bench.ok(&arguments);
    }
    assert!(!bench.path("m.raw.partial").exists() && !bench.path("m.raw.partial.json").exists());
    assert!(
        bench.read("before.raw") == bench.read("m.raw"),
        "other content"
    );
}
