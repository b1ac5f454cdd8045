//! `tonearm-bench-virtual`: measures the processor time of the whole engine for a commit, on simulated drives in
//! virtual time. Devices take no real time.
//!
//! Clients in a closed loop commit one block each and wait until it is durable. The work is a log write and a flush,
//! write-back to the home, and release of the log's tracks. The figure is that of the steady state: the log has gone
//! round before the measurement begins, and wraps around many times during it. Afterwards every block is read and
//! compared, so that an engine that loses blocks fails the benchmark.

#![forbid(unsafe_code)]

mod array;
mod arus;
mod blocks;
mod layouts;
mod map;
mod meter;
mod pages;
mod report;
mod run;
mod world;

use anyhow::Context;
use clap::Parser;
use report::Run;
use run::Shape;
use std::process::ExitCode;
use tonearm_bench::options;
use tonearm_drive_file::{DriveFile, DriveSpec};

/// The allocator of the `tonearm` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures commits per second of processor time, in virtual time.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-virtual                   medians of 5 rounds, in all worlds; then atomic recovery units
  tonearm-bench-virtual --quick           one short round: does it work, not how fast it is
  tonearm-bench-virtual --world latency   no mechanics: the engine's own time, as far as possible
  tonearm-bench-virtual --json            all rounds
  tonearm-bench-virtual units             atomic recovery units alone, in seconds
  tonearm-bench-virtual layouts           random overwrites: the segments layout compared with overwrite
  tonearm-bench-virtual map               memory of a store of 1 TiB of which every block is mapped
  tonearm-bench-virtual pages             speed and memory of the lab's simulator of disk layouts")]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// One short round: a rehearsal, no result
    #[arg(long)]
    quick: bool,
    /// Drives with random latencies, or mechanical ones, or contents that are all new [default: one after the other]
    #[arg(long)]
    world: Option<WorldKind>,
    /// Rounds [default: 5, or 1 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Commits measured in a round [default: 1000000, or 100000 with --quick]
    #[arg(long)]
    commits: Option<u64>,
    /// Clients, each with one commit under way
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// Blocks of 4 KiB that the clients write, at random
    #[arg(long, default_value_t = 65536)]
    blocks: u64,
    /// MiB of payload in memory
    #[arg(long, default_value_t = 8)]
    memory_mib: u64,
    /// MiB of log
    #[arg(long, default_value_t = 32)]
    log_mib: u64,
    /// Mechanical drive of the log
    #[arg(long, default_value = "st41601n")]
    log_drive: String,
    /// Mechanical drive of the home
    #[arg(long, default_value = "atlas10k")]
    home_drive: String,
    /// Keep account of what a power cut may take, as crash tests do
    #[arg(long)]
    power_cuts: bool,
    /// Measure the simulated world's share of the processor time, which adds the cost of measuring
    #[arg(long)]
    split: bool,
    /// Print JSON with all rounds
    #[arg(long)]
    json: bool,
}

/// Measurements that are not part of a plain run.
#[derive(clap::Subcommand)]
enum Part {
    /// What atomic recovery units take of the processor: empty, one after the other, side by side
    Units(arus::Args),
    /// Random 4-KiB overwrites of a full store on mechanical drives, in both layouts
    Layouts(layouts::Args),
    /// Memory of the segments layout when every block is mapped
    Map(map::Args),
    /// Page requests for each second of processor time, and memory, of the simulator of disk layouts
    Pages(pages::Args),
}

/// What decides the times of the simulated drives.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WorldKind {
    /// Random latencies.
    Latency,
    /// Models of mechanical drives.
    Drives,
    /// Random latencies, and contents of which every word is new.
    AllNew,
}

impl Args {
    fn shape(&self, world: WorldKind) -> anyhow::Result<Shape> {
        let drives = match world {
            WorldKind::Latency | WorldKind::AllNew => None,
            WorldKind::Drives => Some([spec(&self.log_drive)?, spec(&self.home_drive)?]),
        };
        let commits = if self.quick { 100_000 } else { 1_000_000 };
        Ok(Shape {
            drives,
            all_new: world == WorldKind::AllNew,
            commits: self.commits.unwrap_or(commits),
            clients: self.clients,
            blocks: self.blocks,
            memory_bytes: self.memory_mib << 20,
            log_bytes: self.log_mib << 20,
            power_cuts: self.power_cuts,
            split: self.split,
        })
    }
}

fn spec(name: &str) -> anyhow::Result<(String, DriveSpec)> {
    Ok((name.to_owned(), DriveFile::find(name)?.spec))
}

fn main() -> ExitCode {
    options::end(run())
}

fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    match &args.part {
        Some(Part::Units(args)) => return report::print_units(&arus::rounds(args)?, args.json),
        Some(Part::Layouts(args)) => return layouts::run(args),
        Some(Part::Map(args)) => return map::run(args),
        Some(Part::Pages(args)) => return pages::run(args),
        None => {}
    }
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 5 });
    let mut runs = Vec::new();
    // `AllNew` comes last because it needs the most memory. The peaks of the others are then their own.
    for world in [WorldKind::Latency, WorldKind::Drives, WorldKind::AllNew] {
        if args.world.is_some_and(|wanted| wanted != world) {
            continue;
        }
        let shape = args.shape(world)?;
        let mut results = Vec::new();
        for round in 0..rounds {
            let figures = run::round(&shape, round as u64).context("the engine in virtual time")?;
            eprintln!("{}", report::line(&shape, &figures, round + 1, rounds));
            results.push(figures);
        }
        runs.push(Run { shape, results });
    }
    let mut units = Vec::new();
    if args.world.is_none_or(|world| world == WorldKind::Latency) {
        units = arus::rounds(&arus::Args {
            rounds,
            units: if args.quick { 50_000 } else { 500_000 },
            json: args.json,
        })?;
    }
    report::print(&runs, &units, args.json)
}
