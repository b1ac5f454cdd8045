//! One sample: a contender, a workload, and what the disk and the machine did meanwhile.

use crate::Args;
use crate::bare::Bare;
use crate::contender::{Contender, Promise};
use crate::disk_io::BlockDevice;
use crate::load;
use crate::target::Target;
use crate::workload::Workload;
use anyhow::Context;
use serde::Serialize;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tonearm_bench::machine::{self, Surroundings, Watch};

/// Where everything is made, in the folder that was asked for.
const FOLDER: &str = "tonearm-bench-sqlite.tmp";

/// How a run is made.
pub struct Bench {
    dir: PathBuf,
    device: Option<BlockDevice>,
    rows: u64,
    seconds: u64,
    quiet_max: Duration,
    target: Target,
}

/// What was measured.
#[derive(Serialize)]
pub struct Sample {
    /// Name of the workload.
    pub workload: &'static str,
    /// Name of the contender.
    pub contender: &'static str,
    /// What its commits promise.
    pub promise: Promise,
    /// Number of the round.
    pub round: usize,
    /// Transactions in a second, of all connections.
    pub rate: f64,
    /// Their times in us.
    pub p50_us: f64,
    /// The time that one of 100 exceeds.
    pub p99_us: f64,
    /// The time that one of 1,000 exceeds.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Processor time of the whole process for each transaction.
    pub cpu_us: f64,
    /// What the block device has written for each transaction, whoever asked for it.
    pub device_bytes: Option<f64>,
    /// How often its cache was flushed for each transaction.
    pub device_flushes: Option<f64>,
    /// What Tonearm's log has written for each transaction, by its own account.
    pub log_bytes: Option<f64>,
    /// How often it was flushed.
    pub log_flushes: Option<f64>,
    /// What else the machine did.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

impl Sample {
    /// For the log of a run.
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
    /// Makes the folder, and the store in it.
    ///
    /// # Errors
    /// When there is no space.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        // Of its own, since it is removed in the end; there may be one of a run that was cut short.
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
            target,
            dir,
        })
    }

    /// Takes one sample; once more when the machine was not quiet meanwhile.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn sample(
        &self,
        workload: &Workload,
        contender: &Contender,
        round: usize,
    ) -> anyhow::Result<Sample> {
        let surroundings = |sample: &Sample| sample.surroundings;
        machine::quieter(!self.quiet_max.is_zero(), surroundings, || {
            self.sample_once(workload, contender, round)
        })
    }

    fn sample_once(
        &self,
        workload: &Workload,
        contender: &Contender,
        round: usize,
    ) -> anyhow::Result<Sample> {
        let names: Vec<String> = (0..workload.databases).map(load::database).collect();
        let held = self.target.hold(contender, &names)?;
        for name in &names {
            load::fill(contender, &self.dir, name, self.rows).context("filling")?;
        }
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

    /// What the disk itself takes for a block.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn bare(&self, round: usize) -> anyhow::Result<Bare> {
        // What earlier samples have left in the page cache.
        rustix::fs::syncfs(File::open(&self.dir)?).context("cannot sync the file system")?;
        let watch = Watch::begin(self.quiet_max);
        let bare = Bare::measure(&self.dir, round, Duration::from_secs(self.seconds));
        watch.end();
        bare
    }

    /// Removes what was made.
    pub fn clean_up(&self) {
        // What is left over is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
