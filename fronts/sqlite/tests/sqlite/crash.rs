//! Power cuts, one after every single effect. In every journal mode, a transaction is atomic,
//! in order, and transactions that were reported as durable are there.

use crate::common::{Mounted, get};
use crate::memory::{Content, Memory};
use crate::modes::JOURNAL_MODES;
use rusqlite::Connection;
use std::collections::BTreeMap;

const ACCOUNTS: i64 = 40;
const SUM: i64 = ACCOUNTS * 100;

/// A workload in one mode, and the promises that it has got.
struct Run<'a> {
    store: &'a Mounted,
    setup: String,
    /// Number of the last transaction.
    last: i64,
    /// For each number of durable effects, the last transaction that they must hold.
    acknowledged: BTreeMap<usize, i64>,
}

impl Run<'_> {
    fn open(&self, name: &str) -> Connection {
        let db = self.store.open(name);
        db.execute_batch(&self.setup).unwrap();
        db
    }

    /// Makes the bank, in one transaction, which is the first of the database.
    fn bank(&mut self, name: &str, more: &str) -> Connection {
        let db = self.open(name);
        let sql = format!(
            "BEGIN; CREATE TABLE account(id INTEGER PRIMARY KEY, balance INT, note BLOB); CREATE TABLE done(n INT);
             INSERT INTO done VALUES(0);
             WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS})
             INSERT INTO account SELECT i, 100, zeroblob(100) FROM n; {more} COMMIT;"
        );
        db.execute_batch(&sql).unwrap();
        db
    }

    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// The last transaction has been committed.
    fn committed(&mut self) {
        let (all, durable) = self.store.files.effects();
        if all == durable {
            self.acknowledged.insert(durable, self.last);
        }
    }

    fn transfer(&mut self, db: &Connection, before_commit: &str) {
        let n = self.next();
        let (from, to) = (n % ACCOUNTS + 1, n * 7 % ACCOUNTS + 1);
        let sql = format!(
            "BEGIN; UPDATE account SET balance = balance - {n} WHERE id = {from};
             UPDATE account SET balance = balance + {n} WHERE id = {to};
             UPDATE done SET n = {n}; {before_commit} COMMIT;"
        );
        db.execute_batch(&sql).unwrap();
        self.committed();
    }
}

fn transfers(run: &mut Run) {
    let db = run.bank("app.db", "");
    for n in 0..6 {
        run.transfer(&db, "");
        // A rollback between them, and another connection every now and then.
        let _ = db.execute_batch(
            "BEGIN; UPDATE account SET balance = 0; UPDATE done SET n = -1; ROLLBACK;",
        );
        if n == 3 {
            drop(run.open("app.db"));
        }
    }
}

fn spills(run: &mut Run) {
    let db = run.bank("app.db", "");
    db.execute_batch("PRAGMA cache_size = 2").unwrap();
    for n in 1..4 {
        let all = format!(
            "UPDATE account SET note = zeroblob({} * (1 + id % 3));",
            300 * n
        );
        run.transfer(&db, &all);
    }
}

fn savepoints(run: &mut Run) {
    let db = run.bank("app.db", "");
    db.execute_batch("PRAGMA cache_size = 2").unwrap();
    for _ in 0..3 {
        run.transfer(
            &db,
            "SAVEPOINT a; UPDATE account SET balance = 7, note = zeroblob(500); ROLLBACK TO a; RELEASE a;
             SAVEPOINT b; UPDATE account SET note = zeroblob(200) WHERE id % 2; RELEASE b;",
        );
    }
}

fn vacuums(run: &mut Run) {
    let db = run.bank(
        "app.db",
        "CREATE TABLE bulk AS SELECT zeroblob(900) FROM account;",
    );
    run.transfer(&db, "DROP TABLE bulk;");
    db.execute_batch("VACUUM").unwrap();
    run.transfer(
        &db,
        "CREATE TABLE again AS SELECT zeroblob(700) FROM account;",
    );
    run.transfer(&db, "DELETE FROM again;");
    db.execute_batch("VACUUM").unwrap();
    run.transfer(&db, "");
}

/// Moves money from one database to another, some of it with a cache that is too small.
fn attached(run: &mut Run) {
    drop(run.bank("second.db", ""));
    let db = run.bank("app.db", "");
    let attach = format!(
        "ATTACH '{}' AS second; PRAGMA second.cache_size = 2;",
        run.store.uri("second.db")
    );
    db.execute_batch(&attach).unwrap();
    let journal = run.setup.replace("PRAGMA ", "PRAGMA second.");
    db.execute_batch(&journal).unwrap();
    for _ in 0..4 {
        let n = run.next();
        let spill = match n % 2 {
            0 => "UPDATE second.account SET note = zeroblob(600);",
            _ => "",
        };
        let sql = format!(
            "BEGIN; {spill} UPDATE main.account SET balance = balance - {n} WHERE id = {n};
             UPDATE second.account SET balance = balance + {n} WHERE id = {n};
             UPDATE main.done SET n = {n}; UPDATE second.done SET n = {n}; COMMIT;"
        );
        db.execute_batch(&sql).unwrap();
        run.committed();
        let _ = db.execute_batch("BEGIN; UPDATE account SET balance = 0; UPDATE second.account SET balance = 1, note = zeroblob(500); ROLLBACK;");
    }
}

/// The content of a bank: the number of its last transaction, and its money. `None` before there is a bank.
fn look(store: &Mounted, name: &str) -> Result<Option<(i64, i64)>, String> {
    let text = |error: rusqlite::Error| format!("{name}: {error}");
    let db = store.try_open(name).map_err(text)?;
    let one = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(text)
    };
    let check = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    let check = check.map_err(text)?;
    if check != "ok" {
        return Err(format!("{name}: integrity_check says {check}"));
    }
    if one("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(None);
    }
    let count = one("SELECT count(*) FROM account")?;
    if count != ACCOUNTS {
        return Err(format!("{name}: {count} accounts"));
    }
    Ok(Some((
        one("SELECT n FROM done")?,
        one("SELECT sum(balance) FROM account")?,
    )))
}

