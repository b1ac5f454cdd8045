//! Random overwrites of a full store on mechanical drives: throughput and write amplification of the segments layout
//! and with overwrite, and the longest wait of a client.
//!
//! Every block of the store is written once. Then random single blocks are overwritten until each block has been
//! overwritten the given number of times on average. A fifth of that comes before the measurement, so that the cleaner
//! is in a steady state. The log has its own drive of the same kind, so that throughput is that of the home. The
//! clients write in a closed loop, so that waits for log space and memory count. At the end every block is read and
//! compared. With `--redundancy` the home is on an array of drives, whose counters make a second table.

use crate::array::Array;
use crate::blocks::{BLOCK, Blocks};
use crate::spec;
use crate::world::{Running, Settings, Store};
use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_bench::Random;
use tonearm_bench::report::table;
use tonearm_device::raid::RaidStats;
use tonearm_disk::{HomeParams, OpenOptions, Placement};
use tonearm_engine::EngineError;
use tonearm_format::ArrayLevel;

/// Longest wait allowed for a durable write.
const STALL_NS_MAX: u64 = 100_000_000;
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Blocks of one commit while the store is filled.
const FILL_BLOCKS: u64 = 64;

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Segments,
    Wolf,
    Hylog,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Redundancy {
    Raid0,
    Raid5,
}

#[derive(clap::Args)]
pub struct Args {
    /// Kinds of drives, one run each: the home is on one such drive or on an array of --disks, and the log on a drive of
    /// its own of the same kind, outside of the array
    #[arg(long = "drive", default_values_t = ["atlas10k".to_owned(), "hylog2003".to_owned()])]
    drives: Vec<String>,
    /// Percent of the segments that hold live blocks
    #[arg(long = "utilisation", default_values_t = [80, 90])]
    utilisations: Vec<u64>,
    /// Layouts with segments, compared with overwrite
    #[arg(long = "layout", value_enum, default_values_t = [Layout::Segments, Layout::Hylog])]
    layouts: Vec<Layout>,
    /// Seconds between two decisions of wolf and hylog which blocks are hot
    #[arg(long, default_value_t = 20)]
    separation_interval: u64,
    /// Percent of the writes that go to every tenth block; the others go to all blocks. By default all do
    #[arg(long)]
    hot: Option<u64>,
    /// MiB of the store
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Times that each block is overwritten
    #[arg(long, default_value_t = 10)]
    times: u64,
    /// Rate of the paced part, in percent of the rate of the closed loop
    #[arg(long, default_value_t = 70)]
    paced: u64,
    /// Clients, each with one durable write under way
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// KiB of a segment; on an array rounded down to whole stripes, at least one
    #[arg(long, default_value_t = 1024)]
    segment_kib: u32,
    /// Put the home on an array of --disks drives, in stripe units of 64 KiB
    #[arg(long, value_enum, requires = "disks")]
    redundancy: Option<Redundancy>,
    /// Drives of the array, without that of the log
    #[arg(long, requires = "redundancy")]
    disks: Option<usize>,
    /// MiB of payload in memory
    #[arg(long, default_value_t = 32)]
    memory_mib: u64,
    /// MiB of log
    #[arg(long, default_value_t = 64)]
    log_mib: u64,
}

/// Result of a run.
struct Figures {
    writes_per_s: f64,
    /// Bytes written home for each byte that clients wrote.
    amplification: f64,
    /// Bytes written home for each byte that came home. Writes that were superseded in memory do not count.
    home_amplification: f64,
    /// Of the closed loop; none without an array.
    array: Option<ArrayFigures>,
    saturated: Waits,
    /// With writes at a fixed share of the rate of the closed loop.
    paced: Waits,
}

/// What an array did in the closed loop.
struct ArrayFigures {
    /// Its counters at the begin and the end.
    stats: [RaidStats; 2],
    /// Operations of all drives, that of the log among them; flushes count.
    drive_ios: u64,
    writes: u64,
}

impl ArrayFigures {
    /// Cells of the table: each number by 1000 writes of clients.
    fn cells(&self) -> Vec<String> {
        let [from, to] = &self.stats;
        let numbers = [
            to.full_writes - from.full_writes,
            to.read_modify_writes - from.read_modify_writes,
            to.reconstruct_writes - from.reconstruct_writes,
            to.coalesced - from.coalesced,
            self.drive_ios,
        ];
        let by_thousand = |number| format!("{:.0}", number as f64 * 1000.0 / self.writes as f64);
        numbers.into_iter().map(by_thousand).collect()
    }
}

/// Times of durable writes.
#[derive(Clone)]
struct Waits {
    latencies: Histogram<u64>,
    stalls: u64,
}

