//! Failures of the store, and requests that make no sense.

use crate::common::{Mounted, assert_sound, dump};
use crate::memory::Call;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tonearm_store::files::{Files, FilesErrorKind, Open};

fn code(result: rusqlite::Result<()>) -> Option<ErrorCode> {
    match result {
        Err(rusqlite::Error::SqliteFailure(error, _)) => Some(error.code),
        _ => None,
    }
}

const CHANGE: &str = "BEGIN; UPDATE t SET x = zeroblob(700) WHERE rowid % 2;
     INSERT INTO t SELECT zeroblob(500) FROM t; COMMIT;";

fn database(store: &Mounted, setup: &str) -> Connection {
    let db = store.open("app.db");
    db.execute_batch(&format!(
        "PRAGMA page_size = 512; {setup}; PRAGMA cache_size = 2; CREATE TABLE t(x);
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO t SELECT zeroblob(300) FROM n;"
    ))
    .unwrap();
    db
}

/// One call after the other fails, once or from then on: the transaction is there or not, the connection goes on.
#[test]
fn whatever_fails_a_transaction_is_whole() {
    let mut failures = 0;
    for mode in ["DELETE", "PERSIST", "MEMORY", "OFF"] {
        for locking in ["NORMAL", "EXCLUSIVE"] {
            for (kind, count) in [
                (FilesErrorKind::NoSpace, 1),
                (FilesErrorKind::Failed, 1),
                (FilesErrorKind::NoSpace, 1000),
            ] {
                for after in 0.. {
                    let case = format!("{mode} {locking} {kind:?} {count} after {after}");
                    let store = Mounted::empty();
                    let db = database(
                        &store,
                        &format!("PRAGMA journal_mode = {mode}; PRAGMA locking_mode = {locking}"),
                    );
                    let before = dump(&db);
                    store.files.forget_calls();
                    store.files.fail(after, count, kind);
                    let result = db.execute_batch(CHANGE);
                    let reached = store.files.calls().len() > after;
                    store.files.fail(0, 0, kind);
                    if !db.is_autocommit() {
                        let _ = db.execute_batch("ROLLBACK");
                    }
                    if result.is_err() {
                        failures += 1;
                        assert_eq!(dump(&db), before, "{case}");
                    }
                    assert_sound(&db);
                    db.execute_batch("INSERT INTO t VALUES('later')")
                        .unwrap_or_else(|error| panic!("{case}: {error}"));
                    let after_it = dump(&db);
                    drop(db);
                    assert_eq!(store.files.units(), 0, "{case}");
                    let db = store.open("app.db");
                    assert_sound(&db);
                    assert_eq!(dump(&db), after_it, "{case}");
                    if !reached {
                        break;
                    }
                }
            }
        }
    }
    assert!(failures > 100, "{failures}");
}

#[test]
fn store_errors_map_to_sqlite_full_and_ioerr() {
    for (kind, wanted) in [
        (FilesErrorKind::NoSpace, ErrorCode::DiskFull),
        (FilesErrorKind::Failed, ErrorCode::SystemIoFailure),
        (FilesErrorKind::Conflict, ErrorCode::SystemIoFailure),
    ] {
        let store = Mounted::empty();
        let db = database(&store, "");
        store.files.fail(0, 1000, kind);
        assert_eq!(code(db.execute_batch(CHANGE)), Some(wanted), "{kind:?}");
        assert!(tonearm_sqlite::last_error().contains("fails as planned"));
        // And when all was written, at its end.
        let store = Mounted::empty();
        let db = database(&store, "");
        store.files.forget_calls();
        db.execute_batch(CHANGE).unwrap();
        let is_end = |call: &Call| matches!(call, Call::End { .. });
        let end = store.files.calls().iter().position(is_end).unwrap();
        let store = Mounted::empty();
        let db = database(&store, "");
        store.files.forget_calls();
        store.files.fail(end, 1000, kind);
        assert_eq!(code(db.execute_batch(CHANGE)), Some(wanted), "{kind:?}");
    }
}

#[test]
fn missing_store_is_an_error_with_advice() {
    tonearm_sqlite::register(false).unwrap();
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let open = |uri: &str| code(Connection::open_with_flags(uri, flags).map(drop));
    assert_eq!(open("file:app.db?vfs=tonearm"), Some(ErrorCode::CannotOpen));
    assert!(tonearm_sqlite::last_error().contains("TONEARM_STORE"));
    assert_eq!(
        open("file:app.db?vfs=tonearm&store=/no/such/store.tn"),
        Some(ErrorCode::CannotOpen)
    );
    assert!(
        tonearm_sqlite::last_error().contains("/no/such/store.tn"),
        "{}",
        tonearm_sqlite::last_error()
    );
}

#[test]
fn names_are_paths_in_the_store() {
    let store = Mounted::empty();
    // The files of this test have no directories.
    for name in ["a/b.db", "/a/b.db"] {
        assert!(store.try_open(name).is_err());
        let why = tonearm_sqlite::last_error();
        assert!(why.contains("\"a/b.db\" cannot be a name"), "{why}");
    }
    for name in ["a//b.db", "a/"] {
        assert!(store.try_open(name).is_err());
        let why = tonearm_sqlite::last_error();
        assert!(why.contains("names no file of a store"), "{why}");
    }
    assert!(store.try_open("a%20b.db").is_ok());
    let long = "n".repeat(600);
    assert!(store.try_open(&long).is_err());
    // The full name is one, too.
    let db = store.open("app.db");
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let name: String = db
        .query_row("SELECT file FROM pragma_database_list", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(name, format!("{}/app.db", store.path));
    let again =
        Connection::open_with_flags_and_vfs(&name, OpenFlags::default(), c"tonearm").unwrap();
    assert_eq!(dump(&again), dump(&db));
}

#[test]
fn a_journal_that_was_copied_in_is_refused() {
    let store = Mounted::empty();
    drop(database(&store, ""));
    let how = Open {
        create: true,
        exclusive: true,
    };
    let file = store.files.open("app.db-journal", how).unwrap();
    store.files.close(file);
    assert!(store.try_open("app.db").is_err());
    assert!(tonearm_sqlite::last_error().contains("in the middle of a transaction"));
}

#[test]
fn locks_cannot_be_left_out() {
    let store = Mounted::empty();
    drop(database(&store, ""));
    assert!(store.try_open("app.db&nolock=1").is_err() || store.try_open("app.db").is_ok());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("{}&nolock=1", store.uri("app.db"));
    assert!(Connection::open_with_flags(uri, flags).is_err());
    assert!(tonearm_sqlite::last_error().contains("nolock"));
}

#[test]
fn reading_alone_works() {
    let store = Mounted::empty();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    assert!(
        Connection::open_with_flags(store.uri("app.db"), flags).is_err(),
        "it is not made"
    );
    let before = dump(&database(&store, ""));
    for more in ["", "&immutable=1", "&mode=ro"] {
        let db =
            Connection::open_with_flags(format!("{}{more}", store.uri("app.db")), flags).unwrap();
        assert_eq!(dump(&db), before, "{more}");
        assert_eq!(
            code(db.execute_batch("DELETE FROM t")),
            Some(ErrorCode::ReadOnly),
            "{more}"
        );
    }
}