fn judge(content: &Content, promised: Option<i64>, both: bool) -> Result<(), String> {
    let store = Mounted::new(Memory::with(content.clone()));
    let first = look(&store, "app.db")?;
    let (sum, last) = match (first, both) {
        (Some((last, sum)), false) => (sum, last),
        (Some((last, sum)), true) => {
            let second = look(&store, "second.db")?;
            let (last_of_second, of_second) = second.ok_or("the second bank is gone")?;
            if last != last_of_second {
                return Err(format!(
                    "transaction {last} here and {last_of_second} there"
                ));
            }
            (sum + of_second - SUM, last)
        }
        (None, _) => {
            return promised.map_or(Ok(()), |n| Err(format!("transaction {n} was durable")));
        }
    };
    if sum != SUM {
        return Err(format!("the accounts hold {sum}"));
    }
    match promised {
        Some(n) if n > last => Err(format!(
            "transaction {n} was durable, the last one found is {last}"
        )),
        _ => Ok(()),
    }
}

/// Runs a workload and cuts the power after each effect. Returns the number of cuts, and the first one that breaks a
/// promise.
fn cuts(
    files: Memory,
    work: fn(&mut Run),
    mode: &str,
    synchronous: &str,
    more: &str,
) -> (usize, Result<(), String>) {
    let store = Mounted::new(files);
    let mut run = Run {
        store: &store,
        setup: format!(
            "PRAGMA page_size = 512; PRAGMA journal_mode = {mode}; PRAGMA synchronous = {synchronous}; {more}"
        ),
        last: 0,
        acknowledged: BTreeMap::new(),
    };
    work(&mut run);
    let (total, durable) = store.files.effects();
    if synchronous == "FULL" && mode != "WAL" {
        let last = run.acknowledged.last_key_value().map(|(_, last)| *last);
        assert_eq!(
            last,
            Some(run.last),
            "with FULL a commit is durable when it is acknowledged"
        );
        assert!(durable > 0);
    }
    let both = store
        .files
        .content()
        .names()
        .contains(&"second.db".to_owned());
    let (mut count, mut result) = (0, Ok(()));
    store.files.replay(|prefix, content| {
        // Before both banks are there, there is nothing to compare.
        let begun = !both || content.names().contains(&"app.db".to_owned());
        if result.is_err() || !begun || !content.names().contains(&"app.db".to_owned()) {
            return;
        }
        count += 1;
        let promised = run
            .acknowledged
            .range(..=prefix)
            .next_back()
            .map(|(_, n)| *n);
        result = judge(content, promised, both).map_err(|error| {
            format!("{mode} {synchronous} {more}: after {prefix} of {total} effects: {error}")
        });
    });
    (count, result)
}

const WORKS: [fn(&mut Run); 5] = [transfers, spills, savepoints, vacuums, attached];

#[test]
fn transaction_is_atomic_across_power_cuts() {
    let mut total = 0;
    for mode in JOURNAL_MODES {
        for synchronous in ["OFF", "NORMAL", "FULL"] {
            for (index, work) in WORKS.into_iter().enumerate() {
                // SQLite promises no atomic transactions over several databases in WAL mode.
                if mode == "WAL" && index == 4 {
                    continue;
                }
                // SQLite does not promise rollbacks without a journal either, and this workload has some.
                if mode == "OFF" && index == 2 {
                    continue;
                }
                let (count, result) = cuts(Memory::default(), work, mode, synchronous, "");
                result.unwrap();
                total += count;
            }
        }
    }
    println!("{total} power cuts");
    assert!(total > 500, "{total} cuts");
}

#[test]
fn the_same_holds_with_exclusive_locking_and_auto_vacuum() {
    for mode in JOURNAL_MODES {
        for work in [transfers, spills, vacuums] {
            for more in [
                "PRAGMA locking_mode = EXCLUSIVE",
                "PRAGMA auto_vacuum = FULL",
            ] {
                let work: fn(&mut Run) = work;
                // With an exclusive lock there is no other connection.
                if more.contains("EXCLUSIVE")
                    && std::ptr::fn_addr_eq(work, transfers as fn(&mut Run))
                {
                    continue;
                }
                cuts(Memory::default(), work, mode, "FULL", more).1.unwrap();
            }
        }
    }
}

#[test]
fn a_store_without_units_is_found_out() {
    let mut found = 0;
    for mode in ["DELETE", "TRUNCATE", "MEMORY"] {
        for work in WORKS {
            found += usize::from(cuts(Memory::torn(), work, mode, "FULL", "").1.is_err());
        }
    }
    assert!(found > 10, "{found} of 15");
}

#[test]
fn connection_closed_in_a_transaction_leaves_no_changes() {
    let store = Mounted::empty();
    let db = store.open("app.db");
    db.execute_batch(
        "PRAGMA cache_size = 2; CREATE TABLE t(x); INSERT INTO t VALUES(zeroblob(9000));",
    )
    .unwrap();
    let before = store.files.effects().0;
    db.execute_batch("BEGIN; WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO t SELECT zeroblob(900) FROM n;")
        .unwrap();
    assert_eq!(store.files.units(), 1, "it has spilled");
    drop(db);
    assert_eq!(store.files.units(), 0);
    assert_eq!(store.files.effects().0, before);
    assert_eq!(
        get::<i64>(&store.open("app.db"), "SELECT count(*) FROM t"),
        1
    );
}
