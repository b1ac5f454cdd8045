//! SQLite, unchanged, on a mount whose server is killed.

use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, TreeMount, skipped};

/// Number of kills in each journal mode.
const ROUNDS: u64 = 8;
/// Accounts of the bank, and the sum of their balances.
const ACCOUNTS: i64 = 50;
const MONEY: i64 = ACCOUNTS * 1000;

fn open(path: &Path, mode: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", mode)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Moves money until the server is gone. `committed` is the last transfer that was.
fn transfer_until_cut(connection: &mut Connection, first: i64, committed: &AtomicI64) {
    let mut step = |number: i64| -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        let (from, to) = (number * 7 % ACCOUNTS, number * 13 % ACCOUNTS);
        let change = "UPDATE accounts SET balance = balance + ?1 WHERE id = ?2";
        transaction.execute(change, (-10, from))?;
        transaction.execute(
            "INSERT INTO transfers VALUES (?1, randomblob(3000))",
            [number],
        )?;
        transaction.execute(change, (10, to))?;
        transaction.commit()
    };
    for number in first.. {
        if step(number).is_err() {
            return;
        }
        committed.store(number, Ordering::Release);
    }
}

/// Checks what must hold of a bank at any time, and returns the number of its last transfer.
fn audit(connection: &Connection) -> i64 {
    let one = |sql: &str| -> i64 {
        connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let whole: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(whole, "ok");
    assert_eq!(one("SELECT sum(balance) FROM accounts"), MONEY);
    let last = one("SELECT coalesce(max(id), 0) FROM transfers");
    assert_eq!(
        one("SELECT count(*) FROM transfers"),
        last,
        "numbered without gaps"
    );
    last
}

fn survives_kills(mode: &str) {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB", "--no-volume"]);
    let path = bench.path("mnt").join("bank.db");
    let mut mount = TreeMount::new(&bench);
    let connection = open(&path, mode).expect("a database");
    let tables = "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
                  CREATE TABLE transfers(id INTEGER PRIMARY KEY, filler BLOB);";
    connection.execute_batch(tables).expect("made");
    for id in 0..ACCOUNTS {
        let row = connection.execute("INSERT INTO accounts VALUES (?1, 1000)", [id]);
        row.expect("inserted");
    }
    connection.close().expect("closed");
    let committed = AtomicI64::new(0);
    for round in 0..ROUNDS {
        let mut connection = open(&path, mode).expect("a database");
        let last = audit(&connection);
        assert!(
            last >= committed.load(Ordering::Acquire),
            "transfer {last} of {committed:?}"
        );
        std::thread::scope(|scope| {
            let committed = &committed;
            scope.spawn(move || transfer_until_cut(&mut connection, last + 1, committed));
            std::thread::sleep(Duration::from_millis(200 + round * 41 % 200));
            mount.kill9();
        });
        mount = TreeMount::new(&bench);
    }
    let connection = open(&path, mode).expect("a database");
    let last = audit(&connection);
    println!("{mode}: {last} transfers in {ROUNDS} rounds");
    assert!(last >= committed.load(Ordering::Acquire));
    assert!(
        last > ROUNDS as i64,
        "{last} transfers are too few for a test"
    );
    connection.close().expect("closed");
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn a_write_ahead_log_on_the_mount_survives_kills() {
    survives_kills("WAL");
}

#[test]
fn a_rollback_journal_on_the_mount_survives_kills() {
    survives_kills("DELETE");
}
