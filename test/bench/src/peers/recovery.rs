//! Measures how long a store with a full log takes to serve again after a crash.

use crate::sample::Bench;
use crate::server::{Kind, Server};
use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tonearm_bench::machine::Surroundings;
use tonearm_bench::report::{Column, Goal};
use tonearm_bench::{folder, process};

/// Name on the command line.
pub const NAME: &str = "recovery";
/// Description.
pub const TITLE: &str = "recovery of a full 1-GiB log after kill -9";
/// Longest time allowed, in seconds.
pub const TARGET_S: f64 = 2.0;

/// One recovery.
#[derive(Serialize)]
pub struct Recovery {
    /// From the start of `tonearm serve` to its message that it serves.
    pub serving_s: f64,
    /// Time of recovery as the store reports it.
    pub recovery_s: f64,
    /// Commits that recovery replayed.
    pub commits: u64,
    /// Log space in use before the crash.
    pub log_used_mib: u64,
    /// Size of the log.
    pub log_size_mib: u64,
    /// What other programs used meanwhile.
    #[serde(flatten)]
    pub surroundings: Surroundings,
}

/// The figures of a recovery.
pub const COLUMNS: [Column<Recovery>; 5] = [
    Column::with_goal(
        "serves after, s",
        2,
        |it| Some(it.serving_s),
        |_| Some(Goal::AtMost(TARGET_S)),
    ),
    Column::new("of which recovery", 2, |it| Some(it.recovery_s)),
    Column::new("commits", 0, |it| Some(it.commits as f64)),
    Column::new("log used, MiB", 0, |it| Some(it.log_used_mib as f64)),
    Column::new("of", 0, |it| Some(it.log_size_mib as f64)),
];

/// Fills the log, kills the server and starts it again.
///
/// # Errors
/// When the log does not fill, or the server does not come back.
pub fn measure(bench: &Bench) -> anyhow::Result<Recovery> {
    let store = bench.dir.join("recovery.tn");
    bench.create_store(&store, "1GiB")?;
    // With this much memory write-back is not forced before the log is full.
    let server = Server::start(bench, Kind::Tonearm, &store, &["--memory", "4GiB"])?;
    let (used, size) = fill_log(bench, &server, &store)?;
    drop(server);
    folder::sync(&bench.dir)?;
    let watch = bench.rounds.watch();
    let server = Server::start(bench, Kind::Tonearm, &store, &["--memory", "4GiB"])?;
    let serving_s = server.started_in.as_secs_f64();
    let stats = stats(bench, &store)?;
    server.stop()?;
    std::fs::remove_file(&store)?;
    Ok(Recovery {
        serving_s,
        recovery_s: number(&stats, "recovery_ns")? as f64 / 1e9,
        commits: number(&stats, "recovered_commits")?,
        log_used_mib: used >> 20,
        log_size_mib: size >> 20,
        surroundings: watch.end(),
    })
}

/// Writes until the log is nearly full. Returns the bytes in use and the log's size. Write-back frees log space
/// meanwhile, so the log may never get nearly full. Then the highest use seen within the time limit is returned.
fn fill_log(bench: &Bench, server: &Server, store: &Path) -> anyhow::Result<(u64, u64)> {
    let mut client = server.connect()?;
    let began = Instant::now();
    let mut fullest = 0;
    loop {
        for _ in 0..64 {
            client.write_random(64, 0)?;
        }
        let stats = stats(bench, store)?;
        let (used, size) = (
            number(&stats, "log_used_bytes")?,
            number(&stats, "log_size_bytes")?,
        );
        fullest = fullest.max(used);
        let late = began.elapsed() > Duration::from_secs(20);
        if used * 100 >= size * 95 || late && used * 10 >= fullest * 9 {
            client.flush()?;
            return Ok((used, size));
        }
        if began.elapsed() > Duration::from_secs(60) {
            bail!("the log does not fill: {used} of {size} bytes");
        }
    }
}

/// The output of `tonearm stats` for `store`.
///
/// # Errors
/// When it has no output.
pub fn stats(bench: &Bench, store: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(&bench.tonearm);
    let text = process::run(command.args(["stats", "--json"]).arg(store))?;
    serde_json::from_slice(&text).context("tonearm stats --json")
}

/// A number of the store.
///
/// # Errors
/// When there is none of this name.
pub fn number(stats: &Value, name: &str) -> anyhow::Result<u64> {
    let value = stats["store"][name].as_u64();
    value.with_context(|| format!("no {name} in tonearm stats"))
}
