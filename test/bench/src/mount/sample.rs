//! One sample: a workload on a file system, and what other programs did meanwhile.

use crate::Args;
use crate::contender::{Kind, Mounted};
use crate::ext4::Ext4;
use crate::load::{Amount, Prepared};
use crate::workload::Workload;
use anyhow::{Context, bail};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tonearm_bench::machine::{self, Surroundings, Watch};

/// Name of the folder that the benchmark makes for its files.
const FOLDER: &str = "tonearm-bench-mount.tmp";

/// Settings of a run.
pub struct Bench {
    /// The folder of all files.
    pub dir: PathBuf,
    /// The program.
    pub tonearm: PathBuf,
    /// The peer, below which the other peer is.
    pub ext4: Ext4,
    amount: Amount,
    quiet_max: Duration,
}

/// Result of a sample.
#[derive(Serialize)]
pub struct Sample {
    /// Name of the workload.
    pub workload: &'static str,
    /// The file system.
    pub contender: Kind,
    /// Number of the round.
    pub round: usize,
    /// In a second, in the unit of the workload.
    pub rate: f64,
    /// Processor time of the server for each unit, in us. ext4 has no server.
    pub cpu_us: Option<f64>,
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

impl Sample {
    /// The line that a run prints for this sample.
    pub fn line(&self, workload: &Workload, round: usize, rounds: usize) -> String {
        let Self {
            contender, rate, ..
        } = self;
        let cpu = self
            .cpu_us
            .map_or(String::new(), |cpu| format!("{cpu:.1} us of its server"));
        format!(
            "round {round}/{rounds} {:12} {:12} {rate:>8.0} {:9} {cpu:24} {}",
            workload.name,
            contender.name(),
            workload.unit,
            self.surroundings.line()
        )
    }
}

impl Bench {
    /// Makes the folder, and store and ext4 in it.
    ///
    /// # Errors
    /// When there is no space, or a program is missing.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        let common = &args.common;
        // The folder is a new one, because it is removed at the end. An interrupted run may have left one.
        let dir = args.dir.join(FOLDER);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        std::fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let tonearm = &common.tonearm;
        let tonearm = tonearm.canonicalize().with_context(|| {
            let path = tonearm.display();
            format!("{path} is missing: cargo build --release -p tonearm")
        })?;
        let ext4 = Ext4::new(&dir, args.mib)?;
        let quick = |asked: Option<u64>, quick, full| common.seconds(asked, quick, full);
        let bench = Self {
            amount: Amount {
                span: Duration::from_secs(quick(args.seconds, 1, 5)),
                files: quick(args.files, 5_000, 50_000),
                sequential_mib: quick(args.sequential_mib, 128, 1024),
            },
            quiet_max: common.quiet_max(),
            tonearm,
            ext4,
            dir,
        };
        let made = Command::new(&bench.tonearm)
            .arg("create")
            .arg(bench.store())
            .args(["--size", &format!("{}MiB", args.mib)])
            .args(["--log-size", &common.log_size])
            .args(["--no-volume", "--preallocate"])
            .output()?;
        if !made.status.success() {
            bail!("tonearm: {}", String::from_utf8_lossy(&made.stderr).trim());
        }
        Ok(bench)
    }

    /// Tonearm's store.
    pub fn store(&self) -> PathBuf {
        self.dir.join("bench.tn")
    }

    /// Takes a sample, and takes it once more if the machine was not quiet meanwhile.
    ///
    /// # Errors
    /// Those of the file systems.
    pub fn sample(
        &self,
        workload: &'static Workload,
        kind: Kind,
        round: usize,
    ) -> anyhow::Result<Sample> {
        let surroundings = |sample: &Sample| sample.surroundings;
        machine::quieter(!self.quiet_max.is_zero(), surroundings, || {
            self.sample_once(workload, kind, round)
        })
    }

    fn sample_once(
        &self,
        workload: &'static Workload,
        kind: Kind,
        round: usize,
    ) -> anyhow::Result<Sample> {
        let mounted = Mounted::start(self, kind)?;
        let root = mounted.root().join("load");
        let below = (kind == Kind::Passthrough).then(|| self.ext4.root().join("load"));
        let seed = round as u64 + 1;
        let load = Prepared::new(workload, self.amount, &root, below.as_deref(), seed)?;
        // No sample pays for what was written before it.
        for place in [self.ext4.root(), &self.dir] {
            sync(place)?;
        }
        let watch = Watch::begin(self.quiet_max);
        let cpu = || mounted.pid().map(machine::cpu_seconds);
        let before = cpu();
        let done = load.run()?;
        let after = cpu();
        let surroundings = watch.end();
        load.clean_up()?;
        mounted.stop()?;
        let times = before.zip(after);
        Ok(Sample {
            workload: workload.name,
            contender: kind,
            round,
            rate: done.operations as f64 / done.span.as_secs_f64(),
            cpu_us: times.map(|(a, b)| (b - a) * 1e6 / done.operations.max(1) as f64),
            surroundings,
        })
    }

    /// Unmounts, and removes the folder.
    pub fn clean_up(self) {
        let Self { dir, ext4, .. } = self;
        drop(ext4);
        // A folder that cannot be removed does no harm to the next run.
        let _ = std::fs::remove_dir_all(dir);
    }
}

fn sync(place: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(place)?).context("cannot sync the file system")
}
