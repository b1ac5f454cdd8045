//! Measures what an archive in a folder costs, in pairs with the same load without one, and how fast it restores compared with a
//! plain copy.

use crate::recorder::workload;
use crate::sample::{Bench, Sample};
use crate::server::{Kind, Server};
use crate::traffic::{Rates, Traffic};
use crate::workload::Workload;
use anyhow::{Context, bail};
use rustix::fs::Advice;
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tonearm_bench::folder::{bytes, files};

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

impl Pair {
    /// Rate with an archive by that without.
    pub fn ratio(&self) -> f64 {
        self.with.rate / self.without.rate
    }

    /// Rate with the traffic of an archive by that without.
    pub fn traffic_ratio(&self) -> f64 {
        self.with_traffic.rate / self.without.rate
    }

    /// MiB that are archived for each second of processor time: of what the server used more for each request than without
    /// an archive. None when nothing was archived or it did not use more.
    pub fn mib_per_cpu_second(&self) -> Option<f64> {
        let seconds = (self.with.cpu_us - self.without.cpu_us) * 1e-6 * self.with.requests as f64;
        (seconds > 0.0 && self.archived_mib > 0.0).then(|| self.archived_mib / seconds)
    }

    /// The lines that a run prints for this pair.
    pub fn lines(&self, round: usize, rounds: usize) -> String {
        format!(
            "{}\n{}\n{}\n{NAME} {}: {:.3}, with its traffic {:.3}, {:.1} MiB archived ({:.1} MiB put), {} MiB per CPU second, lag of {} commits, {} gaps",
            self.without.line(round, rounds),
            self.with.line(round, rounds),
            self.with_traffic.line(round, rounds),
            self.with.workload,
            self.ratio(),
            self.traffic_ratio(),
            self.archived_mib,
            self.put_mib,
            self.mib_per_cpu_second()
                .map_or("-".into(), |mib| format!("{mib:.0}")),
            self.lag_commits,
            self.gaps
        )
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

impl Restore {
    /// Rate of the restore by that of the copy.
    pub fn ratio(&self) -> f64 {
        self.copy_s / self.restore_s
    }

    /// The line that a run prints for this restore.
    pub fn line(&self, round: usize, rounds: usize) -> String {
        format!(
            "round {round}/{rounds} restore of {:.0} MiB: {:.2} s, copy of its objects {:.2} s",
            self.mib, self.restore_s, self.copy_s
        )
    }
}

/// Takes both samples.
///
/// # Errors
/// When the server, the load or the archive fails.
pub fn measure(bench: &Bench, name: &str, round: usize) -> anyhow::Result<Pair> {
    let workload: &Workload = workload(name)?;
    let statuses = RefCell::new(None);
    let (without, with) = bench.pair(workload, round, || Archived::start(bench, &statuses))?;
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

fn url(bench: &Bench) -> String {
    format!("file://{}", folder(bench).display())
}

fn tonearm(bench: &Bench, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let done = Command::new(&bench.tonearm)
        .args(arguments)
        .stderr(Stdio::piped())
        .output()?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        bail!("tonearm {}: {}", arguments[0], text.trim());
    }
    Ok(done.stdout)
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
        bench.sync()?;
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
    if folder(bench).exists() {
        fs::remove_dir_all(folder(bench))?;
    }
    let store = bench.target(Kind::Tonearm);
    let store = store.to_str().context("a path")?;
    let address = url(bench);
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

/// Restores the store, and copies the objects, each from a cold cache; which one comes first changes from round to round.
///
/// # Errors
/// When the archive cannot be made, restored or copied.
pub fn measure_restore(bench: &Bench, round: usize) -> anyhow::Result<Restore> {
    let server = Server::start(bench, Kind::Tonearm, &bench.target(Kind::Tonearm), &[])?;
    archive(bench)?;
    server.stop()?;
    let (mut restore_s, mut copy_s) = (0.0, 0.0);
    for turn in 0..2 {
        bench.sync()?;
        make_cold(&folder(bench))?;
        let began = Instant::now();
        let is_restore = (turn + round).is_multiple_of(2);
        match is_restore {
            true => {
                let to = bench.dir.join("restored.tn");
                let size = ["--log-size", &bench.log_size];
                let to_text = to.to_str().context("a path")?;
                tonearm(
                    bench,
                    &[&["restore", &url(bench), to_text], &size[..]].concat(),
                )?;
                bench.sync()?;
                restore_s = began.elapsed().as_secs_f64();
                fs::remove_file(to)?;
            }
            false => {
                let to = bench.dir.join("archive.copy");
                copy(&folder(bench), &to)?;
                bench.sync()?;
                copy_s = began.elapsed().as_secs_f64();
                fs::remove_dir_all(to)?;
            }
        }
    }
    let bytes = bytes(&folder(bench))?;
    fs::remove_dir_all(folder(bench))?;
    Ok(Restore {
        restore_s,
        copy_s,
        mib: bytes as f64 / (1 << 20) as f64,
    })
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for path in files(from)? {
        let target = to.join(path.strip_prefix(from)?);
        fs::create_dir_all(target.parent().context("a folder")?)?;
        fs::copy(&path, target)?;
    }
    Ok(())
}

/// Drops the files from the page cache.
fn make_cold(folder: &Path) -> anyhow::Result<()> {
    for path in files(folder)? {
        rustix::fs::fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
