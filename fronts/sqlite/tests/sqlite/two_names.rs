//! One store under two names in one process: connections share its state under either name.

use crate::common::{Mounted, assert_sound, get};
use crate::memory::Memory;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tonearm_store::files::Files;

const ROWS: i64 = 300;

fn connect(uri: &str) -> Connection {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db
}

fn uri(store: &Path) -> String {
    format!("file:app.db?vfs=tonearm&store={}", store.display())
}

/// A connection under each name writes at the same time, with a write-ahead log.
fn check(one: &str, two: &str) {
    let first = connect(one);
    let made =
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 30; CREATE TABLE t(who, n, filler)";
    first.execute_batch(made).unwrap();
    std::thread::scope(|scope| {
        for (who, uri) in [one, two].into_iter().enumerate() {
            scope.spawn(move || {
                let db = connect(uri);
                db.execute_batch("PRAGMA synchronous = OFF").unwrap();
                for n in 0..ROWS {
                    let insert = format!("INSERT INTO t VALUES ({who}, {n}, randomblob(300))");
                    db.execute_batch(&insert).unwrap();
                }
            });
        }
    });
    for db in [first, connect(two)] {
        assert_sound(&db);
        assert_eq!(get::<i64>(&db, "SELECT count(*) FROM t"), 2 * ROWS);
    }
}

/// Databases that were attached under both names change in one transaction.
fn check_attached(one: &str, two: &str) {
    let db = connect(one);
    let other = two.replace("app.db", "other.db");
    let changes = format!(
        "ATTACH '{other}' AS other; CREATE TABLE t(x); CREATE TABLE other.u(x);
         BEGIN; INSERT INTO t VALUES (1); INSERT INTO other.u VALUES (1); COMMIT;
         BEGIN; INSERT INTO t VALUES (2); INSERT INTO other.u VALUES (2); ROLLBACK;"
    );
    db.execute_batch(&changes).unwrap();
    assert_eq!(get::<i64>(&db, "SELECT count(*) FROM t"), 1);
    assert_eq!(get::<i64>(&db, "SELECT count(*) FROM other.u"), 1);
}

fn real_store(folder: &Path) -> std::path::PathBuf {
    tonearm_sqlite::register(false).unwrap();
    let path = folder.join("s.tn");
    let options = tonearm_store::CreateOptions {
        size_bytes: 64 << 20,
        log_bytes: Some(8 << 20),
        ..tonearm_store::CreateOptions::default()
    };
    tonearm_store::create(&path, &options).unwrap();
    path
}

#[test]
fn two_provided_names_are_one_store() {
    let files = Memory::default();
    let (one, two) = (Mounted::new(files.clone()), Mounted::new(files.clone()));
    check(&one.uri("app.db"), &two.uri("app.db"));
    let files = Memory::default();
    let (one, two) = (Mounted::new(files.clone()), Mounted::new(files));
    check_attached(&one.uri("app.db"), &two.uri("app.db"));
}

#[test]
fn a_hard_link_is_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = real_store(folder.path());
    let link = folder.path().join("link.tn");
    std::fs::hard_link(&path, &link).unwrap();
    check(&uri(&path), &uri(&link));
    check_attached(
        &uri(&path).replace("app.db", "one.db"),
        &uri(&link).replace("one.db", "app.db"),
    );
}

#[test]
fn provided_name_and_path_are_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = real_store(folder.path());
    let files: Arc<dyn Files> =
        tonearm_store::open_files(&path, tonearm_store::StoreOptions::default()).unwrap();
    tonearm_sqlite::provide("provided", files);
    check(&uri(&path), &uri(Path::new("provided")));
    tonearm_sqlite::withdraw("provided");
}

#[test]
fn a_copy_is_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = real_store(folder.path());
    let copy = folder.path().join("copy.tn");
    std::fs::copy(&path, &copy).unwrap();
    let (one, two) = (connect(&uri(&path)), connect(&uri(&copy)));
    one.execute_batch("CREATE TABLE t(x); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
        .unwrap();
    two.execute_batch("CREATE TABLE u(x)").unwrap();
    one.execute_batch("COMMIT").unwrap();
    assert_eq!(
        get::<i64>(&two, "SELECT count(*) FROM sqlite_schema WHERE name = 't'"),
        0
    );
}
