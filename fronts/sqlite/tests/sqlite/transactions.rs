//! The requests that reach the store: one unit for a transaction, and one wait at most.

use crate::common::{Mounted, assert_sound, dump, get};
use crate::memory::Call;
use rusqlite::Connection;
use rusqlite::backup::Backup;
use std::time::Duration;

fn count(calls: &[Call], wanted: impl Fn(&Call) -> bool) -> usize {
    calls.iter().filter(|call| wanted(call)).count()
}

fn is_end(call: &Call) -> bool {
    matches!(call, Call::End { .. })
}

fn outside(call: &Call) -> bool {
    matches!(
        call,
        Call::Write { in_unit: false } | Call::Truncate { in_unit: false }
    )
}

/// A database of about two pages, before any request.
fn database(store: &Mounted, setup: &str) -> Connection {
    let db = store.open("app.db");
    db.execute_batch(&format!(
        "{setup}; CREATE TABLE t(id INTEGER PRIMARY KEY, body); INSERT INTO t VALUES(1, 'one');"
    ))
    .unwrap();
    store.files.forget_calls();
    db
}

/// The requests of one statement.
fn calls_of(store: &Mounted, db: &Connection, sql: &str) -> Vec<Call> {
    store.files.forget_calls();
    db.execute_batch(sql).unwrap();
    store.files.calls()
}

#[test]
fn a_transaction_is_one_unit_and_one_wait() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"] {
        let store = Mounted::empty();
        let db = database(&store, &format!("PRAGMA journal_mode = {mode}"));
        let calls = calls_of(&store, &db, "INSERT INTO t(body) VALUES(zeroblob(20000))");
        assert_eq!(count(&calls, is_end), 1, "{mode} {calls:?}");
        assert_eq!(calls.last(), Some(&Call::End { durable: true }), "{mode}");
        assert_eq!(count(&calls, outside), 0, "{mode}");
        assert_eq!(count(&calls, |call| *call == Call::Flush), 0, "{mode}");
    }
}

#[test]
fn synchronous_level_decides_whether_a_commit_waits() {
    let store = Mounted::empty();
    let db = database(&store, "");
    for (level, durable) in [
        ("OFF", false),
        ("NORMAL", false),
        ("FULL", true),
        ("EXTRA", true),
        ("1", false),
        ("2", true),
    ] {
        let sql = format!("PRAGMA synchronous = {level}; UPDATE t SET body = '{level}'");
        let calls = calls_of(&store, &db, &sql);
        assert_eq!(calls.last(), Some(&Call::End { durable }), "{level}");
        assert_eq!(count(&calls, |call| *call == Call::Flush), 0, "{level}");
    }
    // SQLite refuses the change within a transaction, so it has no effect.
    assert!(
        db.execute_batch("BEGIN; PRAGMA synchronous = OFF;")
            .is_err()
    );
    let calls = calls_of(&store, &db, "UPDATE t SET body = 'kept'; COMMIT");
    assert_eq!(calls.last(), Some(&Call::End { durable: true }));
}

#[test]
fn spilled_pages_belong_to_the_same_unit() {
    for mode in ["DELETE", "MEMORY", "OFF"] {
        let store = Mounted::empty();
        let db = database(
            &store,
            &format!("PRAGMA journal_mode = {mode}; PRAGMA cache_size = 2"),
        );
        let calls = calls_of(
            &store,
            &db,
            "BEGIN; WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < 99)
             INSERT INTO t SELECT i, zeroblob(900) FROM n; COMMIT;",
        );
        assert_eq!(count(&calls, is_end), 1, "{mode}");
        assert_eq!(count(&calls, outside), 0, "{mode}");
        assert_eq!(count(&calls, |call| *call == Call::Begin), 1, "{mode}");
    }
}

#[test]
fn a_rollback_leaves_nothing_even_without_a_journal() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"] {
        for locking in ["NORMAL", "EXCLUSIVE"] {
            let store = Mounted::empty();
            let db = database(
                &store,
                &format!(
                    "PRAGMA journal_mode = {mode}; PRAGMA locking_mode = {locking}; PRAGMA cache_size = 2"
                ),
            );
            let before = dump(&db);
            let effects = store.files.effects();
            for _ in 0..2 {
                let _ = db.execute_batch(
                    "BEGIN; WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < 99)
                     INSERT INTO t SELECT i, zeroblob(900) FROM n; UPDATE t SET body = 'no'; ROLLBACK;",
                );
                assert_eq!(dump(&db), before, "{mode} {locking}");
                assert_sound(&db);
            }
            assert_eq!(store.files.effects(), effects, "{mode} {locking}");
            db.execute_batch("INSERT INTO t VALUES(5, 'five')").unwrap();
            drop(db);
            let db = store.open("app.db");
            assert_eq!(
                get::<i64>(&db, "SELECT count(*) FROM t"),
                2,
                "{mode} {locking}"
            );
            assert_sound(&db);
        }
    }
}

