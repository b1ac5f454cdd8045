//! Measures what an archive in a folder costs, in pairs with the same load without one, and how fast it restores compared with a
//! plain copy.

use crate::sample::{Bench, Sample};
use crate::server::{Kind, Server};
use crate::traffic::{Rates, Traffic};
use crate::workload::Workload;
use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tonearm_bench::folder::{self, bytes, files};
use tonearm_bench::process;
use tonearm_bench::report::{Column, Goal};
use tonearm_bench::rounds::in_turn;

/// Name on the command line.
pub const NAME: &str = "archive";
/// Description.
pub const TITLE: &str = "rate with an archive in a folder, by that without";
/// Workloads that are compared.
pub const LOADS: [&str; 3] = ["flush-1", "flush-8", "write-32"];
/// Least ratio of durable writes.
pub const TARGET: f64 = 0.9;
/// Least MiB of changes that are archived for each second of processor time.
pub const TARGET_MIB: f64 = 200.0;
/// Least rate of a restore by that of a copy.
pub const TARGET_RESTORE: f64 = 0.8;
/// How long a base may take.
const BASE_TIMEOUT: Duration = Duration::from_secs(120);

/// Two samples of one round.
#[derive(Serialize)]
pub struct Pair {
    /// Without an archive.
    pub without: Sample,
    /// With one, whose base is complete.
    pub with: Sample,
    /// Without one, together with a program that reads and writes as many bytes.
    pub with_traffic: Sample,
    /// MiB of changes that were archived during the sample.
    pub archived_mib: f64,
    /// MiB of objects that were put meanwhile.
    pub put_mib: f64,
    /// Durable commits that were not archived yet at the end of the sample.
    pub lag_commits: u64,
    /// Times that the log has overtaken the archive.
    pub gaps: u64,
}

/// The figures of a pair.
pub const COLUMNS: [Column<Pair>; 7] = [
    Column::with_goal(
        "ratio",
        3,
        |pair| Some(pair.with.rate / pair.without.rate),
        |pair| {
            let is_durable = pair.with.workload.starts_with("flush");
            is_durable.then_some(Goal::AtLeast(TARGET))
        },
    ),
    Column::new("with its reads and writes alone", 3, |pair| {
        Some(pair.with_traffic.rate / pair.without.rate)
    }),
    Column::new("MiB archived", 1, |pair| Some(pair.archived_mib)),
    Column::new("MiB put", 1, |pair| Some(pair.put_mib)),
    Column::new("MiB per CPU second", 0, Pair::mib_per_cpu_second),
    Column::new("lag in commits", 0, |pair| Some(pair.lag_commits as f64)),
    Column::new("gaps", 0, |pair| Some(pair.gaps as f64)),
];

impl Pair {
    /// MiB that are archived for each second of processor time: of what the server used more for each request than without
    /// an archive. None when nothing was archived or it did not use more.
    fn mib_per_cpu_second(&self) -> Option<f64> {
        let (with, without) = (&self.with.figures, &self.without.figures);
        let seconds = (with.cpu_us - without.cpu_us) * 1e-6 * with.requests as f64;
        (seconds > 0.0 && self.archived_mib > 0.0).then(|| self.archived_mib / seconds)
    }
}

/// A restore of the whole store, and a copy of the archive's files.
#[derive(Serialize)]
pub struct Restore {
    /// Time of `tonearm restore` until its file is on the disk, in seconds.
    pub restore_s: f64,
    /// Time of a copy of the archive until it is on the disk, in seconds.
    pub copy_s: f64,
    /// MiB of the archive's objects.
    pub mib: f64,
}

/// The figures of a restore.
pub const RESTORE: [Column<Restore>; 4] = [
    Column::new("MiB/s", 0, |it| Some(it.mib / it.restore_s)),
    Column::with_goal(
        "by the rate of a copy of the objects",
        2,
        |it| Some(it.copy_s / it.restore_s),
        |_| Some(Goal::AtLeast(TARGET_RESTORE)),
    ),
    Column::new("restore, s", 2, |it| Some(it.restore_s)),
    Column::new("copy, s", 2, |it| Some(it.copy_s)),
];

