//! The load: tables of rows, and threads that each run transactions in a loop.

use crate::contender::Contender;
use crate::workload::{Transaction, Workload};
use anyhow::Context;
use hdrhistogram::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use tonearm_bench::Quantiles;

/// Bytes of a row's text. With its key and header a row has about 200 bytes.
const TEXT_BYTES: u64 = 190;

/// Name of database `index`.
pub fn database(index: usize) -> String {
    format!("bench-{index}.db")
}

/// Creates a database of `rows` rows and writes it out.
///
/// # Errors
/// The errors of SQLite.
pub fn fill(contender: &Contender, dir: &Path, name: &str, rows: u64) -> anyhow::Result<()> {
    let connection = contender.connect(dir, name)?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS t; CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, text TEXT)",
    )?;
    let half = TEXT_BYTES / 2;
    connection.execute(
        &format!(
            "WITH RECURSIVE i(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM i WHERE id < {rows})
             INSERT INTO t SELECT id, 0, hex(randomblob({half})) FROM i"
        ),
        [],
    )?;
    // Outside of WAL mode this has no effect.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Result of the threads' work.
pub struct Done {
    /// Number of transactions.
    pub transactions: u64,
    /// Time from the start of the first transaction to the end of the last.
    pub span: Duration,
    /// Times of transactions in nanoseconds.
    pub latencies: Histogram<u64>,
}

/// Runs `workload` for `span` on databases that are filled.
///
/// # Errors
/// The errors of SQLite.
pub fn run(
    workload: &Workload,
    contender: &Contender,
    dir: &Path,
    rows: u64,
    span: Duration,
    seed: u64,
) -> anyhow::Result<Done> {
    let connections = workload.connections;
    let ready = Barrier::new(connections);
    let began = Instant::now();
    let results: Vec<anyhow::Result<Done>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|index| {
                let ready = &ready;
                let name = database(index % workload.databases);
                scope.spawn(move || {
                    let session = Session::open(contender, dir, &name, rows);
                    // A thread whose session failed must pass the barrier too, because the others wait for it.
                    ready.wait();
                    session?.repeat(workload.transaction, span, seed * 64 + index as u64)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|end| end.unwrap_or_else(|_| Err(anyhow::anyhow!("a client panicked"))))
            .collect()
    });
    let mut all = Done {
        transactions: 0,
        span: Duration::ZERO,
        latencies: Quantiles::histogram(),
    };
    for done in results {
        let done = done?;
        all.transactions += done.transactions;
        all.span = all.span.max(done.span);
        all.latencies.add(&done.latencies).context("latencies")?;
    }
    anyhow::ensure!(
        all.span <= began.elapsed(),
        "no thread ran for longer than the whole load"
    );
    Ok(all)
}

struct Session {
    connection: Connection,
    rows: u64,
}

impl Session {
    fn open(contender: &Contender, dir: &Path, name: &str, rows: u64) -> anyhow::Result<Self> {
        let connection = contender.connect(dir, name)?;
        // The cache holds every page of 100,000 rows, so that the load measures commits and not reads.
        connection.pragma_update(None, "cache_size", -65_536)?;
        let sum: i64 =
            connection.query_row("SELECT count(*) FROM t WHERE n >= 0", [], |row| row.get(0))?;
        anyhow::ensure!(sum >= rows as i64, "the table is filled");
        Ok(Self { connection, rows })
    }

    fn any_row(&self, random: &mut ChaCha8Rng) -> i64 {
        (1 + random.next_u64() % self.rows) as i64
    }

    fn repeat(&self, kind: Transaction, span: Duration, seed: u64) -> anyhow::Result<Done> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut latencies = Quantiles::histogram();
        let (mut begin, mut commit) = (
            self.connection.prepare("BEGIN IMMEDIATE")?,
            self.connection.prepare("COMMIT")?,
        );
        let mut insert = self
            .connection
            .prepare("INSERT INTO t(n, text) VALUES(?1, ?2)")?;
        let mut update = self
            .connection
            .prepare("UPDATE t SET n = n + 1 WHERE id = ?1")?;
        let text = "x".repeat(TEXT_BYTES as usize);
        let began = Instant::now();
        let mut transactions = 0;
        while began.elapsed() < span {
            let start = Instant::now();
            match kind {
                Transaction::Insert => {
                    insert.execute((0, &text))?;
                }
                Transaction::Update(1) => {
                    update.execute([self.any_row(&mut random)])?;
                }
                Transaction::Update(count) => {
                    begin.execute([])?;
                    for _ in 0..count {
                        update.execute([self.any_row(&mut random)])?;
                    }
                    commit.execute([])?;
                }
            }
            latencies.saturating_record(start.elapsed().as_nanos() as u64);
            transactions += 1;
        }
        Ok(Done {
            transactions,
            span: began.elapsed(),
            latencies,
        })
    }
}
