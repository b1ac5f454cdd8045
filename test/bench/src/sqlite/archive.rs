//! What it costs SQLite that its transactions are copied to another place as they come, how many of them go with a lost
//! machine, and how long a restore takes: Tonearm's archive, and Litestream with a database in WAL mode. Each one in pairs
//! with the same load without a copy. Both copy once a second.

use crate::contender::{CONTENDERS, Contender, TONEARM_FULL, WAL_FULL};
use crate::load::{self, Done};
use crate::sample::{Background, Bench, Sample};
use crate::workload::{Transaction, WORKLOADS, Workload};
use anyhow::Context;
use rusqlite::Connection;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tonearm_archive::ArchiverOptions;
use tonearm_bench::folder::{self, bytes, files};
use tonearm_bench::report::{Column, Goal};
use tonearm_bench::rounds::in_turn;
use tonearm_bench::{machine, options, process};
use tonearm_bucket::{RealBucket, Writer};
use tonearm_store::Store;

/// Name on the command line.
pub const NAME: &str = "archive";
/// Description.
pub const TITLE: &str =
    "transactions copied to a folder, by Tonearm's archive and by Litestream; a restore from there";
/// Least ratio of the rate with Tonearm's archive to that without.
pub const TARGET: f64 = 0.9;
/// The release of Litestream that is compared.
const LITESTREAM: &str = "github.com/benbjohnson/litestream/cmd/litestream@v0.5.18";
/// How long the first copy of a database may take.
const FIRST_COPY: Duration = Duration::from_secs(60);
/// How often the first copy is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What copies transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copier {
    /// The archive of Tonearm's store.
    Tonearm,
    /// Litestream, with a database in WAL mode.
    Litestream,
}

impl Copier {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tonearm, Self::Litestream];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tonearm => "Tonearm's archive",
            Self::Litestream => "Litestream",
        }
    }

    /// What is copied.
    fn contender(self) -> &'static Contender {
        let name = match self {
            Self::Tonearm => TONEARM_FULL,
            Self::Litestream => WAL_FULL,
        };
        let found = CONTENDERS.iter().find(|contender| contender.name == name);
        found.expect("both are contenders")
    }
}

/// Workloads on one database with one connection.
pub fn loads() -> impl Iterator<Item = &'static Workload> {
    let all = WORKLOADS.iter();
    all.filter(|workload| workload.databases == 1 && workload.connections == 1)
}

/// The copiers that can be measured, of those whose contender is in `with`, or all when that is empty. Says on standard error
/// when Litestream is missing.
pub fn copiers(with: &[String], litestream: &Path) -> Vec<Copier> {
    let wanted = |copier: &Copier| options::wanted(with, copier.contender().name);
    let mut copiers: Vec<Copier> = Copier::ALL.into_iter().filter(wanted).collect();
    if copiers.contains(&Copier::Litestream) && !litestream.exists() {
        let (path, folder) = (
            litestream.display(),
            litestream.parent().unwrap_or(Path::new(".")).display(),
        );
        eprintln!(
            "{path} is missing, so Litestream is not measured; to build it: GOBIN=$PWD/{folder} CGO_ENABLED=0 go install {LITESTREAM}"
        );
        copiers.retain(|copier| *copier != Copier::Litestream);
    }
    copiers
}

/// Two samples of one round.
#[derive(Serialize)]
pub struct Pair {
    /// The program that copies.
    pub copier: Copier,
    /// Without a copy.
    pub without: Sample,
    /// With a copy.
    pub with: Sample,
    /// What the copy was.
    #[serde(flatten)]
    pub copy: Copied,
}

/// What the copy of a sample was.
#[derive(Serialize)]
pub struct Copied {
    /// Bytes that were put for each transaction.
    pub put_bytes: f64,
    /// Processor time of a copier that is a process of its own, for each transaction, in us.
    pub own_cpu_us: f64,
    /// Transactions that the copy did not have at the end of the load.
    pub lost: u64,
    /// Time of a restore of the database at the end of the load, in seconds.
    pub restore_s: f64,
}

impl Pair {
    /// Processor time of the copy for each transaction, in us.
    fn cpu_us(&self) -> f64 {
        self.with.figures.cpu_us - self.without.figures.cpu_us + self.copy.own_cpu_us
    }
}

/// The figures of a pair.
pub const COLUMNS: [Column<Pair>; 6] = [
    Column::with_goal(
        "rate by that without",
        2,
        |pair| Some(pair.with.rate / pair.without.rate),
        |pair| (pair.copier == Copier::Tonearm).then_some(Goal::AtLeast(TARGET)),
    ),
    Column::new("bytes put for a transaction", 0, |pair| {
        Some(pair.copy.put_bytes)
    }),
    Column::new("us of the processor for a transaction", 1, |pair| {
        Some(pair.cpu_us())
    }),
    Column::new("transactions lost", 0, |pair| Some(pair.copy.lost as f64)),
    Column::new("as seconds", 2, |pair| {
        Some(pair.copy.lost as f64 / pair.with.rate)
    }),
    Column::new("restore, s", 3, |pair| Some(pair.copy.restore_s)),
];