/// Takes both samples.
///
/// # Errors
/// When the server, the load or the archive fails.
pub fn measure(bench: &Bench, name: &str, round: usize) -> anyhow::Result<Pair> {
    let workload = Workload::named(name);
    let statuses = RefCell::new(None);
    let [without, with] = bench.pair(workload, round, || Archived::start(bench, &statuses))?;
    let statuses = statuses.into_inner().context("the archive's status")?;
    let (before, after): (Value, Value) = statuses;
    if after["state"] != "running" {
        bail!("the archive does not run: {after}");
    }
    let more = |name: &str| -> anyhow::Result<f64> {
        Ok((number(&after, name)? - number(&before, name)?) as f64 / (1 << 20) as f64)
    };
    let (archived_mib, put_mib) = (more("raw_bytes")?, more("stored_bytes")?);
    let each_second = |mib: f64| (mib * f64::from(1 << 20)) as u64 / bench.seconds;
    let rates = Rates {
        read: each_second(archived_mib),
        written: each_second(put_mib),
    };
    let with_traffic = bench.sample_with(workload, Kind::Tonearm, round, || {
        Traffic::start(bench, rates)
    })?;
    Ok(Pair {
        with_traffic,
        archived_mib,
        put_mib,
        lag_commits: number(&after, "lag_commits")?,
        gaps: number(&after, "gaps")?,
        without,
        with,
    })
}

fn number(status: &Value, name: &str) -> anyhow::Result<u64> {
    let number = status[name].as_u64();
    number.with_context(|| format!("no {name} in tonearm archive status"))
}

fn folder(bench: &Bench) -> PathBuf {
    bench.archive_dir.join("tonearm-bench-archive")
}

fn tonearm(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    process::run(Command::new(&bench.tonearm).args(arguments))
}

fn status(bench: &Bench) -> anyhow::Result<Value> {
    let store = bench.target(Kind::Tonearm);
    let store = store.to_str().context("a path")?;
    let text = tonearm(bench, &["archive", "status", store, "--json"])?;
    serde_json::from_slice(&text).context("tonearm archive status --json")
}

/// Status of an archive at the begin and at the end of a sample.
type Statuses = RefCell<Option<(Value, Value)>>;

/// An archive of the served store, with a complete base, that ends when it is dropped.
struct Archived<'a> {
    bench: &'a Bench,
    before: Value,
    statuses: &'a Statuses,
}

impl<'a> Archived<'a> {
    fn start(bench: &'a Bench, statuses: &'a Statuses) -> anyhow::Result<Self> {
        let before = archive(bench)?;
        // The base is written to the same disk.
        folder::sync(&bench.dir)?;
        Ok(Self {
            bench,
            before,
            statuses,
        })
    }
}

impl Drop for Archived<'_> {
    fn drop(&mut self) {
        // Without a status the pair is an error.
        if let Ok(after) = status(self.bench) {
            *self.statuses.borrow_mut() = Some((self.before.clone(), after));
        }
        let store = self.bench.target(Kind::Tonearm);
        let stopped = tonearm(
            self.bench,
            &["archive", "stop", store.to_str().unwrap_or_default()],
        );
        if let Err(error) = stopped {
            eprintln!("{error}");
        }
    }
}

/// Starts a new archive of the served store, and waits until its base is complete and all commits are archived.
fn archive(bench: &Bench) -> anyhow::Result<Value> {
    folder::remove(&folder(bench))?;
    let store = bench.target(Kind::Tonearm);
    let store = store.to_str().context("a path")?;
    let address = folder::url(&folder(bench));
    let start = ["archive", "start", store, &address];
    tonearm(
        bench,
        &[&start[..], &["--archive-base-rate", "4GiB"]].concat(),
    )?;
    let began = Instant::now();
    loop {
        let status = status(bench)?;
        if status["restorable"] == true && status["lag_commits"] == 0 {
            return Ok(status);
        }
        if status["state"] == "ended" || began.elapsed() > BASE_TIMEOUT {
            bail!("no base is complete: {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Restores the store, and copies the objects, each from a cold cache. Which one comes first changes from round to round.
///
/// # Errors
/// When the archive cannot be made, restored or copied.
pub fn measure_restore(bench: &Bench, round: usize) -> anyhow::Result<Restore> {
    let server = Server::start(bench, Kind::Tonearm, &bench.target(Kind::Tonearm), &[])?;
    archive(bench)?;
    server.stop()?;
    let archive = folder(bench);
    let to = bench.dir.join("restored");
    let to_text = to.to_str().context("a path")?;
    let [restore_s, copy_s] = in_turn(round, |which| {
        folder::sync(&bench.dir)?;
        for path in files(&archive)? {
            folder::make_cold(&path)?;
        }
        let began = Instant::now();
        if which == 0 {
            let restore = ["restore", &folder::url(&archive), to_text];
            tonearm(
                bench,
                &[&restore[..], &["--log-size", &bench.log_size]].concat(),
            )?;
        } else {
            folder::copy(&archive, &to, |from, to| fs::copy(from, to))?;
        }
        folder::sync(&bench.dir)?;
        let seconds = began.elapsed().as_secs_f64();
        folder::remove(&to)?;
        Ok(seconds)
    })?;
    let mib = bytes(&archive)? as f64 / (1 << 20) as f64;
    folder::remove(&archive)?;
    Ok(Restore {
        restore_s,
        copy_s,
        mib,
    })
}