/// Runs all drives and layouts, and prints a table.
///
/// # Errors
/// When the engine fails, or a block does not read as it was written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.utilisations.iter().all(|u| (25..=98).contains(u)),
        "utilisations are from 25 to 98"
    );
    ensure!((1..=100).contains(&args.paced), "--paced is a percentage");
    let array = args.array()?;
    let segment_bytes = args.segment_bytes(array)?;
    let mut arrays = table([
        "drive",
        "layout",
        "of overwrite",
        "whole stripes",
        "parts of stripes: read old data, parity",
        "read the rest",
        "shared",
        "drive I/Os",
    ]);
    let mut table = table([
        "drive",
        "layout",
        "writes/s",
        "written home / written",
        "/ written back",
        "saturated: p50 ms",
        "p99.9 ms",
        "longest ms",
        "over 100 ms",
        "paced: p50 ms",
        "p99.9 ms",
        "longest ms",
        "over 100 ms",
    ]);
    for drive in &args.drives {
        let mut homes = vec![("overwrite".to_owned(), HomeParams::Overwrite)];
        for percent in &args.utilisations {
            for layout in &args.layouts {
                let home = HomeParams::Segments {
                    segment_bytes,
                    spare_percent: 100 - percent,
                    placement: match layout {
                        Layout::Segments => Placement::Append,
                        Layout::Wolf => Placement::Wolf,
                        Layout::Hylog => Placement::Hylog,
                    },
                };
                let name = format!("{layout:?} {percent} %").to_lowercase();
                homes.push((name, home));
            }
        }
        let mut overwrite = None;
        for (name, home) in homes {
            let figures =
                one(args, drive, home, array).with_context(|| format!("{drive}, {name}"))?;
            let base = *overwrite.get_or_insert(figures.writes_per_s);
            if let Some(array) = &figures.array {
                let ratio = format!("{:.2}", figures.writes_per_s / base);
                let cells = [drive.clone(), name.clone(), ratio].into_iter();
                arrays.add_row(cells.chain(array.cells()));
            }
            let mut row = vec![
                drive.clone(),
                name.clone(),
                format!("{:.0}", figures.writes_per_s),
                format!("{:.2}", figures.amplification),
                format!("{:.2}", figures.home_amplification),
            ];
            for Waits { latencies, stalls } in [&figures.saturated, &figures.paced] {
                let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
                row.push(ms(latencies.value_at_quantile(0.5)));
                row.push(ms(latencies.value_at_quantile(0.999)));
                row.push(ms(latencies.max()));
                row.push(stalls.to_string());
            }
            table.add_row(row);
            eprintln!("{drive}, {name}: {:.0} writes/s", figures.writes_per_s);
        }
    }
    if let Some(array) = array {
        println!(
            "Home on {}, log on one drive more; segments of {} KiB.\n",
            array.describe(),
            segment_bytes >> 10
        );
    }
    println!("{table}");
    if array.is_some() {
        println!("\nThe array, for each 1000 writes of clients:\n\n{arrays}");
    }
    Ok(())
}

impl Args {
    fn array(&self) -> anyhow::Result<Option<Array>> {
        let (Some(redundancy), Some(disks)) = (self.redundancy, self.disks) else {
            return Ok(None);
        };
        let level = match redundancy {
            Redundancy::Raid0 => ArrayLevel::Raid0,
            Redundancy::Raid5 => ArrayLevel::Raid5,
        };
        Array::new(level, disks).map(Some)
    }

    fn segment_bytes(&self, array: Option<Array>) -> anyhow::Result<u32> {
        let bytes = self.segment_kib.checked_mul(1 << 10);
        let bytes = bytes.context("--segment-kib is too large")?;
        Ok(array.map_or(bytes, |array| array.segment_bytes(bytes)))
    }
}

/// State that all clients share.
struct Work {
    running: Running,
    blocks: Blocks,
    /// Number of writes still to be made.
    left: Cell<u64>,
    latencies: RefCell<Histogram<u64>>,
    stalls: Cell<u64>,
    /// Percent of the writes that go to the hot blocks.
    hot: Option<u64>,
}

