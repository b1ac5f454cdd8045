//! The same work in every journal mode, with every level of safety and every page size, compared with SQLite on its own files.

use crate::common::{Mounted, assert_sound, dump, get};
use rusqlite::Connection;

pub const JOURNAL_MODES: [&str; 6] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"];

/// Rows, updates, deletions, an index, rollbacks, savepoints, spills, growing and shrinking.
fn work(db: &Connection, rolls_back: bool) {
    let sql = |text: &str| {
        let done = db.execute_batch(text);
        done.unwrap_or_else(|error| panic!("{text}: {error}"));
    };
    sql(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, body BLOB); CREATE INDEX by_name ON t(name);",
    );
    for id in 0..20 {
        sql(&format!(
            "INSERT INTO t VALUES({id}, 'n{}', zeroblob({}))",
            id % 7,
            50 * id
        ));
    }
    sql("BEGIN; UPDATE t SET name = 'x' || name WHERE id % 2; DELETE FROM t WHERE id = 4; COMMIT;");
    if rolls_back {
        sql("BEGIN; DELETE FROM t; ROLLBACK;");
        sql(
            "BEGIN; SAVEPOINT a; UPDATE t SET name = 'gone'; ROLLBACK TO a; INSERT INTO t VALUES(100, 'kept', x'01'); COMMIT;",
        );
    }
    // More pages than the cache holds: they are spilled in the middle of the transaction.
    sql("PRAGMA cache_size = 5; BEGIN;");
    sql(
        "WITH RECURSIVE n(i) AS (VALUES(200) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         INSERT INTO t SELECT i, 'n' || (i % 13), zeroblob(i % 400) FROM n;",
    );
    if rolls_back {
        sql(
            "SAVEPOINT b; DELETE FROM t WHERE id > 210; UPDATE t SET body = zeroblob(900); ROLLBACK TO b; RELEASE b;",
        );
    }
    sql("COMMIT;");
    if rolls_back {
        sql("BEGIN; UPDATE t SET body = zeroblob(1000), name = 'no'; ROLLBACK;");
    }
    sql("DELETE FROM t WHERE id > 300; PRAGMA incremental_vacuum;");
    sql("CREATE TABLE u AS SELECT id, name FROM t; DROP TABLE u; VACUUM;");
}

#[test]
fn every_mode_gives_what_plain_sqlite_gives() {
    for page_size in [512, 4096, 65536] {
        for mode in JOURNAL_MODES {
            for synchronous in ["OFF", "NORMAL", "FULL", "EXTRA"] {
                compare(mode, synchronous, page_size, "NORMAL", "NONE");
            }
        }
    }
}

#[test]
fn page_sizes_between_work_too() {
    for page_size in [1024, 2048, 8192, 16384, 32768] {
        compare("DELETE", "FULL", page_size, "NORMAL", "FULL");
    }
}

#[test]
fn exclusive_locking_and_auto_vacuum_work_in_every_mode() {
    for mode in JOURNAL_MODES {
        for vacuum in ["FULL", "INCREMENTAL"] {
            for locking in ["NORMAL", "EXCLUSIVE"] {
                compare(mode, "FULL", 1024, locking, vacuum);
            }
        }
    }
}

fn compare(mode: &str, synchronous: &str, page_size: u32, locking: &str, vacuum: &str) {
    let setup = |db: &Connection| {
        let setup = format!(
            "PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = {vacuum}; PRAGMA locking_mode = {locking};
             PRAGMA journal_mode = {mode}; PRAGMA synchronous = {synchronous};"
        );
        db.execute_batch(&setup).unwrap();
    };
    let store = Mounted::empty();
    let folder = tempfile::tempdir().unwrap();
    let ours = store.open("app.db");
    let plain = Connection::open(folder.path().join("app.db")).unwrap();
    for db in [&ours, &plain] {
        setup(db);
        if std::ptr::eq(db, &plain) {
            db.execute_batch("PRAGMA synchronous = OFF").unwrap();
        }
        // Without a journal a rollback is not defined.
        work(db, mode != "OFF");
    }
    let case = format!("{mode} {synchronous} {page_size} {locking} {vacuum}");
    assert_eq!(
        get::<String>(&ours, "PRAGMA journal_mode").to_uppercase(),
        mode,
        "{case}"
    );
    assert_eq!(dump(&ours), dump(&plain), "{case}");
    assert_sound(&ours);
    for pragma in ["page_size", "page_count", "freelist_count", "auto_vacuum"] {
        let sql = format!("PRAGMA {pragma}");
        assert_eq!(
            get::<i64>(&ours, &sql),
            get::<i64>(&plain, &sql),
            "{case} {pragma}"
        );
    }
    drop(ours);
    assert_eq!(store.files.units(), 0, "{case}");
    assert_eq!(store.files.content().names(), ["app.db"], "{case}");
    let again = store.open("app.db");
    assert_eq!(dump(&again), dump(&plain), "{case}");
    assert_sound(&again);
}

/// SQLite's pragma-9.5: temporary files are not in a store, and neither is their directory.
#[test]
fn a_directory_for_temporary_files_is_one_of_the_host() {
    let store = Mounted::empty();
    let db = store.open("app.db");
    let directory = tempfile::tempdir().unwrap();
    let set = |path: &str| db.execute_batch(&format!("PRAGMA temp_store_directory = '{path}'"));
    set(directory.path().to_str().unwrap()).unwrap();
    assert!(set("/nowhere/at/all").is_err());
    set("").unwrap();
}
