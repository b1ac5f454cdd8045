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
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tonearm_bench::machine::{self, Surroundings, Watch};
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
    quiet_max: Duration,
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

/// Result of a sample.
#[derive(Serialize)]
pub struct Sample {
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the contender.
    pub contender: &'static str,
    /// What its commits guarantee.
    pub promise: Promise,
    /// Number of the round.
    pub round: usize,
    /// Transactions in a second over all connections.
    pub rate: f64,
    /// Median time of a transaction in us.
    pub p50_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// 99.9th percentile in us.
    pub p999_us: f64,
    /// The longest time in us.
    pub max_us: f64,
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
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

impl Sample {
    /// The line that a run prints for this sample.
    pub fn line(&self, round: usize, rounds: usize) -> String {
        let Self {
            workload,
            contender,
            rate,
            p50_us,
            p99_us,
            p999_us,
            ..
        } = self;
        let others = self.surroundings.line();
        format!(
            "round {round}/{rounds} {workload:14} {contender:20} {rate:>8.0}/s  p50 {p50_us:6.0} p99 {p99_us:6.0} \
             p99.9 {p999_us:6.0} us  {others}"
        )
    }
}

impl Bench {
    /// Creates the folder, and the store in it.
    ///
    /// # Errors
    /// When there is no space.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        // The folder is a new one, because it is removed at the end. An interrupted run may have left one.
        let dir = args.dir.join(FOLDER);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let target = Target::create(&dir, &args.common.tonearm, &args.common.log_size)?;
        Ok(Self {
            device: BlockDevice::below(&dir)?,
            rows: args.rows,
            seconds: args.common.seconds(args.seconds, 1, 4),
            quiet_max: args.common.quiet_max(),
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
        let surroundings = |sample: &Sample| sample.surroundings;
        machine::quieter(!self.quiet_max.is_zero(), surroundings, || {
            self.sample_once(workload, contender, round, background)
        })
    }

    fn sample_once(
        &self,
        workload: &Workload,
        contender: &Contender,
        round: usize,
        background: &mut dyn Background,
    ) -> anyhow::Result<Sample> {
        let names: Vec<String> = (0..workload.databases).map(load::database).collect();
        let held = self.target.hold(contender, &names)?;
        for name in &names {
            load::fill(contender, &self.dir, name, self.rows).context("filling")?;
        }
        background.begin(held.store())?;
        rustix::fs::syncfs(File::open(&self.dir)?).context("cannot sync the file system")?;
        let watch = Watch::begin(self.quiet_max);
        let counters = || self.device.as_ref().map(BlockDevice::counters).transpose();
        let (device_before, log_before) = (counters()?, held.log()?);
        let cpu_before = machine::cpu_seconds(std::process::id());
        let span = Duration::from_secs(self.seconds);
        let seed = round as u64;
        let done = load::run(workload, contender, &self.dir, self.rows, span, seed)?;
        let cpu = machine::cpu_seconds(std::process::id()) - cpu_before;
        let (device_after, log_after) = (counters()?, held.log()?);
        background.end(&done)?;
        let surroundings = watch.end();
        held.end()?;
        let each = |count: u64| count as f64 / done.transactions.max(1) as f64;
        let device = device_before.zip(device_after);
        let log = log_before.zip(log_after);
        let quantile = |share| done.latencies.value_at_quantile(share) as f64 / 1e3;
        Ok(Sample {
            workload: workload.name,
            contender: contender.name,
            promise: contender.promise(),
            round,
            rate: done.transactions as f64 / done.span.as_secs_f64(),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: done.latencies.max() as f64 / 1e3,
            cpu_us: cpu * 1e6 / done.transactions.max(1) as f64,
            device_bytes: device.map(|(a, b)| each(b.written_bytes - a.written_bytes)),
            device_flushes: device.map(|(a, b)| each(b.flushes - a.flushes)),
            log_bytes: log.map(|(a, b)| each(b.written_bytes - a.written_bytes)),
            log_flushes: log.map(|(a, b)| each(b.flushes - a.flushes)),
            surroundings,
        })
    }

    /// Measures how long the disk itself takes to write a block.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn bare(&self, round: usize) -> anyhow::Result<Bare> {
        // Writes out what earlier samples have left in the page cache.
        rustix::fs::syncfs(File::open(&self.dir)?).context("cannot sync the file system")?;
        let watch = Watch::begin(self.quiet_max);
        let bare = Bare::measure(&self.dir, round, Duration::from_secs(self.seconds));
        watch.end();
        bare
    }

    /// Removes the folder.
    pub fn clean_up(&self) {
        // A folder that cannot be removed does no harm to the next run.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
