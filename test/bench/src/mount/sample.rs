//! One sample: a workload on a file system, and what other programs did meanwhile.

use crate::Args;
use crate::contender::{Kind, Mounted};
use crate::ext4::Ext4;
use crate::load::{Amount, Prepared};
use crate::workload::Workload;
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tonearm_bench::machine::{self, Surroundings};
use tonearm_bench::rounds::{self, Rounds};
use tonearm_bench::{folder, process};

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
    rounds: Rounds,
}

/// Result of a sample; a rate is in the unit of the workload.
pub type Sample = rounds::Sample<Figures>;

/// What is measured besides the rate.
#[derive(Serialize)]
pub struct Figures {
    /// Processor time of the server for each unit, in us. ext4 has no server.
    pub cpu_us: Option<f64>,
    #[serde(skip)]
    unit: &'static str,
}

impl rounds::Figures for Figures {
    fn line(&self, rate: f64) -> String {
        let cpu = self.cpu_us;
        let cpu = cpu.map_or(String::new(), |cpu| format!("{cpu:.1} us of its server"));
        format!("{rate:>8.0} {:9} {cpu:24}", self.unit)
    }
}

impl Bench {
    /// Makes the folder, and store and ext4 in it.
    ///
    /// # Errors
    /// When there is no space, or a program is missing.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        let common = &args.common;
        let dir = folder::make_new(&args.dir, FOLDER)?;
        let tonearm = process::tonearm(&common.tonearm)?;
        let ext4 = Ext4::new(&dir, args.mib)?;
        let quick = |asked: Option<u64>, quick, full| common.seconds(asked, quick, full);
        let bench = Self {
            amount: Amount {
                span: Duration::from_secs(quick(args.seconds, 1, 5)),
                files: quick(args.files, 5_000, 50_000),
                sequential_mib: quick(args.sequential_mib, 128, 1024),
            },
            rounds: common.rounds(),
            tonearm,
            ext4,
            dir,
        };
        let mut create = Command::new(&bench.tonearm);
        create.arg("create").arg(bench.store());
        create.args(["--size", &format!("{}MiB", args.mib)]);
        create.args(["--log-size", &common.log_size]);
        process::run(create.args(["--no-volume", "--preallocate"]))?;
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
        self.rounds
            .sample((workload.name, kind.name()), round, true, || {
                self.sample_once(workload, kind, round as u64 + 1)
            })
    }

    fn sample_once(
        &self,
        workload: &'static Workload,
        kind: Kind,
        seed: u64,
    ) -> anyhow::Result<(f64, Figures, Surroundings)> {
        let mounted = Mounted::start(self, kind)?;
        let root = mounted.root().join("load");
        let below = (kind == Kind::Passthrough).then(|| self.ext4.root().join("load"));
        let load = Prepared::new(workload, self.amount, &root, below.as_deref(), seed)?;
        for place in [self.ext4.root(), &*self.dir] {
            folder::sync(place)?;
        }
        let watch = self.rounds.watch();
        let cpu = || mounted.pid().map(machine::cpu_seconds);
        let before = cpu();
        let done = load.run()?;
        let after = cpu();
        let surroundings = watch.end();
        load.clean_up()?;
        mounted.stop()?;
        let times = before.zip(after);
        let figures = Figures {
            cpu_us: times.map(|(a, b)| (b - a) * 1e6 / done.operations.max(1) as f64),
            unit: workload.unit,
        };
        let rate = done.operations as f64 / done.span.as_secs_f64();
        Ok((rate, figures, surroundings))
    }

    /// Unmounts, and removes the folder.
    pub fn clean_up(self) {
        let Self { dir, ext4, .. } = self;
        drop(ext4);
        // A folder that cannot be removed does no harm to the next run.
        let _ = folder::remove(&dir);
    }
}
