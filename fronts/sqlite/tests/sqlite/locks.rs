//! Several connections and threads.

use crate::common::{Mounted, assert_sound, get, two};
use rusqlite::{Connection, ErrorCode};
use std::time::Duration;

fn is_busy(result: rusqlite::Result<()>) -> bool {
    matches!(result, Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy)
}

#[test]
fn one_writes_while_others_read_what_is_committed() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "DELETE");
    first
        .execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 2;")
        .unwrap();
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 1);
    assert!(is_busy(second.execute_batch("UPDATE t SET x = 3")));
    first.execute_batch("COMMIT").unwrap();
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 2);
    second.execute_batch("UPDATE t SET x = 3").unwrap();
    assert_eq!(get::<i64>(&first, "SELECT x FROM t"), 3);
}

#[test]
fn a_reader_holds_up_a_commit_and_no_new_one_comes_in() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "DELETE");
    second.execute_batch("BEGIN; SELECT * FROM t;").unwrap();
    first.execute_batch("BEGIN; UPDATE t SET x = 2;").unwrap();
    assert!(is_busy(first.execute_batch("COMMIT")));
    let third = store.open("app.db");
    third.busy_timeout(Duration::ZERO).unwrap();
    assert!(
        third
            .query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0))
            .is_err()
    );
    second.execute_batch("COMMIT").unwrap();
    first.execute_batch("COMMIT").unwrap();
    assert_eq!(get::<i64>(&third, "SELECT x FROM t"), 2);
}

/// The result of `SQLITE_FCNTL_LOCKSTATE`.
fn lock_state(db: &Connection) -> i32 {
    let mut state = -1;
    // SAFETY: the connection is open, and the operation writes one int.
    let code = unsafe {
        rusqlite::ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            rusqlite::ffi::SQLITE_FCNTL_LOCKSTATE,
            (&raw mut state).cast(),
        )
    };
    assert_eq!(code, rusqlite::ffi::SQLITE_OK);
    state
}

/// SQLite's attach2-4.10 and 4.11.
#[test]
fn a_writer_that_waits_for_readers_is_pending() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "DELETE");
    second.execute_batch("BEGIN; SELECT * FROM t;").unwrap();
    first.execute_batch("BEGIN; UPDATE t SET x = 2;").unwrap();
    assert_eq!(lock_state(&first), rusqlite::ffi::SQLITE_LOCK_RESERVED);
    assert!(is_busy(first.execute_batch("COMMIT")));
    assert_eq!(lock_state(&first), rusqlite::ffi::SQLITE_LOCK_PENDING);
    first.execute_batch("ROLLBACK").unwrap();
    assert_eq!(lock_state(&first), rusqlite::ffi::SQLITE_LOCK_NONE);
}

#[test]
fn an_exclusive_connection_keeps_all_others_out() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "DELETE");
    first
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; UPDATE t SET x = 2;")
        .unwrap();
    assert!(is_busy(second.execute_batch("UPDATE t SET x = 3")));
    first
        .execute_batch("PRAGMA locking_mode = NORMAL; SELECT * FROM t;")
        .unwrap();
    second.execute_batch("UPDATE t SET x = 3").unwrap();
    assert_eq!(get::<i64>(&first, "SELECT x FROM t"), 3);
}

#[test]
fn threads_count_together() {
    for mode in ["DELETE", "MEMORY", "WAL"] {
        let store = Mounted::empty();
        let db = store.open("app.db");
        db.execute_batch(&format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE t(x); INSERT INTO t VALUES(0);"
        ))
        .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let db = store.open("app.db");
                    db.busy_timeout(Duration::from_secs(20)).unwrap();
                    for _ in 0..25 {
                        db.execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = x + 1; COMMIT;")
                            .unwrap_or_else(|error| panic!("{mode}: {error}"));
                    }
                });
            }
        });
        assert_eq!(get::<i64>(&db, "SELECT x FROM t"), 100, "{mode}");
        assert_sound(&db);
    }
}

#[test]
fn threads_with_databases_of_their_own_do_not_meet() {
    let store = Mounted::empty();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let db = store.open(&format!("app{n}.db"));
                db.busy_timeout(Duration::ZERO).unwrap();
                db.execute_batch("CREATE TABLE t(x)").unwrap();
                for value in 0..50 {
                    db.execute("INSERT INTO t VALUES(?1)", [value]).unwrap();
                }
                assert_eq!(get::<i64>(&db, "SELECT sum(x) FROM t"), 1225);
            });
        }
    });
    assert_eq!(store.files.units(), 0);
}
