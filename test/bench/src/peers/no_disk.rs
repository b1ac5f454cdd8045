//! Measures what the disk costs: durable writes of eight clients with the store on the disk, with the store in memory, and to a server
//! that keeps its blocks in memory and no more.

use crate::sample::{Bench, Sample};
use crate::server::Kind;
use crate::workload::{WORKLOADS, Workload};
use anyhow::Context;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Name on the command line.
pub const NAME: &str = "no-disk";
/// Description.
pub const TITLE: &str = "4K random write + flush, 8 clients: store on the disk, by that in memory";
/// Least ratio of the rates.
pub const TARGET: f64 = 0.6;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// Three samples of one round.
#[derive(Serialize)]
pub struct Triple {
    /// Tonearm on the disk.
    pub disk: Sample,
    /// Tonearm with its store in memory.
    pub memory: Sample,
    /// `nbdkit memory`.
    pub nbdkit: Sample,
}

impl Triple {
    /// Rate with the disk by that without.
    pub fn ratio(&self) -> f64 {
        self.disk.rate / self.memory.rate
    }

    /// Rate of Tonearm by that of nbdkit, both in memory.
    pub fn peer_ratio(&self) -> f64 {
        self.memory.rate / self.nbdkit.rate
    }

    /// All three.
    pub fn samples(&self) -> [&Sample; 3] {
        [&self.disk, &self.memory, &self.nbdkit]
    }

    /// The lines that a run prints for these samples.
    pub fn lines(&self, round: usize, rounds: usize) -> String {
        let lines = self.samples().map(|sample| sample.line(round, rounds));
        let (disk, peer) = (self.ratio(), self.peer_ratio());
        format!(
            "{}\n{NAME}: by memory {disk:.2}; in memory by nbdkit {peer:.2}",
            lines.join("\n")
        )
    }
}

/// Takes the samples of a round, one after the other. The first one changes from round to round.
///
/// # Errors
/// When there is no room in memory, or the server or the load fails.
pub fn measure(bench: &Bench, round: usize) -> anyhow::Result<Triple> {
    let load = WORKLOADS.iter().find(|load| load.name == "flush-8");
    let load = load.context("the workload flush-8")?;
    let in_memory =
        bench.in_dir(Path::new(MEMORY).join(format!("tonearm-bench-{}", std::process::id())));
    fs::create_dir_all(&in_memory.dir).with_context(|| in_memory.dir.display().to_string())?;
    let measured = samples(bench, &in_memory, load, round);
    // What is left of it would keep the memory.
    let _ = fs::remove_dir_all(&in_memory.dir);
    measured
}

fn samples(
    bench: &Bench,
    in_memory: &Bench,
    load: &Workload,
    round: usize,
) -> anyhow::Result<Triple> {
    in_memory.create_store(&in_memory.target(Kind::Tonearm), &in_memory.log_size)?;
    let mut taken = [None, None, None];
    for turn in 0..taken.len() {
        let which = (turn + round) % taken.len();
        let (bench, kind, name) = match which {
            0 => (bench, Kind::Tonearm, "flush-8"),
            1 => (in_memory, Kind::Tonearm, "in memory"),
            _ => (in_memory, Kind::NbdkitMemory, "in memory"),
        };
        let load = Workload { name, ..*load };
        taken[which] = Some(bench.sample(&load, kind, round)?);
    }
    let [Some(disk), Some(memory), Some(nbdkit)] = taken else {
        unreachable!("every turn takes another sample");
    };
    Ok(Triple {
        disk,
        memory,
        nbdkit,
    })
}