#[test]
fn attached_databases_of_one_store_share_a_unit() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"] {
        let store = Mounted::empty();
        let db = database(&store, &format!("PRAGMA journal_mode = {mode}"));
        let attach = format!(
            "ATTACH '{}' AS second; PRAGMA second.journal_mode = {mode}; CREATE TABLE second.t(x); INSERT INTO second.t VALUES(1);",
            store.uri("second.db")
        );
        db.execute_batch(&attach).unwrap();
        let calls = calls_of(
            &store,
            &db,
            "BEGIN; UPDATE main.t SET body = 'two'; UPDATE second.t SET x = 2; COMMIT;",
        );
        assert_eq!(count(&calls, is_end), 1, "{mode} {calls:?}");
        assert_eq!(count(&calls, |call| *call == Call::Begin), 1, "{mode}");
        assert_eq!(calls.last(), Some(&Call::End { durable: true }), "{mode}");
        assert_eq!(
            store.files.content().names(),
            ["app.db", "second.db"],
            "{mode}: no super-journal"
        );
        // Each of them alone, too.
        db.execute_batch("UPDATE main.t SET body = 'three'; UPDATE second.t SET x = 3;")
            .unwrap();
        let _ = db.execute_batch(
            "BEGIN; UPDATE main.t SET body = 'no'; UPDATE second.t SET x = 4; ROLLBACK;",
        );
        assert_eq!(get::<String>(&db, "SELECT body FROM main.t"), "three");
        assert_eq!(get::<i64>(&db, "SELECT x FROM second.t"), 3);
    }
}

#[test]
fn a_transaction_over_two_stores_is_refused_and_rolled_back() {
    let (here, there) = (Mounted::empty(), Mounted::empty());
    let db = database(&here, "");
    let attach = format!(
        "ATTACH '{}' AS second; CREATE TABLE second.t(x);",
        there.uri("second.db")
    );
    db.execute_batch(&attach).unwrap();
    db.execute_batch("INSERT INTO second.t VALUES(1)").unwrap();
    let both = "BEGIN; UPDATE main.t SET body = 'two'; UPDATE second.t SET x = 2; COMMIT;";
    assert!(db.execute_batch(both).is_err());
    assert!(
        tonearm_sqlite::last_error().contains("one store"),
        "{}",
        tonearm_sqlite::last_error()
    );
    let _ = db.execute_batch("ROLLBACK");
    assert_eq!(get::<String>(&db, "SELECT body FROM main.t"), "one");
    assert_eq!(get::<i64>(&db, "SELECT x FROM second.t"), 1);
    assert_eq!((here.files.units(), there.files.units()), (0, 0));
    // In modes for which SQLite promises nothing, no request is refused.
    db.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA second.journal_mode = MEMORY;")
        .unwrap();
    db.execute_batch(both).unwrap();
}

#[test]
fn transaction_with_a_foreign_database_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("plain.db");
    let elsewhere = elsewhere.to_str().unwrap();
    let store = Mounted::empty();
    let ours = database(&store, "");
    ours.execute_batch(&format!(
        "ATTACH 'file:{elsewhere}?vfs=unix' AS second; CREATE TABLE second.t(x);"
    ))
    .unwrap();
    let both = "BEGIN; UPDATE main.t SET body = 'two'; INSERT INTO second.t VALUES(2); COMMIT;";
    assert!(ours.execute_batch(both).is_err());
    let _ = ours.execute_batch("ROLLBACK");
    assert_eq!(get::<String>(&ours, "SELECT body FROM main.t"), "one");
    drop(ours);
    // The other way round.
    let theirs = Connection::open(elsewhere).unwrap();
    theirs
        .execute_batch(&format!("ATTACH '{}' AS second", store.uri("app.db")))
        .unwrap();
    let both = "BEGIN; INSERT INTO main.t VALUES(3); UPDATE second.t SET body = 'three'; COMMIT;";
    assert!(theirs.execute_batch(both).is_err());
    let _ = theirs.execute_batch("ROLLBACK");
    assert_eq!(get::<String>(&theirs, "SELECT body FROM second.t"), "one");
    assert_eq!(get::<i64>(&theirs, "SELECT count(*) FROM main.t"), 0);
}

