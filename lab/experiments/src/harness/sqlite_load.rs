//! Transactions of SQLite in virtual time: a table of rows of about 200 bytes, one connection.

use crate::experiment::Random;
use rusqlite::{Connection, Result};
use tonearm_base::Nanos;

/// The statements of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transaction {
    /// Inserts one row at the end.
    Insert,
    /// Changes so many rows at random.
    Update(u64),
}

/// The cost since some start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// Time of the drive. SQLite's processor time is not counted.
    pub time: Nanos,
    /// Bytes written.
    pub bytes: u64,
    /// Flushes of what is durable after them.
    pub flushes: u64,
}

/// A connection, and what its transactions cost.
pub struct Session {
    /// To an empty database, its pragmas set.
    pub connection: Connection,
    /// The cost so far.
    pub spent: Box<dyn Fn() -> Spent>,
}

/// Bytes of a row's text.
const TEXT_BYTES: usize = 190;

impl Session {
    /// The cost of `count` transactions on a table of `rows` rows.
    ///
    /// # Errors
    /// The error of SQLite.
    pub fn run(
        &self,
        transaction: Transaction,
        rows: u64,
        count: u64,
        mut random: Random,
    ) -> Result<Spent> {
        self.fill(rows)?;
        let connection = &self.connection;
        let text = "x".repeat(TEXT_BYTES);
        let mut insert = connection.prepare("INSERT INTO t(n, text) VALUES(0, ?1)")?;
        let mut update = connection.prepare("UPDATE t SET n = n + 1 WHERE id = ?1")?;
        let before = (self.spent)();
        for _ in 0..count {
            match transaction {
                Transaction::Insert => {
                    insert.execute([&text])?;
                }
                Transaction::Update(changes) => {
                    connection.execute_batch("BEGIN IMMEDIATE")?;
                    for _ in 0..changes {
                        update.execute([1 + random.below(rows) as i64])?;
                    }
                    connection.execute_batch("COMMIT")?;
                }
            }
        }
        let after = (self.spent)();
        let sum = match transaction {
            Transaction::Insert => "SELECT count(*) FROM t",
            Transaction::Update(_) => "SELECT sum(n) FROM t",
        };
        let sum: i64 = connection.query_row(sum, [], |row| row.get(0))?;
        let expected = match transaction {
            Transaction::Insert => rows + count,
            Transaction::Update(changes) => count * changes,
        };
        assert_eq!(
            sum, expected as i64,
            "every transaction has been carried out"
        );
        Ok(Spent {
            time: Nanos(after.time.0 - before.time.0),
            bytes: after.bytes - before.bytes,
            flushes: after.flushes - before.flushes,
        })
    }

    fn fill(&self, rows: u64) -> Result<()> {
        // All pages in memory, so that no read waits for the drive.
        self.connection.pragma_update(None, "cache_size", -65_536)?;
        self.connection.execute_batch(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, text TEXT);
             WITH RECURSIVE i(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM i WHERE id < {rows})
             INSERT INTO t SELECT id, 0, printf('%0{TEXT_BYTES}d', id) FROM i;"
        ))
    }
}
