//! Connections whose server dies, and that go on with the next one.

use crate::common::{Mounted, assert_sound, get};
use crate::memory::{Content, Memory};
use rusqlite::Connection;
use std::sync::Arc;

fn served() -> Mounted {
    Mounted::new(Memory::served(Content::default()))
}

/// The server dies, and the next one has `content`.
fn restart(store: &mut Mounted, content: Content) {
    store.files.lose_server();
    store.files = Memory::served(content);
    tonearm_sqlite::provide(&store.path, Arc::new(store.files.clone()));
}

fn restart_with_all(store: &mut Mounted) {
    let content = store.files.content();
    restart(store, content);
}

fn pool(store: &Mounted) -> Vec<Connection> {
    let pool: Vec<Connection> = (0..4).map(|_| store.open("app.db")).collect();
    pool[0].execute_batch("CREATE TABLE t(x)").unwrap();
    for db in &pool {
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
    }
    pool
}

#[test]
fn each_connection_of_a_pool_goes_on_with_the_next_server() {
    let mut store = served();
    let pool = pool(&store);
    for round in 0..3 {
        restart_with_all(&mut store);
        for (index, db) in pool.iter().enumerate() {
            let rows: i64 = get(db, "SELECT count(*) FROM t");
            assert_eq!(rows, (4 + 4 * round + index) as i64);
            db.execute("INSERT INTO t VALUES (2)", []).unwrap();
        }
    }
    let new = store.open("app.db");
    assert_eq!(get::<i64>(&new, "SELECT count(*) FROM t"), 16);
    assert_sound(&new);
    pool.iter().for_each(assert_sound);
}

/// The first use after the restart is each kind of statement, also one that was prepared before.
#[test]
fn writes_and_kept_statements_come_first_after_a_restart() {
    let mut store = served();
    let pool = pool(&store);
    let mut kept = pool[2].prepare("SELECT count(*) FROM t").unwrap();
    let count = |kept: &mut rusqlite::Statement<'_>| -> i64 {
        kept.query_row([], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&mut kept), 4);
    restart_with_all(&mut store);
    pool[0]
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (5); COMMIT")
        .unwrap();
    pool[1]
        .execute_batch("CREATE TABLE u(y); INSERT INTO u VALUES (1)")
        .unwrap();
    assert_eq!(count(&mut kept), 5);
    assert_eq!(get::<i64>(&pool[3], "SELECT sum(y) FROM u"), 1);
}

#[test]
fn new_connections_work_next_to_ones_with_a_lost_server() {
    let mut store = served();
    let pool = pool(&store);
    restart_with_all(&mut store);
    let new = store.open("app.db");
    assert_eq!(get::<i64>(&new, "SELECT count(*) FROM t"), 4);
    drop(pool);
    new.execute("INSERT INTO t VALUES (3)", []).unwrap();
    assert_eq!(
        get::<i64>(&store.open("app.db"), "SELECT count(*) FROM t"),
        5
    );
}

#[test]
fn only_the_open_transaction_fails_after_a_restart() {
    for begin in [
        "BEGIN; SELECT * FROM t",
        "BEGIN IMMEDIATE",
        "BEGIN; INSERT INTO t VALUES (9)",
        "BEGIN EXCLUSIVE; INSERT INTO t VALUES (9)",
    ] {
        let mut store = served();
        let pool = pool(&store);
        pool[0].execute_batch(begin).unwrap();
        restart_with_all(&mut store);
        let ends = pool[0].execute_batch("INSERT INTO t VALUES (8); COMMIT");
        assert!(ends.is_err(), "{begin}");
        // SQLite may have rolled it back already.
        let _ = pool[0].execute_batch("ROLLBACK");
        assert!(pool[0].is_autocommit());
        assert_eq!(get::<i64>(&pool[0], "SELECT count(*) FROM t"), 4, "{begin}");
        pool[0].execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(get::<i64>(&pool[1], "SELECT sum(x) FROM t"), 6);
        assert_sound(&pool[0]);
    }
}

