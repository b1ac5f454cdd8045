//! Measures what `tonearm trace record` costs: the same load with and without a recorder, in pairs.

use crate::sample::{Bench, Sample};
use crate::server::Kind;
use crate::workload::Workload;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use tonearm_bench::report::{Column, Goal};

/// Name on the command line.
pub const NAME: &str = "recorder";
/// Description.
pub const TITLE: &str = "rate while `tonearm trace record` runs, by that without";
/// Workloads that are compared.
pub const LOADS: [&str; 2] = ["flush-1", "read-32"];
/// Least ratio.
pub const TARGET: f64 = 0.97;

/// Two samples of one round.
#[derive(Serialize)]
pub struct Pair {
    /// Without a recorder.
    pub without: Sample,
    /// With a recorder.
    pub with: Sample,
    /// Requests in the trace.
    pub recorded: u64,
    /// Requests that the trace has lost.
    pub lost: u64,
}

/// The figures of a pair.
pub const COLUMNS: [Column<Pair>; 3] = [
    Column::with_goal(
        "ratio",
        3,
        |pair| Some(pair.with.rate / pair.without.rate),
        |_| Some(Goal::AtLeast(TARGET)),
    ),
    Column::new("requests recorded", 0, |pair| Some(pair.recorded as f64)),
    Column::new("lost", 0, |pair| Some(pair.lost as f64)),
];

/// Takes both samples.
///
/// # Errors
/// When the server, the load or the recorder fails.
pub fn measure(bench: &Bench, name: &str, round: usize) -> anyhow::Result<Pair> {
    let load = || Recorder::start(bench);
    let [without, with] = bench.pair(Workload::named(name), round, load)?;
    let text = std::fs::read(bench.dir.join("recorder.json"))?;
    let summary: Value = serde_json::from_slice(&text).context("the recorder's summary")?;
    let number = |name: &str| summary[name].as_u64().with_context(|| format!("no {name}"));
    let (recorded, lost) = (number("requests")?, number("lost")?);
    if recorded == 0 {
        bail!("the trace has no request");
    }
    Ok(Pair {
        without,
        with,
        recorded,
        lost,
    })
}

/// A recorder that ends when it is dropped.
struct Recorder {
    child: Child,
    _err: BufReader<ChildStderr>,
}

impl Recorder {
    fn start(bench: &Bench) -> anyhow::Result<Self> {
        let mut command = Command::new(&bench.tonearm);
        command
            .args(["trace", "record", "--json", "--force"])
            .args(["--max-bytes", "64MiB", "--files", "2", "--out"])
            .arg(bench.dir.join("recorder.csv"))
            .arg(bench.target(Kind::Tonearm));
        let out = File::create(bench.dir.join("recorder.json"))?;
        let mut child = command.stdout(out).stderr(Stdio::piped()).spawn()?;
        let mut err = BufReader::new(child.stderr.take().context("piped")?);
        let mut line = String::new();
        err.read_line(&mut line)?;
        if !line.contains("recording") {
            bail!("no recorder: {}", line.trim());
        }
        Ok(Self { child, _err: err })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Without its end there is no summary, which the caller reports.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}
