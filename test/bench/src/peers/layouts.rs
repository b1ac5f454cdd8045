//! Measures the layouts on this machine's disk: random overwrites of a full store, ten times its size.

use crate::fio;
use crate::probe::Probe;
use crate::recovery::{number, stats};
use crate::sample::Bench;
use crate::server::{Kind, Server};
use anyhow::{Context, bail};
use serde::Serialize;
use std::process::Command;
use tonearm_bench::machine::{Surroundings, peak_bytes};
use tonearm_bench::report::{Column, Goal, line};
use tonearm_bench::{folder, process};

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

/// The figures of a case.
pub const COLUMNS: [Column<Case>; 8] = [
    Column::new("writes/s", 0, |case| Some(case.rate)),
    Column::new("times the store", 1, |case| Some(case.times)),
    Column::new("write cost", 2, |case| Some(case.write_cost)),
    Column::new("p99.9 ms", 1, |case| Some(case.p999_ms)),
    Column::with_goal(
        "longest ms",
        0,
        |case| Some(case.longest_ms),
        |_| Some(Goal::AtMost(TARGET_MS)),
    ),
    Column::new("disk's longest ms", 0, |case| Some(case.disk_longest_ms)),
    Column::new("memory, MiB", 0, |case| Some(case.peak_mib)),
    Column::new("--memory", 0, |case| Some(case.memory_mib as f64)),
];

impl Case {
    /// Load, layout and share of used space.
    pub fn label(&self) -> String {
        let used = self.utilisation_percent;
        let used = used.map_or(String::new(), |percent| format!(" {percent} %"));
        format!("{} {}{used}", self.load, self.layout)
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
                let (label, line) = (case.label(), line(&COLUMNS, &case));
                eprintln!("{NAME} {label}: {line}, {}", case.surroundings.line());
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
    process::run(&mut create)?;
    let more = ["--memory", &memory];
    let separation = ["--separation-interval", INTERVAL_SECONDS];
    let server = Server::start(
        bench,
        Kind::Tonearm,
        &store,
        &[&more[..], &separation[..]].concat(),
    )?;
    server.connect()?.fill()?;
    folder::sync(&bench.dir)?;
    let written = format!("--io_size={}m", size_mib * times);
    let mut arguments = vec!["--rw=randwrite", "--bs=4k", "--iodepth=32", "--norandommap"];
    arguments.push(&written);
    arguments.extend(options);
    let watch = bench.rounds.watch();
    let before = stats(bench, &store)?;
    let probe = Probe::start(&bench.dir)?;
    let done = fio::run(&server.uri(), &arguments, LIMIT_SECONDS, 0, true);
    let disk_longest_ms = probe.end()?;
    let done = done?;
    let after = stats(bench, &store)?;
    let surroundings = watch.end();
    let peak_mib = peak_bytes(server.pid()) as f64 / f64::from(1 << 20);
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
