//! `tonearm-bench-virtual`: how much processor time the whole engine takes for a commit when devices cost
//! nothing: on simulated drives, in virtual time.
//!
//! Many clients in a closed loop each commit one block and wait until it is durable: log write and flush,
//! write-back to the home, release of the log's tracks. The figure is of the steady state: the log has gone
//! round before the measurement begins and goes round many times during it. Afterwards every block is read
//! back and compared, so that a fast engine that loses blocks is no result.

#![forbid(unsafe_code)]

mod meter;
mod report;
mod run;
mod world;

use anyhow::Context;
use clap::Parser;
use run::Shape;

/// What the product uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures commits per second of processor time, in virtual time.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-virtual             medians of 5 rounds
  tonearm-bench-virtual --quick     one short round: does it work, not how fast it is
  tonearm-bench-virtual --json      all rounds")]
struct Args {
    /// One short round: a rehearsal, no result
    #[arg(long)]
    quick: bool,
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
    #[arg(long, default_value_t = 16)]
    memory_mib: u64,
    /// MiB of log
    #[arg(long, default_value_t = 32)]
    log_mib: u64,
    /// Measure what the simulated world takes of it (and pay for the measuring)
    #[arg(long)]
    split: bool,
    /// Print JSON with all rounds
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 5 });
    let commits = args
        .commits
        .unwrap_or(if args.quick { 100_000 } else { 1_000_000 });
    let shape = Shape {
        commits,
        clients: args.clients,
        blocks: args.blocks,
        memory_bytes: args.memory_mib << 20,
        log_bytes: args.log_mib << 20,
        split: args.split,
    };
    let mut results = Vec::new();
    for round in 0..rounds {
        let figures = run::round(&shape, round as u64).context("the engine in virtual time")?;
        eprintln!("{}", report::line(&figures, round + 1, rounds));
        results.push(figures);
    }
    report::print(&shape, &results, args.json)
}