/// Takes both samples.
///
/// # Errors
/// When SQLite or the copier fails.
pub fn measure(
    bench: &Bench,
    workload: &Workload,
    copier: Copier,
    litestream: &Path,
    round: usize,
) -> anyhow::Result<Pair> {
    let contender = copier.contender();
    let mut copy = Copy {
        bench,
        copier,
        litestream,
        child: None,
        bytes_before: 0,
        cpu_before: 0.0,
        at_end: None,
    };
    let [without, with] = in_turn(round, |which| match which {
        0 => bench.sample(workload, contender, round),
        _ => bench.sample_with(workload, contender, round, &mut copy),
    })?;
    let (restore_s, found) = copy.restore(workload)?;
    let end = copy.at_end.take().context("the sample has ended")?;
    let each = |all: f64| all / end.transactions.max(1) as f64;
    Ok(Pair {
        copier,
        without,
        with,
        copy: Copied {
            put_bytes: each(end.bytes as f64),
            own_cpu_us: each(end.cpu_seconds * 1e6),
            lost: end
                .transactions
                .checked_sub(found)
                .context("a restored database has more than was written")?,
            restore_s,
        },
    })
}

/// What was there at the end of the load.
struct AtEnd {
    transactions: u64,
    bytes: u64,
    cpu_seconds: f64,
}

/// A running copy.
struct Copy<'a> {
    bench: &'a Bench,
    copier: Copier,
    litestream: &'a Path,
    child: Option<Child>,
    bytes_before: u64,
    cpu_before: f64,
    at_end: Option<AtEnd>,
}

impl Copy<'_> {
    /// Where the copy is made.
    fn folder(&self) -> PathBuf {
        self.bench.dir.join("copy")
    }

    /// What the copy had at the end of the load.
    fn left(&self) -> PathBuf {
        self.bench.dir.join("copy-left")
    }

    fn begin_tonearm(&self, store: &Store) -> anyhow::Result<()> {
        let bucket = RealBucket::open_to_write(
            &folder::url(&self.folder()),
            Writer::of_store(store.path()),
        )?;
        let options = ArchiverOptions {
            base_bytes_per_second: 0,
            ..ArchiverOptions::default()
        };
        store.start_archive(bucket, options)?;
        wait("a base", || {
            let info = store.archive()?.context("an archive")?;
            Ok(info.restorable && info.lag_commits == 0)
        })
    }

    fn begin_litestream(&mut self) -> anyhow::Result<()> {
        let child = Command::new(self.litestream)
            .args(["replicate", "-log-level", "error"])
            .arg(self.bench.dir.join(load::database(0)))
            .arg(folder::url(&self.folder()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        self.child = Some(child.context("litestream")?);
        // Its ninth level has the snapshots.
        let snapshots = self.folder().join("ltx/9");
        wait("a snapshot", || Ok(!files(&snapshots)?.is_empty()))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn cpu_seconds(&self) -> f64 {
        let child = self.child.as_ref();
        child.map_or(0.0, |child| machine::cpu_seconds(child.id()))
    }

    /// Restores the database from what the copy had at the end of the load. Returns the seconds until it is on the disk, and
    /// the transactions that it has.
    fn restore(&self, workload: &Workload) -> anyhow::Result<(f64, u64)> {
        let to = self.bench.dir.join("restored.db");
        let from = folder::url(&self.left());
        let mut command = match self.copier {
            Copier::Tonearm => {
                let mut command = Command::new(&self.bench.tonearm);
                command.args(["restore", &from]).arg(&to);
                command.args(["--only", &load::database(0)]);
                command
            }
            Copier::Litestream => {
                let mut command = Command::new(self.litestream);
                command.args(["restore", "-o"]).arg(&to).arg(&from);
                command
            }
        };
        let began = Instant::now();
        process::run(&mut command)?;
        File::open(&to)?.sync_all()?;
        let seconds = began.elapsed().as_secs_f64();
        let found = self.transactions_in(&to, workload)?;
        for path in [to, self.left(), self.folder()] {
            folder::remove(&path)?;
        }
        Ok((seconds, found))
    }

    /// Transactions of the load in a database, which must be whole.
    fn transactions_in(&self, path: &Path, workload: &Workload) -> anyhow::Result<u64> {
        let database = Connection::open(path)?;
        let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        anyhow::ensure!(whole == "ok", "the restored database: {whole}");
        let (rows, changes): (i64, i64) =
            database.query_row("SELECT count(*), sum(n) FROM t", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        Ok(match workload.transaction {
            Transaction::Insert => rows as u64 - self.bench.rows,
            Transaction::Update(each) => changes as u64 / each,
        })
    }
}

impl Background for Copy<'_> {
    fn begin(&mut self, store: Option<&Store>) -> anyhow::Result<()> {
        for path in [self.folder(), self.left()] {
            folder::remove(&path)?;
        }
        match store {
            Some(store) => self.begin_tonearm(store)?,
            None => self.begin_litestream()?,
        }
        self.bytes_before = bytes(&self.folder())?;
        self.cpu_before = self.cpu_seconds();
        Ok(())
    }

    /// Keeps what the copy has now: the machine is lost.
    fn end(&mut self, done: &Done) -> anyhow::Result<()> {
        let to = self.left();
        // A file had another name while it was written.
        folder::copy(&self.folder(), &to, |from, to| fs::hard_link(from, to))?;
        self.at_end = Some(AtEnd {
            transactions: done.transactions,
            bytes: bytes(&to)?.saturating_sub(self.bytes_before),
            cpu_seconds: self.cpu_seconds() - self.cpu_before,
        });
        self.kill();
        Ok(())
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(what: &str, mut is_there: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_there()? {
        anyhow::ensure!(
            began.elapsed() < FIRST_COPY,
            "no {what} after {FIRST_COPY:?}"
        );
        std::thread::sleep(LOOK);
    }
    Ok(())
}