#[test]
fn a_backup_goes_in_and_out() {
    let store = Mounted::empty();
    let plain = Connection::open_in_memory().unwrap();
    plain
        .execute_batch(
            "PRAGMA page_size = 1024; CREATE TABLE b(x); INSERT INTO b VALUES(zeroblob(50000));",
        )
        .unwrap();
    let mut db = store.open("app.db");
    db.execute_batch("PRAGMA page_size = 4096; CREATE TABLE t(x);")
        .unwrap();
    {
        let backup = Backup::new(&plain, &mut db).unwrap();
        // Into pages of another size, a few at a time.
        backup.run_to_completion(7, Duration::ZERO, None).unwrap();
    }
    assert_sound(&db);
    assert_eq!(dump(&db), dump(&plain));
    assert_eq!(store.files.units(), 0);
    let mut copy = Connection::open_in_memory().unwrap();
    Backup::new(&db, &mut copy)
        .unwrap()
        .run_to_completion(100, Duration::ZERO, None)
        .unwrap();
    assert_eq!(dump(&copy), dump(&plain));
}

#[test]
fn a_vacuum_is_one_unit() {
    let store = Mounted::empty();
    let db = database(&store, "");
    db.execute_batch("CREATE TABLE bulk AS SELECT zeroblob(100000); DROP TABLE bulk;")
        .unwrap();
    let calls = calls_of(&store, &db, "VACUUM");
    assert_eq!(count(&calls, is_end), 1, "{calls:?}");
    assert_eq!(count(&calls, outside), 0);
    assert_sound(&db);
    let into = store.uri("copy.db");
    db.execute_batch(&format!("VACUUM INTO '{into}'")).unwrap();
    assert_eq!(dump(&store.open("copy.db")), dump(&db));
}

#[test]
fn a_journal_beyond_its_memory_still_rolls_back() {
    let store = Mounted::empty();
    let db = database(&store, "PRAGMA page_size = 65536; PRAGMA cache_size = 4");
    db.execute_batch("WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < 400) INSERT INTO t SELECT i, randomblob(60000) FROM n;")
        .unwrap();
    let before = get::<Vec<u8>>(&db, "SELECT body FROM t WHERE id = 300");
    // A savepoint within the transaction, so that the journal itself must give the pages back.
    db.execute_batch("BEGIN; UPDATE t SET body = 'first' WHERE id = 1; SAVEPOINT a; UPDATE t SET body = randomblob(60000) WHERE id > 1; ROLLBACK TO a; COMMIT;")
        .unwrap();
    assert_eq!(
        get::<Vec<u8>>(&db, "SELECT body FROM t WHERE id = 300"),
        before
    );
    assert_eq!(
        get::<String>(&db, "SELECT body FROM t WHERE id = 1"),
        "first"
    );
    assert_sound(&db);
}

/// The path without them is that of spilled pages and attached databases, and of the system's SQLite.
#[test]
fn this_sqlite_offers_batch_atomic_writes() {
    let db = Connection::open_in_memory().unwrap();
    let sql = "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE')";
    assert!(get::<bool>(&db, sql));
}

#[test]
fn a_savepoint_that_is_the_transaction_commits_all_databases() {
    let store = Mounted::empty();
    let db = database(&store, "");
    let attach = format!(
        "ATTACH '{}' AS second; CREATE TABLE second.t(x);",
        store.uri("second.db")
    );
    db.execute_batch(&attach).unwrap();
    let calls = calls_of(
        &store,
        &db,
        "SAVEPOINT s; UPDATE main.t SET body = 'two'; INSERT INTO second.t VALUES(2); RELEASE s;",
    );
    assert_eq!(count(&calls, is_end), 1, "{calls:?}");
    assert_eq!(get::<i64>(&db, "SELECT x FROM second.t"), 2);
}

/// Its end would also be the end of what the connection has written to the other database so far.
#[test]
fn backup_during_an_open_transaction_is_refused() {
    let store = Mounted::empty();
    let mut db = database(&store, "PRAGMA cache_size = 2");
    let attach = format!(
        "ATTACH '{}' AS second; CREATE TABLE second.t(x);",
        store.uri("second.db")
    );
    db.execute_batch(&attach).unwrap();
    let before = dump(&db);
    let plain = Connection::open_in_memory().unwrap();
    plain
        .execute_batch("CREATE TABLE b(x); INSERT INTO b VALUES(1);")
        .unwrap();
    db.execute_batch(
        "BEGIN; WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < 99)
         INSERT INTO main.t SELECT i, zeroblob(900) FROM n;",
    )
    .unwrap();
    assert_eq!(store.files.units(), 1, "it has spilled");
    let backup = Backup::new_with_names(&plain, "main", &mut db, "second").unwrap();
    assert!(backup.run_to_completion(100, Duration::ZERO, None).is_err());
    drop(backup);
    assert!(tonearm_sqlite::last_error().contains("connection of its own"));
    assert!(db.execute_batch("COMMIT").is_err());
    let _ = db.execute_batch("ROLLBACK");
    assert_eq!(dump(&db), before);
    assert_eq!(store.files.units(), 0);
    drop(db);
    let db = store.open("app.db");
    assert_eq!(dump(&db), before);
    assert_sound(&db);
}