/// The server took commits with it that were not durable, and others commit as much since: all numbers of the file are as
/// the connection has seen them last.
#[test]
fn lost_commits_are_not_mistaken_for_new_ones() {
    let mut store = served();
    let old = store.open("app.db");
    old.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        .unwrap();
    let durable = store.files.content();
    let numbers = |db: &Connection| -> (i64, i64) {
        (
            get(db, "PRAGMA schema_version"),
            get(db, "PRAGMA page_count"),
        )
    };
    old.execute_batch(
        "PRAGMA synchronous = OFF; CREATE TABLE lost(a, b); INSERT INTO lost VALUES (7, 7); INSERT INTO t VALUES (70)",
    )
    .unwrap();
    let mut kept = old.prepare("SELECT sum(x) FROM t").unwrap();
    let sum = |kept: &mut rusqlite::Statement<'_>| -> i64 {
        kept.query_row([], |row| row.get(0)).unwrap()
    };
    assert_eq!(
        (get::<i64>(&old, "SELECT a FROM lost"), sum(&mut kept)),
        (7, 71)
    );
    let before = numbers(&old);
    restart(&mut store, durable);
    let new = store.open("app.db");
    new.execute_batch(
        "CREATE TABLE came(c); INSERT INTO came VALUES (8); INSERT INTO t VALUES (20)",
    )
    .unwrap();
    assert_eq!(
        numbers(&new),
        before,
        "the file does not show what was lost"
    );
    assert_eq!(sum(&mut kept), 21);
    let lost = old.query_row("SELECT a FROM lost", [], |row| row.get::<_, i64>(0));
    assert!(lost.unwrap_err().to_string().contains("no such table"));
    assert_eq!(get::<i64>(&old, "SELECT c FROM came"), 8);
    // What it writes is read by others, and what they write by it.
    for round in 0..3 {
        old.execute("INSERT INTO t VALUES (100)", []).unwrap();
        new.execute("INSERT INTO t VALUES (1000)", []).unwrap();
        let expected = 21 + (round + 1) * 1100;
        assert_eq!(
            (sum(&mut kept), get::<i64>(&new, "SELECT sum(x) FROM t")),
            (expected, expected)
        );
    }
    old.execute_batch("CREATE TABLE more(d); INSERT INTO more VALUES (3)")
        .unwrap();
    assert_eq!(get::<i64>(&new, "SELECT d FROM more"), 3);
    assert_sound(&old);
    assert_sound(&new);
    assert_sound(&store.open("app.db"));
}

/// The pages that stay in memory after a renewal are used.
#[test]
fn pages_are_reread_once_after_each_restart() {
    let mut store = served();
    let pool = pool(&store);
    restart_with_all(&mut store);
    assert_eq!(get::<i64>(&pool[0], "SELECT count(*) FROM t"), 4);
    let misses = |db: &Connection| {
        let (mut now, mut high) = (0, 0);
        // SAFETY: the connection is open, and the numbers are ours.
        let code = unsafe {
            rusqlite::ffi::sqlite3_db_status(
                db.handle(),
                rusqlite::ffi::SQLITE_DBSTATUS_CACHE_MISS,
                &mut now,
                &mut high,
                0,
            )
        };
        assert_eq!(code, 0);
        now
    };
    let before = misses(&pool[0]);
    for _ in 0..5 {
        assert_eq!(get::<i64>(&pool[0], "SELECT count(*) FROM t"), 4);
    }
    assert_eq!(misses(&pool[0]), before);
}

#[test]
fn statements_fail_without_a_server_and_work_later() {
    let mut store = served();
    let pool = pool(&store);
    let content = store.files.content();
    // No next server yet.
    store.files.lose_server();
    for db in &pool {
        let failed = db.execute("INSERT INTO t VALUES (1)", []).unwrap_err();
        let code = failed.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::SystemIoFailure), "{failed}");
        assert!(tonearm_sqlite::last_error().contains("gone away"));
    }
    restart(&mut store, content);
    for db in &pool {
        db.execute("INSERT INTO t VALUES (1)", []).unwrap();
    }
    assert_eq!(get::<i64>(&pool[0], "SELECT count(*) FROM t"), 8);
}

#[test]
fn the_number_of_a_commit_of_the_last_server_is_not_given() {
    let mut store = served();
    let db = store.open("app.db");
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let first: String = get(&db, "PRAGMA tonearm_lsn");
    assert!(first.parse::<u64>().unwrap() > 0);
    restart_with_all(&mut store);
    // The first one asks the server.
    for pragma in ["PRAGMA tonearm_wait = durable", "PRAGMA tonearm_lsn"] {
        let asked = db.query_row(pragma, [], |row| row.get::<_, String>(0));
        let text = asked.unwrap_err().to_string();
        assert!(text.contains("started again"), "{pragma}: {text}");
    }
    let _durable: String = get(&db, "PRAGMA tonearm_durable");
    db.execute("INSERT INTO t VALUES (1)", []).unwrap();
    let lsn: String = get(&db, "PRAGMA tonearm_lsn");
    assert_eq!(lsn, get::<String>(&db, "PRAGMA tonearm_wait = durable"));
}
