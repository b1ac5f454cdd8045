//! Write-ahead logs.

use crate::common::{Mounted, assert_sound, get, two};
use crate::memory::Call;

#[test]
fn one_writes_at_a_time() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "WAL");
    first
        .execute_batch("BEGIN IMMEDIATE; UPDATE t SET x = 2;")
        .unwrap();
    assert!(second.execute_batch("BEGIN IMMEDIATE").is_err());
    first.execute_batch("COMMIT").unwrap();
    second.execute_batch("UPDATE t SET x = x + 1").unwrap();
    assert_eq!(get::<i64>(&first, "SELECT x FROM t"), 3);
}

#[test]
fn a_checkpoint_leaves_to_a_reader_what_it_reads() {
    let store = Mounted::empty();
    let (first, second) = two(&store, "WAL");
    second.execute_batch("BEGIN; SELECT * FROM t;").unwrap();
    first.execute_batch("UPDATE t SET x = 2").unwrap();
    let checkpoint = || get::<i64>(&first, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(checkpoint(), 1, "busy");
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 1);
    second.execute_batch("COMMIT").unwrap();
    assert_eq!(checkpoint(), 0);
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 2);
}

#[test]
fn commits_and_checkpoints_end_with_a_flush() {
    let store = Mounted::empty();
    let (db, _) = two(&store, "WAL");
    db.execute_batch("PRAGMA synchronous = FULL").unwrap();
    for sql in ["UPDATE t SET x = 2", "PRAGMA wal_checkpoint(FULL)"] {
        store.files.forget_calls();
        db.execute_batch(sql).unwrap();
        let calls = store.files.calls();
        assert_eq!(calls.last(), Some(&Call::Flush), "{sql} {calls:?}");
    }
}

#[test]
fn readers_keep_their_snapshot_while_one_writes() {
    let store = Mounted::empty();
    let first = store.open("app.db");
    first
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1);")
        .unwrap();
    let second = store.open("app.db");
    second.execute_batch("BEGIN; SELECT * FROM t;").unwrap();
    first.execute_batch("UPDATE t SET x = 2").unwrap();
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 1);
    second.execute_batch("COMMIT").unwrap();
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 2);
    assert_eq!(store.files.content().names(), ["app.db", "app.db-wal"]);
    drop(first);
    assert_eq!(get::<i64>(&second, "SELECT x FROM t"), 2);
    drop(second);
    assert_eq!(
        store.files.content().names(),
        ["app.db"],
        "the last one has checkpointed"
    );
}

#[test]
fn checkpoints_of_every_kind_work() {
    let store = Mounted::empty();
    let db = store.open("app.db");
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x);")
        .unwrap();
    for kind in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        db.execute_batch("INSERT INTO t VALUES(zeroblob(9000))")
            .unwrap();
        let busy: i64 = get(&db, &format!("PRAGMA wal_checkpoint({kind})"));
        assert_eq!(busy, 0, "{kind}");
    }
    let other = store.open("app.db");
    assert_eq!(get::<i64>(&other, "SELECT count(*) FROM t"), 4);
    assert_sound(&other);
}

#[test]
fn leftover_wal_is_recovered() {
    let store = Mounted::empty();
    let db = store.open("app.db");
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES(7);")
        .unwrap();
    let left = Mounted::new(crate::memory::Memory::with(store.files.content()));
    let db = left.open("app.db");
    assert_eq!(get::<i64>(&db, "SELECT x FROM t"), 7);
    assert_sound(&db);
}

#[test]
fn one_goes_from_mode_to_mode() {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        let store = Mounted::empty();
        let db = store.open("app.db");
        db.execute_batch(&format!(
            "PRAGMA locking_mode = {locking}; CREATE TABLE t(x);"
        ))
        .unwrap();
        for mode in [
            "wal", "delete", "wal", "persist", "memory", "wal", "truncate", "off", "delete",
        ] {
            assert_eq!(
                get::<String>(&db, &format!("PRAGMA journal_mode = {mode}")),
                mode
            );
            db.execute_batch("INSERT INTO t VALUES(zeroblob(5000))")
                .unwrap();
            db.execute_batch("BEGIN; INSERT INTO t VALUES(zeroblob(5000)); COMMIT;")
                .unwrap();
        }
        assert_sound(&db);
        assert_eq!(get::<i64>(&db, "SELECT count(*) FROM t"), 18);
        drop(db);
        assert_eq!(store.files.units(), 0);
        assert_eq!(
            get::<i64>(&store.open("app.db"), "SELECT count(*) FROM t"),
            18
        );
    }
}

#[test]
fn the_log_can_be_kept() {
    let store = Mounted::empty();
    let db = store.open("app.db");
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(x);")
        .unwrap();
    let mut keep: std::ffi::c_int = 1;
    // SAFETY: SQLITE_FCNTL_PERSIST_WAL takes a pointer to an int.
    let code = unsafe {
        rusqlite::ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            rusqlite::ffi::SQLITE_FCNTL_PERSIST_WAL,
            std::ptr::from_mut(&mut keep).cast(),
        )
    };
    assert_eq!(code, 0);
    drop(db);
    assert_eq!(store.files.content().names(), ["app.db", "app.db-wal"]);
}
