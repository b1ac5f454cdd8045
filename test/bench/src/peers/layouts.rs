//! Measures the layouts on this machine's disk: random overwrites of a full store, ten times its size.

use crate::fio;
use crate::probe::Probe;
use crate::recovery::{number, stats};
use crate::sample::Bench;
use crate::server::{Kind, Server};
use anyhow::{Context, bail};
use serde::Serialize;
use std::process::{Command, Stdio};
use tonearm_bench::machine::{Surroundings, Watch};

/// Name on the command line.
pub const NAME: &str = "layouts";
/// Description.
pub const TITLE: &str = "4K random overwrites of a full store in each layout, depth 32";
/// Longest wait allowed, in milliseconds.
pub const TARGET_MS: f64 = 100.0;
/// Size of the store in MiB, with `--quick` and without.
const STORE_MIB: [u64; 2] = [64, 256];
/// The store is written so many times.
const TIMES: [u64; 2] = [2, 10];
/// Memory of the server and size of the log: a quarter of the store, so that most of what is written is written back.
const MEMORY_PART: u64 = 4;
/// The runs are minutes long, so the separator of hylog decides every 10 seconds.
const INTERVAL_SECONDS: &str = "10";
/// A case ends after this time, whatever was written.
const LIMIT_SECONDS: u64 = 900;
/// Share of the space that data use, in percent.
const UTILISATION: [u32; 3] = [80, 90, 95];
/// Which blocks are written: the name of the load and fio's option for it.
const LOADS: [(&str, &[&str]); 2] = [
    ("uniform", &[]),
    ("90-10", &["--random_distribution=zoned:90/10:10/90"]),
];

/// A layout with a share of used space under a load.
#[derive(Serialize)]
pub struct Case {
    /// Name of the layout.
    pub layout: &'static str,
    /// Share of the space that data use, in percent; none for overwrite, which has no spare space.
    pub utilisation_percent: Option<u32>,
    /// Name of the load.
    pub load: &'static str,
    /// Bytes written by the size of the store.
    pub times: f64,
    /// Writes in a second.
    pub rate: f64,
    /// Bytes written home by bytes that came home: 1 without cleaning.
    pub write_cost: f64,
    /// Time that 99.9 % of the writes took at most, in milliseconds.
    pub p999_ms: f64,
    /// Longest wait for a write, in milliseconds.
    pub longest_ms: f64,
    /// Longest time of a bare durable write to another file of the same disk meanwhile, in milliseconds.
    pub disk_longest_ms: f64,
    /// Most memory that the server used, in MiB.
    pub peak_mib: f64,
    /// Its `--memory`, in MiB.
    pub memory_mib: u64,
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

impl Case {
    /// The line that a run prints for this case.
    pub fn line(&self) -> String {
        format!(
            "{NAME} {:8} {:9} {:>4}: {:>7.0}/s, {:.1} times the store, write cost {:.2}, longest wait {:.0} ms (the disk's own \
             {:.0} ms), {}",
            self.load,
            self.layout,
            self.used(),
            self.rate,
            self.times,
            self.write_cost,
            self.longest_ms,
            self.disk_longest_ms,
            self.surroundings.line()
        )
    }

    /// Share of used space in a table.
    pub fn used(&self) -> String {
        self.utilisation_percent
            .map_or(String::new(), |percent| format!("{percent} %"))
    }
}

/// Measures all cases and prints a line for each.
///
/// # Errors
/// When a store cannot be made or filled, or a write fails.
pub fn measure(bench: &Bench, quick: bool) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (load, options) in LOADS {
        for layout in ["overwrite", "segments", "wolf", "hylog"] {
            let shares = match layout {
                "overwrite" => vec![None],
                _ => UTILISATION.map(Some).to_vec(),
            };
            for used in shares {
                let case = measure_one(bench, quick, layout, used, load, options)
                    .with_context(|| format!("{layout}, {load}"))?;
                eprintln!("{}", case.line());
                cases.push(case);
            }
        }
    }
    Ok(cases)
}

fn measure_one(
    bench: &Bench,
    quick: bool,
    layout: &'static str,
    used: Option<u32>,
    load: &'static str,
    options: &[&str],
) -> anyhow::Result<Case> {
    let at = usize::from(!quick);
    let (size_mib, times) = (STORE_MIB[at], TIMES[at]);
    let memory = format!("{}MiB", size_mib / MEMORY_PART);
    let store = bench.dir.join("layouts.tn");
    let mut create = Command::new(&bench.tonearm);
    create.arg("create").arg(&store);
    create.args(["--preallocate", "--force", "--layout", layout]);
    create.args(["--size", &format!("{size_mib}MiB"), "--log-size", &memory]);
    if let Some(used) = used {
        create.args(["--spare", &(100 - used).to_string()]);
    }
    let status = create
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("tonearm create: {status}");
    }
    let more = ["--memory", &memory];
    let separation = ["--separation-interval", INTERVAL_SECONDS];
    let server = Server::start(
        bench,
        Kind::Tonearm,
        &store,
        &[&more[..], &separation[..]].concat(),
    )?;
    server.connect()?.fill()?;
    bench.sync()?;
    let written = format!("--io_size={}m", size_mib * times);
    let mut arguments = vec!["--rw=randwrite", "--bs=4k", "--iodepth=32", "--norandommap"];
    arguments.push(&written);
    arguments.extend(options);
    let watch = Watch::begin(bench.quiet_max);
    let before = stats(bench, &store)?;
    let probe = Probe::start(&bench.dir)?;
    let done = fio::run(&server.uri(), &arguments, LIMIT_SECONDS, 0, true);
    let disk_longest_ms = probe.end()?;
    let done = done?;
    let after = stats(bench, &store)?;
    let surroundings = watch.end();
    let peak_mib = peak_mib(server.pid())?;
    server.stop()?;
    std::fs::remove_file(&store)?;
    let home = |name: &str| Ok::<_, anyhow::Error>(number(&after, name)? - number(&before, name)?);
    let written_back = 4096 * home("written_back_blocks")?;
    if written_back == 0 {
        bail!("nothing came home");
    }
    Ok(Case {
        layout,
        utilisation_percent: used,
        load,
        times: (4096 * done.requests) as f64 / (size_mib << 20) as f64,
        rate: done.rate,
        write_cost: home("home_write_bytes")? as f64 / written_back as f64,
        p999_ms: done.p999_ms,
        longest_ms: done.longest_ms,
        disk_longest_ms,
        peak_mib,
        memory_mib: size_mib / MEMORY_PART,
        surroundings,
    })
}

/// Most memory that a process has used.
fn peak_mib(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    let kib: f64 = kib.context("no VmHWM")?.parse()?;
    Ok(kib / 1024.0)
}
