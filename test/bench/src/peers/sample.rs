//! One sample: a server under a workload, and the machine's surroundings meanwhile.

use crate::server::{Kind, Server};
use crate::workload::{Load, Span, Workload};
use crate::{Args, fio, guest};
use anyhow::Context;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tonearm_bench::machine::{self, Surroundings};
use tonearm_bench::rounds::{self, Rounds, in_turn};
use tonearm_bench::{folder, process};

/// Size of each target: four times the memory budget of Tonearm.
pub const TARGET_BYTES: u64 = 1 << 30;

/// Name of the folder that the benchmark makes for its files.
const FOLDER: &str = "tonearm-bench-peers.tmp";

/// Settings of a run.
#[derive(Clone)]
pub struct Bench {
    /// Folder of the targets.
    pub dir: PathBuf,
    /// Folder in which archives are made.
    pub archive_dir: PathBuf,
    /// Path of the `tonearm` program.
    pub tonearm: PathBuf,
    /// Size of Tonearm's log.
    pub log_size: String,
    /// Seconds of a normal sample.
    pub seconds: u64,
    /// Seconds of a sustained sample.
    sustained_seconds: u64,
    /// The rounds.
    pub rounds: Rounds,
}

/// Result of a sample; a rate is in requests a second, not counting flushes.
pub type Sample = rounds::Sample<Figures>;

/// What is measured besides the rate.
#[derive(Serialize)]
pub struct Figures {
    /// The server.
    pub server: Kind,
    /// Requests.
    pub requests: u64,
    /// Flushes sent for each 1,000 requests.
    pub flushes_per_1000: f64,
    /// Processor time of the server for each request, including its flush, in us.
    pub cpu_us: f64,
}

impl rounds::Figures for Figures {
    fn line(&self, rate: f64) -> String {
        let (cpu, flushes) = (self.cpu_us, self.flushes_per_1000);
        format!("{rate:>9.0}/s  cpu {cpu:6.1} us  {flushes:4.0} flushes/1000")
    }
}

impl Bench {
    /// Path of the peers' file or of Tonearm's store.
    pub fn target(&self, kind: Kind) -> PathBuf {
        self.dir.join(match kind {
            Kind::Tonearm => "bench.tn",
            _ => "bench.raw",
        })
    }

    /// The same settings, with the targets in another folder.
    pub fn in_dir(&self, dir: PathBuf) -> Self {
        Self {
            dir,
            ..self.clone()
        }
    }

    /// Makes both targets and fills them through their servers.
    ///
    /// # Errors
    /// When there is no space, or when a server fails.
    pub fn prepare(args: &Args) -> anyhow::Result<Self> {
        let common = &args.common;
        let dir = folder::make_new(&args.dir, FOLDER)?;
        let archive_dir = match &args.archive_dir {
            Some(archive_dir) => archive_dir.canonicalize()?,
            None => dir.clone(),
        };
        let bench = Self {
            dir,
            archive_dir,
            tonearm: process::tonearm(&common.tonearm)?,
            log_size: common.log_size.clone(),
            seconds: common.seconds(args.seconds, 1, 5),
            sustained_seconds: common.seconds(args.sustained_seconds, 5, 60),
            rounds: common.rounds(),
        };
        eprintln!("filling two targets of 1 GiB in {}", bench.dir.display());
        File::create(bench.target(Kind::Nbdkit))?.set_len(TARGET_BYTES)?;
        bench.create_store(&bench.target(Kind::Tonearm), &bench.log_size)?;
        for kind in [Kind::Nbdkit, Kind::Tonearm] {
            let server = Server::start(&bench, kind, &bench.target(kind), &[])?;
            server.connect()?.fill()?;
            server.stop()?;
        }
        folder::sync(&bench.dir)?;
        Ok(bench)
    }

    /// Creates a store of the targets' size with a log of `log_size`.
    ///
    /// # Errors
    /// When `tonearm create` fails.
    pub fn create_store(&self, path: &Path, log_size: &str) -> anyhow::Result<()> {
        let mut create = Command::new(&self.tonearm);
        create.arg("create").arg(path).args(["--size", "1GiB"]);
        create.args(["--preallocate", "--force", "--log-size", log_size]);
        process::run(&mut create).map(drop)
    }

