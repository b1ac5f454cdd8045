//! Processor time of atomic recovery units: empty units, units of one block, many units open at once, and the same
//! writes as simple operations.

use crate::blocks::BLOCK;
use crate::meter;
use crate::report;
use crate::world::{Running, Settings, Store};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::cell::Cell;
use tonearm_base::BufPool;
use tonearm_bench::{Contents, Random};
use tonearm_disk::{Aru, Disk, HomeParams, OpenOptions, Volume};

/// Blocks that are written, at random. They are few, so that most are overwritten in memory before they are written back and the
/// figures show the cost of units, not of the home.
const BLOCKS: u64 = 1024;
const LOG_BYTES: u64 = 64 << 20;
const MEMORY_BYTES: u64 = 64 << 20;
/// Bytes that the log writes at once while no commit is awaited.
const RECORDS_BYTES: u64 = 256 << 10;
/// Units that are open at a time.
pub const SIDE_BY_SIDE: usize = 64;

/// Most processor time of an empty unit, in ns.
pub const EMPTY_NS_MAX: f64 = 1000.0;
/// Least units of one block in a second of processor time.
pub const RATE_MIN: f64 = 1_000_000.0;

/// Result of a round: processor time for each unit or operation in ns, including that of the simulated drives.
#[derive(Clone, Serialize)]
pub struct Figures {
    /// A unit that ends without a change.
    pub empty_ns: f64,
    /// Bytes of log for each empty unit.
    pub empty_log_bytes: f64,
    /// One block written by a simple operation.
    pub simple_ns: f64,
    /// A unit of one block. Each ends before the next one begins.
    pub one_block_ns: f64,
    /// Units of one block, [`SIDE_BY_SIDE`] open at a time.
    pub side_by_side_ns: f64,
    /// A unit of one block that is durable before the next one begins.
    pub durable_ns: f64,
    /// A unit of one block with one new word. Each ends before the next one begins.
    pub one_word_ns: f64,
    /// Only the three copies of a block with new content: into the unit, into the log's record, and onto the simulated
    /// drive.
    pub copies_ns: f64,
}

#[derive(clap::Args)]
pub struct Args {
    /// Rounds, of which the medians are shown
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Units of each kind in a round
    #[arg(long, default_value_t = 500_000)]
    pub units: u64,
    /// Print JSON with all rounds
    #[arg(long)]
    pub json: bool,
}

impl Figures {
    /// Processor time of a unit among many open ones, relative to a unit that is open alone.
    pub fn side_by_side_share(&self) -> f64 {
        self.side_by_side_ns / self.one_block_ns
    }
}

/// Runs all rounds, and prints each.
///
/// # Errors
/// When the disk fails.
pub fn rounds(args: &Args) -> anyhow::Result<Vec<Figures>> {
    let one = |round: usize| {
        let figures = round_of(args.units, round as u64).context("units in virtual time")?;
        eprintln!("{}", report::units_line(&figures, round + 1, args.rounds));
        Ok(figures)
    };
    (0..args.rounds).map(one).collect()
}

/// Runs one round with this many units of each kind.
///
/// # Errors
/// When the disk fails.
fn round_of(units: u64, seed: u64) -> anyhow::Result<Figures> {
    let running = Store::create(BLOCKS, LOG_BYTES, HomeParams::Overwrite, None)?.start(&Settings {
        seed,
        drives: None,
        power_cuts: false,
        split: false,
    });
    let own = running.clone();
    let figures = running
        .rt
        .block_on(async move { measure(&own, units, seed).await });
    running.rt.shut_down();
    figures
}

async fn measure(running: &Running, units: u64, seed: u64) -> anyhow::Result<Figures> {
    ensure!(units >= 10, "a round has ten units at least");
    let options = OpenOptions {
        memory_bytes: MEMORY_BYTES,
        ..OpenOptions::default()
    };
    let disk = running.open_disk(options).await?;
    let work = Work {
        volume: disk.volume("main")?,
        disk,
        contents: Contents::new(BLOCK),
        written: Cell::new(0),
        pool: BufPool::new(MEMORY_BYTES as usize),
    };
    let mut random = Random(seed);
    // The log wraps around once, so that no kind of unit pays for one-time work.
    work.simple(LOG_BYTES / BLOCK as u64, &mut random).await?;
    let log_before = work.disk.stats().log_bytes;
    let empty_ns = {
        let began = meter::cpu_ns();
        for _ in 0..units {
            work.disk.begin().end().await?;
        }
        (meter::cpu_ns() - began) as f64 / units as f64
    };
    let empty_log_bytes = (work.disk.stats().log_bytes - log_before) as f64 / units as f64;
    let figures = Figures {
        empty_ns,
        empty_log_bytes,
        simple_ns: work.simple(units, &mut random).await?,
        one_block_ns: work.one_by_one(units, false, &mut random).await?,
        side_by_side_ns: work.side_by_side(units, &mut random).await?,
        durable_ns: work.one_by_one(units / 10, true, &mut random).await?,
        one_word_ns: work.one_word(units, &mut random).await?,
        copies_ns: work.copies(units, &mut random),
    };
    work.disk.close().await?;
    Ok(figures)
}

