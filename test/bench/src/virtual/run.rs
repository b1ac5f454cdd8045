//! One round: clients in a closed loop, measured in the steady state.

use crate::blocks::{BLOCK, Blocks};
use crate::meter;
use crate::world::{Running, Settings, Store};
use anyhow::Context;
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_bench::{Random, machine};
use tonearm_disk::{HomeParams, OpenOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_engine::{Engine, EngineError, StoreStats};
use tonearm_rt::Notify;

/// Times that the log goes round before the measurement begins.
const WARM_LAPS: u64 = 3;

/// Parameters of a measurement.
#[derive(Clone)]
pub struct Shape {
    /// Models of the drives of log and home. Without them operations take random latencies.
    pub drives: Option<[(String, DriveSpec); 2]>,
    /// Commits that are measured.
    pub commits: u64,
    /// Every word of a block is new. Otherwise only its first 16 bytes are, and the rest is zero, which simulated
    /// drives keep in little memory.
    pub all_new: bool,
    /// Clients, each with one commit under way.
    pub clients: u64,
    /// Blocks that the clients write, at random.
    pub blocks: u64,
    /// Limit of payload in memory.
    pub memory_bytes: u64,
    /// Size of the log.
    pub log_bytes: u64,
    /// The world tracks what a power cut may lose.
    pub power_cuts: bool,
    /// Measure the simulated world's share.
    pub split: bool,
}

/// Result of a round. Counters cover the measured time.
#[derive(Clone, Serialize)]
pub struct Figures {
    /// Commits, each of one block and durable.
    pub commits: u64,
    /// Processor time.
    pub cpu_ns: u64,
    /// Share of the processor time in the simulated world, or 0 when it is not measured.
    pub world_ns: u64,
    /// Time that passed in the simulated world.
    pub virtual_ns: u64,
    /// Requests to the simulated drives.
    pub device_ios: u64,
    /// Writes of the log.
    pub log_writes: u64,
    /// Flushes of the log.
    pub log_flushes: u64,
    /// Writes of the home, including tables.
    pub home_writes: u64,
    /// Blocks written home.
    pub written_back_blocks: u64,
    /// Rounds of the write-back.
    pub write_back_rounds: u64,
    /// Bytes of log written, in multiples of the log's size.
    pub log_laps: f64,
    /// Largest resident memory since the program's start, before the check.
    pub peak_rss_bytes: u64,
}

impl Figures {
    /// Commits in a second of processor time.
    pub fn rate(&self) -> f64 {
        self.commits as f64 * 1e9 / self.cpu_ns as f64
    }

    /// `count` for each commit.
    pub fn per_commit(&self, count: u64) -> f64 {
        count as f64 / self.commits as f64
    }
}

/// Counters at one time.
struct Mark {
    cpu_ns: u64,
    world_ns: u64,
    now: Nanos,
    ios: u64,
    stats: StoreStats,
}

impl Mark {
    fn of(running: &Running, engine: &Engine) -> Self {
        Self {
            cpu_ns: meter::cpu_ns(),
            world_ns: running.world_ns(),
            now: running.rt.now(),
            ios: running.world.ios(),
            stats: engine.stats(),
        }
    }
}

/// State that all clients share.
struct Work {
    blocks: Blocks,
    /// Commits that are durable.
    ended: Cell<u64>,
    /// Notified when `ended` reaches `alarm`.
    reached: Notify,
    alarm: Cell<u64>,
    stop: Cell<bool>,
}

/// Runs one round. `seed` is the seed of the clients and of the world.
///
/// # Errors
/// When the engine fails, or a block does not read as it was written.
pub fn round(shape: &Shape, seed: u64) -> anyhow::Result<Figures> {
    let store = Store::create(shape.blocks, shape.log_bytes, HomeParams::Overwrite, None)?;
    let running = store.start(&Settings {
        seed,
        drives: shape.drives.as_ref(),
        power_cuts: shape.power_cuts,
        split: shape.split,
    });
    let own = running.clone();
    let (commits, clients, blocks) = (shape.commits, shape.clients, shape.blocks);
    let (memory_bytes, log_bytes, all_new) = (shape.memory_bytes, shape.log_bytes, shape.all_new);
    let figures = running.rt.block_on(async move {
        let options = OpenOptions {
            memory_bytes,
            map_cache_bytes: 4 << 20,
            ..OpenOptions::default()
        };
        let engine = own.open(options).await?;
        let work = Rc::new(Work {
            blocks: Blocks::new(engine.clone(), blocks, memory_bytes, all_new),
            ended: Cell::new(0),
            reached: Notify::new(&own.rt),
            alarm: Cell::new(u64::MAX),
            stop: Cell::new(false),
        });
        let handles: Vec<_> = (0..clients)
            .map(|client| own.rt.spawn(client_loop(work.clone(), client, seed)))
            .collect();
        work.until(WARM_LAPS * log_bytes / BLOCK as u64).await;
        let (from, first) = (Mark::of(&own, &engine), work.ended.get());
        work.until(first + commits).await;
        let to = Mark::of(&own, &engine);
        let measured = work.ended.get() - first;
        let figures = figures(&from, &to, measured, log_bytes);
        work.stop.set(true);
        for handle in handles {
            handle.await.context("a client")?;
        }
        work.blocks.check().await?;
        engine.close().await?;
        anyhow::Ok(figures)
    })?;
    running.rt.shut_down();
    Ok(figures)
}

fn figures(from: &Mark, to: &Mark, commits: u64, log_bytes: u64) -> Figures {
    let (a, b) = (&from.stats, &to.stats);
    Figures {
        commits,
        cpu_ns: to.cpu_ns - from.cpu_ns,
        world_ns: to.world_ns - from.world_ns,
        virtual_ns: to.now - from.now,
        device_ios: to.ios - from.ios,
        log_writes: b.log_writes - a.log_writes,
        log_flushes: b.log_flushes - a.log_flushes,
        home_writes: b.home_writes - a.home_writes,
        written_back_blocks: b.written_back_blocks - a.written_back_blocks,
        write_back_rounds: b.write_back_rounds - a.write_back_rounds,
        log_laps: (b.log_bytes - a.log_bytes) as f64 / log_bytes as f64,
        peak_rss_bytes: machine::peak_bytes(std::process::id()),
    }
}

async fn client_loop(work: Rc<Work>, client: u64, seed: u64) -> Result<(), EngineError> {
    // Mixing the seed keeps the clients' sequences from being shifted copies of one sequence.
    let mut random = Random(Random(seed << 32 | client).number());
    while !work.stop.get() {
        let block = random.below(work.blocks.count());
        work.blocks.commit(block..block + 1).await?;
        work.ended.set(work.ended.get() + 1);
        if work.ended.get() == work.alarm.get() {
            work.reached.notify();
        }
    }
    Ok(())
}

impl Work {
    /// Waits until `commits` commits are durable.
    async fn until(&self, commits: u64) {
        self.alarm.set(commits);
        self.reached.wait().await;
    }
}
