//! Measures what the disk costs: durable writes of eight clients with the store on the disk, with the store in memory, and to a server
//! that keeps its blocks in memory and no more.

use crate::sample::{Bench, Sample};
use crate::server::Kind;
use crate::workload::Workload;
use anyhow::Context;
use serde::Serialize;
use std::path::Path;
use tonearm_bench::folder;
use tonearm_bench::report::{Column, Goal};
use tonearm_bench::rounds::in_turn;

/// Name on the command line.
pub const NAME: &str = "no-disk";
/// Description.
pub const TITLE: &str = "4K random write + flush, 8 clients: store on the disk, by that in memory";
/// Least ratio of the rates.
pub const TARGET: f64 = 0.6;

/// The workload.
const LOAD: &str = "flush-8";
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
    /// All three.
    pub fn samples(&self) -> [&Sample; 3] {
        [&self.disk, &self.memory, &self.nbdkit]
    }
}

/// The figures of three samples.
pub const COLUMNS: [Column<Triple>; 8] = [
    Column::new("tonearm", 0, |it| Some(it.disk.rate)),
    Column::new("in memory", 0, |it| Some(it.memory.rate)),
    Column::new("nbdkit memory", 0, |it| Some(it.nbdkit.rate)),
    Column::with_goal(
        "disk by memory",
        2,
        |it| Some(it.disk.rate / it.memory.rate),
        |_| Some(Goal::AtLeast(TARGET)),
    ),
    Column::new("tonearm by nbdkit, both in memory", 2, |it| {
        Some(it.memory.rate / it.nbdkit.rate)
    }),
    Column::new("us of the processor: tonearm", 1, |it| {
        Some(it.disk.figures.cpu_us)
    }),
    Column::new("in memory", 1, |it| Some(it.memory.figures.cpu_us)),
    Column::new("nbdkit memory", 1, |it| Some(it.nbdkit.figures.cpu_us)),
];

/// Takes the samples of a round.
///
/// # Errors
/// When there is no room in memory, or the server or the load fails.
pub fn measure(bench: &Bench, round: usize) -> anyhow::Result<Triple> {
    let dir = folder::make_new(
        Path::new(MEMORY),
        &format!("tonearm-bench-{}", std::process::id()),
    );
    let in_memory = bench.in_dir(dir.context(MEMORY)?);
    let measured = in_memory
        .create_store(&in_memory.target(Kind::Tonearm), &in_memory.log_size)
        .and_then(|()| {
            in_turn(round, |which| {
                let (bench, kind, name) = match which {
                    0 => (bench, Kind::Tonearm, LOAD),
                    1 => (&in_memory, Kind::Tonearm, "in memory"),
                    _ => (&in_memory, Kind::NbdkitMemory, "in memory"),
                };
                let load = Workload {
                    name,
                    ..*Workload::named(LOAD)
                };
                bench.sample(&load, kind, round)
            })
        });
    // What is left of it would keep the memory.
    let _ = folder::remove(&in_memory.dir);
    let [disk, memory, nbdkit] = measured?;
    Ok(Triple {
        disk,
        memory,
        nbdkit,
    })
}