struct Work {
    disk: Disk,
    volume: Volume,
    contents: Contents,
    written: Cell<u64>,
    pool: BufPool,
}

impl Work {
    fn place(random: &mut Random) -> u64 {
        random.below(BLOCKS) * BLOCK as u64
    }

    /// New content.
    fn page(&self) -> &[u8] {
        self.written.set(self.written.get() + 1);
        self.contents.of(self.written.get())
    }

    /// Processor time for each of `units` units since `began`. It flushes first, so that their whole cost is included.
    async fn each(&self, began: u64, units: u64) -> anyhow::Result<f64> {
        self.disk.flush().await?;
        ensure!(units > 0, "something is measured");
        Ok((meter::cpu_ns() - began) as f64 / units as f64)
    }

    async fn simple(&self, units: u64, random: &mut Random) -> anyhow::Result<f64> {
        let began = meter::cpu_ns();
        for _ in 0..units {
            let mut page = self.pool.alloc(BLOCK);
            page.copy_from_slice(self.page());
            self.volume
                .write(Self::place(random), page.share(), false)
                .await?;
        }
        self.each(began, units).await
    }

    async fn one_word(&self, units: u64, random: &mut Random) -> anyhow::Result<f64> {
        let mut page = self.page().to_vec();
        let began = meter::cpu_ns();
        for unit in 0..units {
            page[..8].copy_from_slice(&unit.to_le_bytes());
            let mut aru = self.disk.begin();
            aru.write(&self.volume, Self::place(random), &page).await?;
            aru.end().await?;
        }
        self.each(began, units).await
    }

    /// Processor time of the copies alone, over as much memory as a unit uses.
    fn copies(&self, units: u64, random: &mut Random) -> f64 {
        let memory = |bytes: u64| vec![1; bytes as usize];
        let mut blocks = memory(BLOCKS * BLOCK as u64);
        let mut records = memory(RECORDS_BYTES);
        let mut drive = memory(LOG_BYTES);
        let began = meter::cpu_ns();
        for unit in 0..units as usize {
            let block = &mut blocks[Self::place(random) as usize..][..BLOCK];
            block.copy_from_slice(self.page());
            let at = unit * BLOCK % records.len();
            let record = &mut records[at..at + BLOCK];
            record.copy_from_slice(block);
            let at = unit * BLOCK % drive.len();
            drive[at..at + BLOCK].copy_from_slice(record);
        }
        let took = meter::cpu_ns() - began;
        std::hint::black_box(&drive);
        took as f64 / units as f64
    }

    async fn one_by_one(
        &self,
        units: u64,
        durable: bool,
        random: &mut Random,
    ) -> anyhow::Result<f64> {
        let began = meter::cpu_ns();
        for _ in 0..units {
            let mut aru = self.disk.begin();
            aru.write(&self.volume, Self::place(random), self.page())
                .await?;
            let lsn = aru.end().await?;
            if durable {
                self.disk.wait_durable(lsn).await?;
            }
        }
        self.each(began, units).await
    }

    async fn side_by_side(&self, units: u64, random: &mut Random) -> anyhow::Result<f64> {
        let began = meter::cpu_ns();
        let mut open: Vec<Aru> = Vec::new();
        for _ in 0..units.div_ceil(SIDE_BY_SIDE as u64) {
            open.extend((0..SIDE_BY_SIDE).map(|_| self.disk.begin()));
            for aru in &mut open {
                aru.write(&self.volume, Self::place(random), self.page())
                    .await?;
            }
            for aru in open.drain(..) {
                aru.end().await?;
            }
        }
        self.each(began, units).await
    }
}
