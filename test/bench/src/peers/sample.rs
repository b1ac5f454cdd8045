//! One sample: a server under a workload, and the machine's surroundings meanwhile.

use crate::server::{Kind, Server};
use crate::workload::{Load, Span, Workload};
use crate::{client::Client, fio, guest};
use anyhow::{Context, bail};
use rustix::fs::Advice;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tonearm_bench::machine::{self, Surroundings, Watch};

/// Size of each target: four times the memory budget of Tonearm.
pub const TARGET_BYTES: u64 = 1 << 30;

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
    pub sustained_seconds: u64,
    /// Longest wait for a quiet machine before a sample.
    pub quiet_max: Duration,
}

/// Result of a sample.
#[derive(Serialize)]
pub struct Sample {
    /// Name of the workload.
    pub workload: &'static str,
    /// The server.
    pub server: Kind,
    /// Number of the round.
    pub round: usize,
    /// Requests in a second, not counting flushes.
    pub rate: f64,
    /// Requests.
    pub requests: u64,
    /// Flushes sent for each 1,000 requests.
    pub flushes_per_1000: f64,
    /// Processor time of the server for each request, including its flush, in us.
    pub cpu_us: f64,
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

impl Sample {
    /// The line that a run prints for this sample.
    pub fn line(&self, round: usize, rounds: usize) -> String {
        format!(
            "round {round}/{rounds} {:12} {:18} {:>9.0}/s  cpu {:6.1} us  {:4.0} flushes/1000  {}",
            self.workload,
            self.server.name(),
            self.rate,
            self.cpu_us,
            self.flushes_per_1000,
            self.surroundings.line()
        )
    }
}

impl Bench {
    /// Path of the peers' file or of Tonearm's store.
    pub fn target(&self, kind: Kind) -> PathBuf {
        self.dir.join(if kind == Kind::Tonearm {
            "bench.tn"
        } else {
            "bench.raw"
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
    pub fn prepare(&mut self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.dir)?;
        self.dir = self.dir.canonicalize()?;
        self.archive_dir = self.archive_dir.canonicalize()?;
        self.tonearm = self.tonearm.canonicalize()?;
        eprintln!("filling two targets of 1 GiB in {}", self.dir.display());
        let raw = File::create(self.target(Kind::Nbdkit))?;
        raw.set_len(TARGET_BYTES)?;
        drop(raw);
        self.create_store(&self.target(Kind::Tonearm), &self.log_size)?;
        for kind in [Kind::Nbdkit, Kind::Tonearm] {
            let server = Server::start(self, kind, &self.target(kind), &[])?;
            server.connect()?.fill()?;
            server.stop()?;
        }
        self.sync()
    }

    /// Creates a store of the targets' size with a log of `log_size`.
    ///
    /// # Errors
    /// When `tonearm create` fails.
    pub fn create_store(&self, path: &Path, log_size: &str) -> anyhow::Result<()> {
        let status = Command::new(&self.tonearm)
            .arg("create")
            .arg(path)
            .args(["--size", "1GiB", "--preallocate", "--force"])
            .args(["--log-size", log_size])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("tonearm create {}: {status}", path.display());
        }
        Ok(())
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
        let again = !self.quiet_max.is_zero() && workload.span != Span::Sustained;
        let surroundings = |sample: &Sample| sample.surroundings;
        machine::quieter(again, surroundings, || {
            self.sample_once(workload, kind, round, &load)
        })
    }

    /// Samples of one round without what `load` starts, and with it. Which one comes first changes from round to round.
    ///
    /// # Errors
    /// As those of [`Bench::sample_with`].
    pub fn pair<B>(
        &self,
        workload: &Workload,
        round: usize,
        load: impl Fn() -> anyhow::Result<B>,
    ) -> anyhow::Result<(Sample, Sample)> {
        let with = || self.sample_with(workload, Kind::Tonearm, round, &load);
        let without = || self.sample(workload, Kind::Tonearm, round);
        if round.is_multiple_of(2) {
            let without = without()?;
            return Ok((without, with()?));
        }
        let with = with()?;
        Ok((without()?, with))
    }

    fn sample_once<B>(
        &self,
        workload: &Workload,
        kind: Kind,
        round: usize,
        load: &impl Fn() -> anyhow::Result<B>,
    ) -> anyhow::Result<Sample> {
        self.sync()?;
        if workload.cold {
            self.drop_caches(kind)?;
        }
        let socket = guest::socket(self);
        let more = match workload.load {
            Load::Guest(_) => vec!["--vhost-user", socket.to_str().context("a path")?],
            _ => Vec::new(),
        };
        let server = Server::start(self, kind, &self.target(kind), &more)?;
        let watch = Watch::begin(self.quiet_max);
        let running = load()?;
        let mut client = match workload.load {
            Load::Batches(_) | Load::Fua => Some(self.client(&server, round)?),
            Load::Fio(_) | Load::FioOnce(_) | Load::Guest(_) => None,
        };
        let mut driver = match workload.load {
            Load::Guest(_) => Some(guest::Driver::connect(&socket, round as u64)?),
            _ => None,
        };
        let cpu_before = machine::cpu_seconds(server.pid());
        let seconds = match workload.span {
            Span::Normal => self.seconds,
            Span::Sustained => self.sustained_seconds,
        };
        let span = Duration::from_secs(seconds);
        let began = Instant::now();
        let seed = round as u64;
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
        Ok(Sample {
            workload: workload.name,
            server: kind,
            round,
            rate,
            requests,
            flushes_per_1000: 1e3 * flushes as f64 / requests.max(1) as f64,
            cpu_us: 1e6 * cpu / requests.max(1) as f64,
            surroundings,
        })
    }

    fn client(&self, server: &Server, round: usize) -> anyhow::Result<Client> {
        let mut client = server.connect()?;
        client.seed(round as u64);
        Ok(client)
    }

    /// Syncs the file system, so that a sample does not pay for writes of earlier ones.
    ///
    /// # Errors
    /// When the file system cannot be synced.
    pub fn sync(&self) -> anyhow::Result<()> {
        rustix::fs::syncfs(File::open(&self.dir)?).context("cannot sync the file system")
    }

    /// Drops the target from the page cache. As root it drops the whole page cache.
    fn drop_caches(&self, kind: Kind) -> anyhow::Result<()> {
        let file = File::open(self.target(kind))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        // Without root only the target is cold, which is enough.
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        Ok(())
    }

    /// Removes the targets.
    pub fn clean_up(&self) {
        for name in [
            "bench.tn",
            "bench.raw",
            "recovery.tn",
            "layouts.tn",
            "restored.tn",
            "recorder.csv",
            "recorder.csv.1",
            "recorder.json",
            "server.log",
            "bench.sock",
        ] {
            // Some of the targets may not exist.
            let _ = fs::remove_file(self.dir.join(name));
        }
    }
}
