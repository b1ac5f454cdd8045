//! `tonearm-bench-peers`: compares Tonearm with `nbdkit file` and `qemu-nbd`.
//!
//! All servers use the same file system in the same run. In each round every server runs each workload in turn, and the
//! order rotates from round to round. A server is restarted for each sample and the file system is synced between
//! samples, so that no server pays for writes of another one. A sample waits for a quiet machine, and what other
//! programs used meanwhile is recorded with it.

#![forbid(unsafe_code)]

mod archive;
mod client;
mod content;
mod fio;
mod guest;
mod layouts;
mod no_disk;
mod probe;
mod recorder;
mod recovery;
mod report;
mod sample;
mod server;
mod traffic;
mod workload;

use anyhow::Context;
use clap::Parser;
use report::Run;
use sample::Bench;
use std::path::PathBuf;
use std::process::ExitCode;
use tonearm_bench::options::{self, Common};
use tonearm_bench::report::print_json;
use tonearm_bench::rounds::{Samples, rotated};
use tonearm_bench::{folder, machine};
use workload::WORKLOADS;

/// Measures Tonearm and its peers on this machine's disk.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-peers                      everything: medians of 5 rounds, about an hour
  tonearm-bench-peers --quick              one short round: does it work, not how fast it is
  tonearm-bench-peers --only flush-1       one workload (may be repeated)
  tonearm-bench-peers --json > run.json    all samples")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Seconds of each sample [default: 5, or 1 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Seconds of each sample of sustained writing [default: 60, or 5 with --quick]
    #[arg(long)]
    sustained_seconds: Option<u64>,
    /// Where the targets are made: the file system that is measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Where archives are made, in a folder of their own that is removed again [default: as --dir]
    #[arg(long)]
    archive_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    options::end(run())
}

fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let common = &args.common;
    let workloads = WORKLOADS
        .iter()
        .map(|workload| (workload.name, workload.title));
    let parts = [
        (recovery::NAME, recovery::TITLE),
        (recorder::NAME, recorder::TITLE),
        (archive::NAME, archive::TITLE),
        (guest::NAME, guest::TITLE),
        (no_disk::NAME, no_disk::TITLE),
        (layouts::NAME, layouts::TITLE),
    ];
    let known: Vec<_> = workloads.chain(parts).collect();
    if common.list {
        options::print_names(&known, 16);
        return Ok(());
    }
    options::check_names(&common.only, "workload", &known)?;
    server::check_tools()?;
    let bench = Bench::prepare(&args).context("cannot make the targets")?;
    let mut samples = Vec::new();
    for round in 0..bench.rounds.count {
        for workload in WORKLOADS
            .iter()
            .filter(|workload| common.wants(workload.name))
        {
            for kind in rotated(&workload.servers(), round) {
                samples.push(bench.sample(workload, kind, round)?);
            }
        }
    }
    let bench = &bench;
    let samples = Samples(samples);
    let run = Run {
        log_size: common.log_size.clone(),
        workloads: report::ratios(&samples),
        samples,
        recoveries: common.each(
            recovery::NAME,
            &[()],
            |(), _| recovery::measure(bench),
            &recovery::COLUMNS,
        )?,
        recorders: common.each(
            recorder::NAME,
            &recorder::LOADS,
            |name, round| recorder::measure(bench, name, round),
            &recorder::COLUMNS,
        )?,
        archives: common.each(
            archive::NAME,
            &archive::LOADS,
            |name, round| archive::measure(bench, name, round),
            &archive::COLUMNS,
        )?,
        restores: common.each(
            archive::NAME,
            &[()],
            |(), round| archive::measure_restore(bench, round),
            &archive::RESTORE,
        )?,
        guests: common.each(
            guest::NAME,
            &guest::DEPTHS,
            |depth, round| guest::measure(bench, depth, round),
            &guest::COLUMNS,
        )?,
        disks: common.each(
            no_disk::NAME,
            &[()],
            |(), round| no_disk::measure(bench, round),
            &no_disk::COLUMNS,
        )?,
        layouts: match common.wants(layouts::NAME) {
            true => layouts::measure(bench, common.quick).context(layouts::NAME)?,
            false => Vec::new(),
        },
        machine: machine::describe(&bench.dir, &["nbdkit", "qemu-nbd", "fio"]),
    };
    folder::remove(&bench.dir)?;
    match common.json {
        true => print_json(&run),
        false => {
            run.print();
            Ok(())
        }
    }
}
