//! The pragmas that return how far commits have come, and wait for them.

use crate::common::{Mounted, get};
use crate::memory::Call;
use rusqlite::Connection;
use tonearm_store::Lsn;

/// The answer of a pragma, as a number.
fn number(db: &Connection, pragma: &str) -> u64 {
    get::<String>(db, pragma).parse().unwrap()
}

fn ready(store: &Mounted, name: &str) -> Connection {
    let db = store.open(name);
    db.execute_batch("PRAGMA synchronous = NORMAL; CREATE TABLE t(x)")
        .unwrap();
    db
}

fn error_of(db: &Connection, pragma: &str) -> String {
    let asked = db.query_row(pragma, [], |_| Ok(()));
    asked.unwrap_err().to_string()
}

#[test]
fn one_wait_makes_all_transactions_of_a_batch_durable() {
    let store = Mounted::empty();
    let db = ready(&store, "app.db");
    store.files.forget_calls();
    for n in 0..10 {
        db.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
    }
    let (all, durable) = store.files.effects();
    assert!(durable < all, "no commit waits");
    let last = number(&db, "PRAGMA tonearm_lsn");
    assert_eq!(last, all as u64);
    assert_eq!(number(&db, "PRAGMA tonearm_durable"), durable as u64);
    assert_eq!(number(&db, "PRAGMA tonearm_wait = durable"), last);
    assert_eq!(store.files.effects(), (all, all));
    let waits = store.files.calls();
    let waits = waits.iter().filter(|call| matches!(call, Call::Wait(_)));
    assert_eq!(waits.collect::<Vec<_>>(), [&Call::Wait(Lsn(last))]);
    assert!(!store.files.calls().contains(&Call::End { durable: true }));
}

/// SQLite asks the VFS when it compiles the statement. A statement that is kept is compiled again for each run.
#[test]
fn a_kept_statement_waits_each_time() {
    let store = Mounted::empty();
    let db = ready(&store, "app.db");
    for n in 0..5 {
        db.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
        let mut wait = db.prepare("PRAGMA tonearm_wait = durable").unwrap();
        let durable: String = wait.query_row([], |row| row.get(0)).unwrap();
        let (all, now) = store.files.effects();
        assert_eq!((durable, now), (all.to_string(), all), "round {n}");
        let mut lsn = db.prepare("PRAGMA tonearm_lsn").unwrap();
        let lsn: String = lsn.query_row([], |row| row.get(0)).unwrap();
        assert_eq!(lsn, all.to_string(), "round {n}");
    }
}

#[test]
fn the_lsn_is_that_of_the_own_connection() {
    let store = Mounted::empty();
    let one = ready(&store, "app.db");
    let two = store.open("app.db");
    let other = ready(&store, "other.db");
    assert_eq!(
        number(&two, "PRAGMA tonearm_lsn"),
        0,
        "it has made no commit"
    );
    let before = number(&one, "PRAGMA tonearm_lsn");
    other.execute("INSERT INTO t VALUES(1)", []).unwrap();
    assert_eq!(number(&one, "PRAGMA tonearm_lsn"), before);
    two.execute("INSERT INTO t VALUES(1)", []).unwrap();
    assert_eq!(number(&one, "PRAGMA tonearm_lsn"), before);
    assert!(number(&two, "PRAGMA tonearm_lsn") > before);
    // A transaction that changes nothing, or is rolled back, leaves it.
    let last = number(&two, "PRAGMA tonearm_lsn");
    two.execute_batch("BEGIN; COMMIT; BEGIN; DELETE FROM t; ROLLBACK;")
        .unwrap();
    assert_eq!(number(&two, "PRAGMA tonearm_lsn"), last);
    drop((one, two));
    let three = store.open("app.db");
    assert_eq!(number(&three, "PRAGMA tonearm_lsn"), 0);
}

/// A commit in an attached database alone counts, too: a wait through the main database waits for it.
#[test]
fn commits_in_attached_databases_count() {
    let store = Mounted::empty();
    let db = ready(&store, "app.db");
    db.execute("ATTACH ? AS more", [store.uri("more.db")])
        .unwrap();
    db.execute_batch("PRAGMA more.synchronous = NORMAL; CREATE TABLE more.u(x);")
        .unwrap();
    for sql in [
        "INSERT INTO u VALUES(1)",
        "BEGIN; INSERT INTO t VALUES(2); INSERT INTO u VALUES(2); COMMIT",
        "INSERT INTO t VALUES(3)",
    ] {
        db.execute_batch(sql).unwrap();
        let (all, _) = store.files.effects();
        for schema in ["", "main.", "more."] {
            let lsn = number(&db, &format!("PRAGMA {schema}tonearm_lsn"));
            assert_eq!(lsn, all as u64, "{sql}, {schema}");
        }
        number(&db, "PRAGMA tonearm_wait = durable");
        assert_eq!(store.files.effects(), (all, all), "{sql}");
    }
    db.execute_batch("INSERT INTO u VALUES(4); DETACH more")
        .unwrap();
    let (all, _) = store.files.effects();
    assert_eq!(number(&db, "PRAGMA tonearm_lsn"), all as u64);
}

/// Frames of a write-ahead log are not distinguished: the wait is for all that the store has.
#[test]
fn with_a_write_ahead_log_a_wait_covers_every_commit() {
    let store = Mounted::empty();
    let db = ready(&store, "app.db");
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;")
        .unwrap();
    for n in 0..5 {
        db.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
        let (all, durable) = store.files.effects();
        assert!(durable < all, "no commit waits");
        assert_eq!(number(&db, "PRAGMA tonearm_lsn"), all as u64);
        number(&db, "PRAGMA tonearm_wait = durable");
        assert_eq!(store.files.effects(), (all, all));
    }
}

#[test]
fn invalid_pragma_values_are_errors_with_advice() {
    let store = Mounted::empty();
    let db = ready(&store, "app.db");
    for (pragma, why) in [
        ("PRAGMA tonearm_wait", "PRAGMA tonearm_wait = durable"),
        (
            "PRAGMA tonearm_wait = soon",
            "PRAGMA tonearm_wait = durable",
        ),
        ("PRAGMA tonearm_lsn = 1", "tonearm_lsn cannot be set"),
        ("PRAGMA tonearm_durable(1)", "tonearm_durable cannot be set"),
        (
            "PRAGMA tonearm_archive = 1",
            "tonearm_archive cannot be set",
        ),
        ("PRAGMA tonearm_wait = archived", "the store has no archive"),
    ] {
        let error = error_of(&db, pragma);
        assert!(error.contains(why), "{pragma}: {error}");
    }
    store
        .files
        .fail(0, 1, tonearm_store::files::FilesErrorKind::Failed);
    let error = error_of(&db, "PRAGMA tonearm_wait = durable");
    assert!(error.contains("fails as planned"), "{error}");
    db.execute("INSERT INTO t VALUES(1)", []).unwrap();
}