fn one(
    args: &Args,
    drive: &str,
    home: HomeParams,
    array: Option<Array>,
) -> anyhow::Result<Figures> {
    let blocks = args.mib << 8;
    let drives = [spec(drive)?, spec(drive)?];
    let store = Store::create(blocks, args.log_mib << 20, home, array)?;
    let running = store.start(&Settings {
        seed: 1,
        drives: Some(&drives),
        power_cuts: false,
        split: false,
    });
    let own = running.clone();
    let (memory_bytes, clients, writes) =
        (args.memory_mib << 20, args.clients, args.times * blocks);
    let (paced, hot) = (args.paced, args.hot);
    let separation_interval = Nanos::from_secs(args.separation_interval);
    let figures = running.rt.block_on(async move {
        let options = OpenOptions {
            memory_bytes,
            separation_interval,
            ..OpenOptions::default()
        };
        let engine = own.open(options).await?;
        let work = Rc::new(Work {
            blocks: Blocks::new(engine.clone(), blocks, memory_bytes, true),
            running: own,
            left: Cell::new(0),
            latencies: RefCell::new(Histogram::new_with_max(LATENCY_NS_MAX, 3)?),
            stalls: Cell::new(0),
            hot,
        });
        for first in (0..blocks).step_by(FILL_BLOCKS as usize) {
            let all = first..blocks.min(first + FILL_BLOCKS);
            work.blocks.commit(all).await?;
        }
        work.overwrite(clients, writes / 5, 1).await?;
        work.waits();
        let (from, since) = (engine.stats(), work.running.rt.now());
        let (raid, ios) = (work.raid(), work.running.world.ios());
        work.overwrite(clients, writes, 2).await?;
        let (to, until) = (engine.stats(), work.running.rt.now());
        let array = raid.zip(work.raid()).map(|(from, to)| ArrayFigures {
            stats: [from, to],
            drive_ios: work.running.world.ios() - ios,
            writes,
        });
        let saturated = work.waits();
        let interval = (until - since) * 100 / (writes * paced);
        // The paced part starts with an empty backlog.
        engine.drain().await?;
        work.paced(interval, writes / 5).await?;
        let paced = work.waits();
        work.blocks.check().await?;
        engine.close().await?;
        let home_bytes = (to.home_write_bytes - from.home_write_bytes) as f64;
        let come = (to.written_back_blocks - from.written_back_blocks) * BLOCK as u64;
        anyhow::Ok(Figures {
            writes_per_s: writes as f64 * 1e9 / (until - since) as f64,
            amplification: home_bytes / (writes * BLOCK as u64) as f64,
            home_amplification: home_bytes / come as f64,
            array,
            saturated,
            paced,
        })
    })?;
    running.rt.shut_down();
    Ok(figures)
}

impl Work {
    async fn overwrite(
        self: &Rc<Self>,
        clients: u64,
        writes: u64,
        seed: u64,
    ) -> anyhow::Result<()> {
        self.left.set(writes);
        let handles: Vec<_> = (0..clients)
            .map(|client| {
                let work = self.clone();
                self.running
                    .rt
                    .spawn(async move { work.client(seed << 32 | client).await })
            })
            .collect();
        for handle in handles {
            handle.await.context("a client")?;
        }
        Ok(())
    }

    async fn client(&self, seed: u64) -> Result<(), EngineError> {
        let mut random = Random(Random(seed).number());
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            self.write(random.number()).await?;
        }
        Ok(())
    }

    /// Counters of the array.
    fn raid(&self) -> Option<RaidStats> {
        self.blocks.engine.array().map(|array| array.stats)
    }

    /// Makes `writes` writes, one every `interval` ns, without waiting for earlier ones.
    async fn paced(self: &Rc<Self>, interval: u64, writes: u64) -> anyhow::Result<()> {
        let mut random = Random(3 << 32);
        let mut handles = Vec::with_capacity(writes as usize);
        for _ in 0..writes {
            self.running.rt.sleep(Nanos(interval)).await;
            let (work, random) = (self.clone(), random.number());
            let write = async move { work.write(random).await };
            handles.push(self.running.rt.spawn(write));
        }
        for handle in handles {
            handle.await.context("a write")?;
        }
        Ok(())
    }

    /// Makes a durable write of one block and records its time.
    async fn write(&self, random: u64) -> Result<(), EngineError> {
        let blocks = self.blocks.count();
        let index = match self.hot {
            // Every tenth block is hot.
            Some(share) if random >> 32 < (u64::from(u32::MAX) * share) / 100 => {
                random % (blocks / 10) * 10
            }
            _ => random % blocks,
        };
        let since = self.running.rt.now();
        self.blocks.commit(index..index + 1).await?;
        let took = self.running.rt.now() - since;
        self.latencies.borrow_mut().saturating_record(took);
        let stalls = self.stalls.get() + u64::from(took > STALL_NS_MAX);
        self.stalls.set(stalls);
        Ok(())
    }

    /// The waits that were recorded since the last call.
    fn waits(&self) -> Waits {
        let latencies = self.latencies.borrow().clone();
        self.latencies.borrow_mut().reset();
        Waits {
            latencies,
            stalls: self.stalls.take(),
        }
    }
}
