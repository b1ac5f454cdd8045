//! One sample: a contender under a workload, and what the disk and other programs did meanwhile.

use crate::Args;
use crate::bare::Bare;
use crate::contender::{Contender, Promise};
use crate::disk_io::BlockDevice;
use crate::load::{self, Done};
use crate::target::Target;
use crate::workload::Workload;
use anyhow::Context;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use tonearm_bench::machine::{self, Surroundings};
use tonearm_bench::rounds::{self, Rounds};
use tonearm_bench::{Quantiles, folder};
use tonearm_store::Store;

/// Name of the folder that the benchmark creates for its files.
const FOLDER: &str = "tonearm-bench-sqlite.tmp";

/// Settings of a run.
pub struct Bench {
    /// The folder of the databases and of the store.
    pub dir: PathBuf,
    device: Option<BlockDevice>,
    /// Rows of a table before a sample.
    pub rows: u64,
    /// The program.
    pub tonearm: PathBuf,
    seconds: u64,
    /// The rounds.
    pub rounds: Rounds,
    target: Target,
}

/// What runs in the background during the load of a sample.
pub trait Background {
    /// Begins, when the databases are filled. `store` is that of Tonearm's contenders.
    ///
    /// # Errors
    /// When it cannot begin.
    fn begin(&mut self, store: Option<&Store>) -> anyhow::Result<()>;

    /// The load has ended just now.
    ///
    /// # Errors
    /// When it has failed.
    fn end(&mut self, done: &Done) -> anyhow::Result<()>;
}

/// Nothing.
impl Background for () {
    fn begin(&mut self, _store: Option<&Store>) -> anyhow::Result<()> {
        Ok(())
    }

    fn end(&mut self, _done: &Done) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Result of a sample; a rate is in transactions a second over all connections.
pub type Sample = rounds::Sample<Figures>;

/// What is measured besides the rate.
#[derive(Serialize)]
pub struct Figures {
    /// What the contender's commits guarantee.
    pub promise: Promise,
    /// Times of transactions.
    #[serde(flatten)]
    pub times: Quantiles,
    /// Processor time of the whole process for each transaction, in us.
    pub cpu_us: f64,
    /// Bytes that the block device has written for each transaction, for all programs.
    pub device_bytes: Option<f64>,
    /// Flushes of the block device's cache for each transaction.
    pub device_flushes: Option<f64>,
    /// Bytes that Tonearm's log has written for each transaction, as the store reports them.
    pub log_bytes: Option<f64>,
    /// Flushes and FUA writes of the log for each transaction.
    pub log_flushes: Option<f64>,
}

impl rounds::Figures for Figures {
    fn line(&self, rate: f64) -> String {
        format!("{rate:>8.0}/s  {}", self.times.line())
    }
}

impl Bench {
    /// Creates the folder, and the store in it.
    ///
    /// # Errors
    /// When there is no space.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        let dir = folder::make_new(&args.dir, FOLDER)?;
        let target = Target::create(&dir, &args.common.tonearm, &args.common.log_size)?;
        Ok(Self {
            device: BlockDevice::below(&dir)?,
            rows: args.rows,
            seconds: args.common.seconds(args.seconds, 1, 4),
            rounds: args.common.rounds(),
            tonearm: args.common.tonearm.clone(),
            target,
            dir,
        })
    }

    /// Takes a sample, and takes it once more if the machine was not quiet meanwhile.
    ///
    /// # Errors
    /// The errors of SQLite.
    pub fn sample(
        &self,
        workload: &Workload,
        contender: &Contender,
        round: usize,
    ) -> anyhow::Result<Sample> {
        self.sample_with(workload, contender, round, &mut ())
    }

    /// Takes a sample as [`Bench::sample`] does, with something in the background.
    ///
    /// # Errors
    /// The errors of SQLite and of `background`.
    pub fn sample_with(
        &self,
        workload: &Workload,
        contender: &Contender,
        round: usize,
        background: &mut dyn Background,
    ) -> anyhow::Result<Sample> {
        self.rounds
            .sample((workload.name, contender.name), round, true, || {
                self.sample_once(workload, contender, round as u64, background)
            })
    }

    fn sample_once(
        &self,
        workload: &Workload,
        contender: &Contender,
        seed: u64,
        background: &mut dyn Background,
    ) -> anyhow::Result<(f64, Figures, Surroundings)> {
        let names: Vec<String> = (0..workload.databases).map(load::database).collect();
        let held = self.target.hold(contender, &names)?;
        for name in &names {
            load::fill(contender, &self.dir, name, self.rows).context("filling")?;
        }
        background.begin(held.store())?;
        folder::sync(&self.dir)?;
        let watch = self.rounds.watch();
        let counters = || self.device.as_ref().map(BlockDevice::counters).transpose();
        let (device_before, log_before) = (counters()?, held.log()?);
        let cpu_before = machine::cpu_seconds(std::process::id());
        let span = Duration::from_secs(self.seconds);
        let done = load::run(workload, contender, &self.dir, self.rows, span, seed)?;
        let cpu = machine::cpu_seconds(std::process::id()) - cpu_before;
        let (device_after, log_after) = (counters()?, held.log()?);
        background.end(&done)?;
        let surroundings = watch.end();
        held.end()?;
        let each = |count: u64| count as f64 / done.transactions.max(1) as f64;
        let device = device_before.zip(device_after);
        let log = log_before.zip(log_after);
        let figures = Figures {
            promise: contender.promise(),
            times: Quantiles::of(&done.latencies),
            cpu_us: cpu * 1e6 / done.transactions.max(1) as f64,
            device_bytes: device.map(|(a, b)| each(b.written_bytes - a.written_bytes)),
            device_flushes: device.map(|(a, b)| each(b.flushes - a.flushes)),
            log_bytes: log.map(|(a, b)| each(b.written_bytes - a.written_bytes)),
            log_flushes: log.map(|(a, b)| each(b.flushes - a.flushes)),
        };
        let rate = done.transactions as f64 / done.span.as_secs_f64();
        Ok((rate, figures, surroundings))
    }

    /// Measures how long the disk itself takes to write a block.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn bare(&self, round: usize) -> anyhow::Result<Bare> {
        folder::sync(&self.dir)?;
        let watch = self.rounds.watch();
        let bare = Bare::measure(&self.dir, round, Duration::from_secs(self.seconds))?;
        watch.end();
        let line = format!("bare writes of 4 KiB  {}", bare.times.line());
        self.rounds.print(round, &line);
        Ok(bare)
    }

    /// Removes the folder.
    pub fn clean_up(&self) {
        // A folder that cannot be removed does no harm to the next run.
        let _ = folder::remove(&self.dir);
    }
}
