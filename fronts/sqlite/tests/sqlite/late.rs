//! Databases with `create=late`: their file is made when something is written.

use crate::common::{Mounted, assert_sound, get};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::time::Duration;
use tonearm_store::files::Files;

fn late(store: &Mounted) -> Connection {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("{}&create=late", store.uri("app.db"));
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db
}

fn tables(db: &Connection) -> i64 {
    get(db, "SELECT count(*) FROM sqlite_schema")
}

#[test]
fn a_connection_that_only_reads_makes_no_file() {
    let store = Mounted::empty();
    let db = late(&store);
    assert_eq!(tables(&db), 0);
    assert!(db.execute_batch("SELECT a FROM t").is_err());
    assert_eq!(get::<i64>(&db, "PRAGMA user_version"), 0);
    assert!(!store.files.exists("app.db").unwrap());
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
        .unwrap();
    assert!(store.files.exists("app.db").unwrap());
    drop(db);
    let db = store.open("app.db");
    assert_eq!(get::<i64>(&db, "SELECT a FROM t"), 1);
    assert_sound(&db);
}

/// The first one used to delete the file that the second one had open.
#[test]
fn the_end_of_one_connection_takes_nothing_from_another() {
    let store = Mounted::empty();
    let (first, second) = (late(&store), late(&store));
    assert_eq!((tables(&first), tables(&second)), (0, 0));
    drop(first);
    second
        .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (42)")
        .unwrap();
    drop(second);
    assert_eq!(get::<i64>(&store.open("app.db"), "SELECT a FROM t"), 42);
}

#[test]
fn late_connection_does_not_overwrite_others_database() {
    let store = Mounted::empty();
    let (reader, writer) = (late(&store), late(&store));
    // A transaction that has read the empty database must not write over what came later.
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
        .unwrap();
    writer
        .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
        .unwrap();
    assert_eq!(tables(&reader), 0, "it still reads what it has read");
    let failed = reader.execute_batch("CREATE TABLE other(a)").unwrap_err();
    assert_eq!(failed.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    reader.execute_batch("ROLLBACK").unwrap();
    assert_eq!(get::<i64>(&reader, "SELECT a FROM t"), 1);
    reader.execute_batch("CREATE TABLE other(a)").unwrap();
    assert_eq!(tables(&writer), 2);
    assert_sound(&writer);
}

#[test]
fn the_locks_of_the_first_writer_hold() {
    let store = Mounted::empty();
    let (first, second) = (late(&store), late(&store));
    first.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = second.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(failed.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    first.execute_batch("CREATE TABLE t(a); COMMIT").unwrap();
    second
        .execute_batch("BEGIN EXCLUSIVE; CREATE TABLE u(a); COMMIT")
        .unwrap();
    assert_eq!(tables(&first), 2);
}
