//! Compares a virtual machine's disk (vhost-user-blk) with NBD: the same load on the same store, by the driver of a guest and by an
//! NBD client, in pairs. There is no guest: the load generator drives the rings itself.

use crate::content::Content;
use crate::sample::{Bench, Sample};
use crate::server::Kind;
use crate::workload::{BASE, Load, Workload};
use anyhow::{Context, bail};
use serde::Serialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonearm_bench::report::{Column, Goal};
use tonearm_bench::rounds::in_turn;
use tonearm_vhost_driver::{Guest, Kind as Request};

/// Name on the command line.
pub const NAME: &str = "vhost-user";
/// Description.
pub const TITLE: &str = "4K random write + flush by vhost-user, by that by NBD";
/// Writes between two flushes.
pub const DEPTHS: [usize; 2] = [1, 32];
/// Least ratio of the rates at depth 1.
pub const TARGET: f64 = 1.3;
/// Most processor time of a request, by that by NBD.
pub const TARGET_CPU: f64 = 0.5;

const BLOCK: usize = 4096;
const SECTOR: u64 = 512;

/// Two samples of one round.
#[derive(Serialize)]
pub struct Pair {
    /// Writes between two flushes.
    pub depth: usize,
    /// By an NBD client.
    pub nbd: Sample,
    /// By the driver of a guest.
    pub guest: Sample,
}

/// The figures of a pair.
pub const COLUMNS: [Column<Pair>; 6] = [
    Column::new("NBD", 0, |pair| Some(pair.nbd.rate)),
    Column::new("vhost-user", 0, |pair| Some(pair.guest.rate)),
    Column::with_goal(
        "ratio",
        2,
        |pair| Some(pair.guest.rate / pair.nbd.rate),
        |pair| (pair.depth == 1).then_some(Goal::AtLeast(TARGET)),
    ),
    Column::new("NBD, us", 1, |pair| Some(pair.nbd.figures.cpu_us)),
    Column::new("vhost-user, us", 1, |pair| Some(pair.guest.figures.cpu_us)),
    Column::with_goal(
        "ratio",
        2,
        |pair| Some(pair.guest.figures.cpu_us / pair.nbd.figures.cpu_us),
        |_| Some(Goal::AtMost(TARGET_CPU)),
    ),
];

/// Where the server's socket for guests is.
pub fn socket(bench: &Bench) -> PathBuf {
    bench.dir.join("bench.vm")
}

/// Takes both samples.
///
/// # Errors
/// When the server or the load fails.
pub fn measure(bench: &Bench, depth: usize, round: usize) -> anyhow::Result<Pair> {
    let [nbd, guest] = in_turn(round, |which| {
        let (name, load) = match which {
            0 => ("nbd", Load::Batches(depth)),
            _ => (NAME, Load::Guest(depth)),
        };
        let workload = Workload { name, load, ..BASE };
        bench.sample(&workload, Kind::Tonearm, round)
    })?;
    Ok(Pair { depth, nbd, guest })
}

fn answered<T>(result: Result<T, impl Display>) -> anyhow::Result<T> {
    result.map_err(|error| anyhow::anyhow!("vhost-user: {error}"))
}

/// A guest, and the content of its writes.
pub struct Driver {
    guest: Guest,
    blocks: u64,
    content: Content,
}

impl Driver {
    /// A guest at the server's socket.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn connect(socket: &Path, seed: u64) -> anyhow::Result<Self> {
        let mut guest = answered(Guest::connect(socket, 0))?;
        let configuration = answered(guest.configuration())?;
        let sectors = configuration.first_chunk::<8>().context("a capacity")?;
        let mut content = Content::new();
        content.seed(seed);
        Ok(Self {
            guest,
            blocks: u64::from_le_bytes(*sectors) * SECTOR / BLOCK as u64,
            content,
        })
    }

    /// Repeats for `span`: `count` random writes of 4 KiB at once, wait for them, then a flush. Returns the numbers of
    /// writes and flushes.
    ///
    /// # Errors
    /// When a request fails.
    pub fn batches(&mut self, count: usize, span: Duration) -> anyhow::Result<(u64, u64)> {
        let (began, mut writes, mut flushes) = (Instant::now(), 0, 0);
        while began.elapsed() < span {
            for _ in 0..count {
                let block = self.content.random() % self.blocks;
                let data = self.content.next(BLOCK);
                let sector = block * (BLOCK as u64 / SECTOR);
                self.guest.submit(Request::Write, sector, data, 0);
            }
            self.wait(count)?;
            self.guest.submit(Request::Flush, 0, &[], 0);
            self.wait(1)?;
            writes += count as u64;
            flushes += 1;
        }
        Ok((writes, flushes))
    }

    fn wait(&mut self, mut count: usize) -> anyhow::Result<()> {
        self.guest.kick();
        while count > 0 {
            for (_, status) in answered(self.guest.wait())? {
                if status != 0 {
                    bail!("a request of the guest failed with status {status}");
                }
                count -= 1;
            }
        }
        Ok(())
    }
}