    /// Takes a sample, and takes it once more if the machine was not quiet meanwhile.
    ///
    /// # Errors
    /// When the server or the load fails.
    pub fn sample(&self, workload: &Workload, kind: Kind, round: usize) -> anyhow::Result<Sample> {
        self.sample_with(workload, kind, round, || Ok(()))
    }

    /// As [`Bench::sample`], during the lifetime of the value that `load` starts after the server.
    ///
    /// # Errors
    /// As those of [`Bench::sample`], and those of `load`.
    pub fn sample_with<B>(
        &self,
        workload: &Workload,
        kind: Kind,
        round: usize,
        load: impl Fn() -> anyhow::Result<B>,
    ) -> anyhow::Result<Sample> {
        let (names, again) = (
            (workload.name, kind.name()),
            workload.span != Span::Sustained,
        );
        self.rounds.sample(names, round, again, || {
            self.sample_once(workload, kind, round as u64, &load)
        })
    }

    /// Samples of one round without what `load` starts, and with it.
    ///
    /// # Errors
    /// As those of [`Bench::sample_with`].
    pub fn pair<B>(
        &self,
        workload: &Workload,
        round: usize,
        load: impl Fn() -> anyhow::Result<B>,
    ) -> anyhow::Result<[Sample; 2]> {
        in_turn(round, |which| match which {
            0 => self.sample(workload, Kind::Tonearm, round),
            _ => self.sample_with(workload, Kind::Tonearm, round, &load),
        })
    }

    fn sample_once<B>(
        &self,
        workload: &Workload,
        kind: Kind,
        seed: u64,
        load: &impl Fn() -> anyhow::Result<B>,
    ) -> anyhow::Result<(f64, Figures, Surroundings)> {
        folder::sync(&self.dir)?;
        if workload.cold {
            folder::make_cold(&self.target(kind))?;
            // Without root only the target is cold, which is enough.
            let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        }
        let socket = guest::socket(self);
        let more = match workload.load {
            Load::Guest(_) => vec!["--vhost-user", socket.to_str().context("a path")?],
            _ => Vec::new(),
        };
        let server = Server::start(self, kind, &self.target(kind), &more)?;
        let watch = self.rounds.watch();
        let running = load()?;
        let mut client = match workload.load {
            Load::Batches(_) | Load::Fua => Some(server.connect()?),
            Load::Fio(_) | Load::FioOnce(_) | Load::Guest(_) => None,
        };
        if let Some(client) = &mut client {
            client.seed(seed);
        }
        let mut driver = match workload.load {
            Load::Guest(_) => Some(guest::Driver::connect(&socket, seed)?),
            _ => None,
        };
        let cpu_before = machine::cpu_seconds(server.pid());
        let seconds = match workload.span {
            Span::Normal => self.seconds,
            Span::Sustained => self.sustained_seconds,
        };
        let span = Duration::from_secs(seconds);
        let began = Instant::now();
        let rate = |requests: u64| requests as f64 / began.elapsed().as_secs_f64();
        let (requests, flushes, rate) = match workload.load {
            Load::Fio(arguments) | Load::FioOnce(arguments) => {
                let once = matches!(workload.load, Load::FioOnce(_));
                let done = fio::run(&server.uri(), arguments, seconds, seed, once)?;
                (done.requests, done.flushes, done.rate)
            }
            Load::Batches(count) => {
                let client = client.as_mut().context("a client")?;
                let (writes, flushes) = client.batches(count, span)?;
                (writes, flushes, rate(writes))
            }
            Load::Guest(count) => {
                let driver = driver.as_mut().context("a guest")?;
                let (writes, flushes) = driver.batches(count, span)?;
                (writes, flushes, rate(writes))
            }
            Load::Fua => {
                let writes = client.as_mut().context("a client")?.fua(span)?;
                (writes, 0, rate(writes))
            }
        };
        let cpu = machine::cpu_seconds(server.pid()) - cpu_before;
        let surroundings = watch.end();
        drop(running);
        drop((client, driver));
        server.stop()?;
        let each = |all: f64| all / requests.max(1) as f64;
        let figures = Figures {
            server: kind,
            requests,
            flushes_per_1000: each(1e3 * flushes as f64),
            cpu_us: each(1e6 * cpu),
        };
        Ok((rate, figures, surroundings))
    }
}
