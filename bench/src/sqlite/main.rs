//! `tonearm-bench-sqlite`: SQLite on Tonearm against SQLite on files of the same file system.
//!
//! One process, one SQLite library for all: what differs is the VFS and the pragmas. In each round every
//! contender takes each workload in turn, and the order rotates from round to round, so that a ratio is of
//! two samples of the same minutes. Each sample begins with a database of its own, freshly loaded and
//! written out. A sample waits for a quiet machine; what else ran meanwhile is recorded beside it.

#![forbid(unsafe_code)]

mod contender;
mod disk_io;
mod load;
mod report;
mod sample;
mod target;
mod workload;

use anyhow::{Context, bail};
use clap::Parser;
use contender::CONTENDERS;
use sample::{Bench, Sample};
use std::path::PathBuf;
use tonearm_bench::machine;
use workload::WORKLOADS;

/// What the product uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures SQLite on Tonearm and on plain files, on this machine's disk.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-sqlite                       everything: medians of 5 rounds, about 25 minutes
  tonearm-bench-sqlite --quick               one short round: does it work, not how fast it is
  tonearm-bench-sqlite --only update-10      one workload (may be repeated)
  tonearm-bench-sqlite --with wal-full --with tonearm-full
                                             two contenders
  tonearm-bench-sqlite --json > run.json     all samples")]
struct Args {
    /// Short samples and one round: a rehearsal, no result
    #[arg(long)]
    quick: bool,
    /// Only this workload (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this contender (may be repeated)
    #[arg(long, value_name = "NAME")]
    with: Vec<String>,
    /// Rounds [default: 5, or 1 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each sample [default: 4, or 1 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Rows of the table before a sample
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Log of Tonearm's store: what a store of 2 GiB or more has by default
    #[arg(long, default_value = "1GiB")]
    log_size: String,
    /// Where the databases are made: the file system that is measured
    #[arg(long, default_value = "target/bench-sqlite")]
    dir: PathBuf,
    /// The program that makes the store
    #[arg(long, default_value = "target/release/tonearm")]
    tonearm: PathBuf,
    /// Longest wait for a quiet machine before a sample
    #[arg(long, default_value_t = 10)]
    quiet_seconds_max: u64,
    /// Names of workloads and contenders
    #[arg(long)]
    list: bool,
    /// Print JSON with all samples
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.list {
        for workload in WORKLOADS {
            println!("{:16} {}", workload.name, workload.title);
        }
        println!();
        for contender in CONTENDERS {
            println!("{:20} {}", contender.name, contender.title);
        }
        return Ok(());
    }
    for name in &args.only {
        if WORKLOADS.iter().all(|workload| workload.name != *name) {
            bail!("no workload '{name}'; --list names them");
        }
    }
    for name in &args.with {
        if CONTENDERS.iter().all(|contender| contender.name != *name) {
            bail!("no contender '{name}'; --list names them");
        }
    }
    let wanted = |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let workloads = WORKLOADS.iter().filter(|it| wanted(&args.only, it.name));
    let workloads: Vec<_> = workloads.collect();
    let contenders = CONTENDERS.iter().filter(|it| wanted(&args.with, it.name));
    let contenders: Vec<_> = contenders.collect();
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 5 });
    let bench = Bench::prepare(&args).context("cannot prepare")?;
    let mut samples: Vec<Sample> = Vec::new();
    for round in 0..rounds {
        for workload in &workloads {
            for turn in 0..contenders.len() {
                let contender = contenders[(turn + round) % contenders.len()];
                let sample = bench
                    .sample(workload, contender, round)
                    .with_context(|| format!("{} on {}", workload.name, contender.name))?;
                eprintln!("{}", sample.line(round + 1, rounds));
                samples.push(sample);
            }
        }
    }
    let machine = machine::describe(&args.dir, &[]);
    bench.clean_up();
    if args.json {
        report::json(&machine, &args.log_size, &samples)
    } else {
        report::tables(&machine, &args.log_size, &samples);
        Ok(())
    }
}
