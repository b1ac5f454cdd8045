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
use clap::Parser;
use contender::CONTENDERS;
use report::Run;
use sample::Bench;
use std::path::PathBuf;
use std::process::ExitCode;
use tonearm_bench::machine;
use tonearm_bench::options::{self, Common};
use tonearm_bench::report::print_json;
use tonearm_bench::rounds::{Samples, rotated};
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
    let workloads = WORKLOADS.iter().map(|it| (it.name, it.title));
    let workloads: Vec<_> = workloads.chain([(archive::NAME, archive::TITLE)]).collect();
    let contenders = CONTENDERS.iter().map(|it| (it.name, it.title));
    let contenders: Vec<_> = contenders.collect();
    if common.list {
        options::print_names(&workloads, 16);
        println!();
        options::print_names(&contenders, 20);
        return Ok(());
    }
    options::check_names(&common.only, "workload", &workloads)?;
    options::check_names(&args.with, "contender", &contenders)?;
    let contenders = CONTENDERS.iter();
    let contenders = contenders.filter(|it| options::wanted(&args.with, it.name));
    let contenders: Vec<_> = contenders.collect();
    let copiers = match common.wants(archive::NAME) {
        true => archive::copiers(&args.with, &args.litestream),
        false => Vec::new(),
    };
    let bench = Bench::prepare(&args).context("cannot prepare")?;
    let (mut samples, mut disk) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds.count {
        disk.push(bench.bare(round).context("writing bare blocks")?);
        for workload in WORKLOADS.iter().filter(|it| common.wants(it.name)) {
            for contender in rotated(&contenders, round) {
                samples.push(bench.sample(workload, contender, round)?);
            }
        }
    }
    let loads = archive::loads().flat_map(|load| copiers.iter().map(move |copier| (load, *copier)));
    let loads: Vec<_> = loads.collect();
    let measure = |(workload, copier), round| {
        archive::measure(&bench, workload, copier, &args.litestream, round)
    };
    let archives = common.each(archive::NAME, &loads, measure, &archive::COLUMNS)?;
    let samples = Samples(samples);
    let run = Run {
        sqlite: rusqlite::version(),
        machine: machine::describe(&args.dir, &[]),
        log_size: common.log_size.clone(),
        ratios: report::ratios(&samples),
        bounds: report::bounds(&samples, &disk),
        disk,
        samples,
        archives,
    };
    bench.clean_up();
    match common.json {
        true => print_json(&run),
        false => {
            run.print();
            Ok(())
        }
    }
}
