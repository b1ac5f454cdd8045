//! `tonearm-bench-sqlite`: compares SQLite on Tonearm with SQLite on files of the same file system.
//!
//! All contenders run in one process with one SQLite library, and differ only in the VFS and the pragmas. In each round
//! every contender runs each workload in turn, and the order rotates from round to round. The two samples of a ratio
//! are therefore taken within a few minutes. Each sample begins with its own database, newly filled and written out. A
//! sample waits for a quiet machine, and what other programs used meanwhile is recorded with it. Each round also
//! measures how long the disk itself takes to write a block.

#![forbid(unsafe_code)]

mod archive;
mod bare;
mod contender;
mod disk_io;
mod load;
mod report;
mod sample;
mod target;
mod workload;

use anyhow::Context;
use bare::Bare;
use clap::Parser;
use contender::CONTENDERS;
use sample::{Bench, Sample};
use std::path::PathBuf;
use std::process::ExitCode;
use tonearm_bench::machine;
use tonearm_bench::options::{self, Common};
use workload::WORKLOADS;

/// The allocator of the `tonearm` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures SQLite on Tonearm and on plain files, on this machine's disk.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-sqlite                       everything: medians of 5 rounds, about 35 minutes
  tonearm-bench-sqlite --quick               one short round: does it work, not how fast it is
  tonearm-bench-sqlite --only update-10      one workload (may be repeated)
  tonearm-bench-sqlite --only archive        what an archive costs, compared with Litestream
  tonearm-bench-sqlite --with wal-full --with tonearm-full
                                             two contenders
  tonearm-bench-sqlite --json > run.json     all samples")]
struct Args {
    #[command(flatten)]
    common: Common,
    /// Only this contender (may be repeated)
    #[arg(long, value_name = "NAME")]
    with: Vec<String>,
    /// Seconds of each sample [default: 4, or 1 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Rows of the table before a sample
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Litestream, with which the archive is compared
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "target/tools/litestream"
    )]
    litestream: PathBuf,
    /// Where the databases are made: the file system that is measured
    #[arg(long, default_value = "target/bench-sqlite")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    options::end(run())
}

fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let common = &args.common;
    if common.list {
        for workload in WORKLOADS {
            println!("{:16} {}", workload.name, workload.title);
        }
        println!("{:16} {}", archive::NAME, archive::TITLE);
        println!();
        for contender in CONTENDERS {
            println!("{:20} {}", contender.name, contender.title);
        }
        return Ok(());
    }
    let names = WORKLOADS.iter().map(|it| it.name);
    let names: Vec<_> = names.chain([archive::NAME]).collect();
    options::check_names(&common.only, "workload", &names)?;
    let names: Vec<_> = CONTENDERS.iter().map(|it| it.name).collect();
    options::check_names(&args.with, "contender", &names)?;
    let workloads = WORKLOADS.iter();
    let workloads = workloads.filter(|it| options::wanted(&common.only, it.name));
    let workloads: Vec<_> = workloads.collect();
    let contenders = CONTENDERS.iter();
    let contenders = contenders.filter(|it| options::wanted(&args.with, it.name));
    let contenders: Vec<_> = contenders.collect();
    let rounds = common.rounds();
    let copiers = match options::wanted(&common.only, archive::NAME) {
        true => archive::copiers(&args.with, &args.litestream),
        false => Vec::new(),
    };
    let bench = Bench::prepare(&args).context("cannot prepare")?;
    let mut samples: Vec<Sample> = Vec::new();
    let mut disk: Vec<Bare> = Vec::new();
    for round in 0..rounds {
        let bare = bench.bare(round).context("writing bare blocks")?;
        eprintln!("{}", bare.line(round + 1, rounds));
        disk.push(bare);
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
    let mut pairs = Vec::new();
    for round in 0..rounds {
        for workload in archive::loads() {
            for copier in &copiers {
                let pair = archive::measure(&bench, workload, *copier, &args.litestream, round)
                    .with_context(|| format!("{} by {}", archive::NAME, copier.name()))?;
                eprintln!("{}", pair.lines(round + 1, rounds));
                pairs.push(pair);
            }
        }
    }
    let machine = machine::describe(&args.dir, &[]);
    bench.clean_up();
    if common.json {
        report::json(&machine, &common.log_size, &disk, &samples, &pairs)
    } else {
        report::tables(&machine, &common.log_size, &disk, &samples, &pairs);
        Ok(())
    }
}
