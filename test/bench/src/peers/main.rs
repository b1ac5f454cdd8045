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
use sample::{Bench, Sample};
use std::path::PathBuf;
use std::process::ExitCode;
use tonearm_bench::machine;
use tonearm_bench::options::{self, Common};
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
    if common.list {
        for workload in WORKLOADS {
            println!("{:16} {}", workload.name, workload.title);
        }
        println!("{:16} {}", recovery::NAME, recovery::TITLE);
        println!("{:16} {}", recorder::NAME, recorder::TITLE);
        println!("{:16} {}", archive::NAME, archive::TITLE);
        println!("{:16} {}", guest::NAME, guest::TITLE);
        println!("{:16} {}", no_disk::NAME, no_disk::TITLE);
        println!("{:16} {}", layouts::NAME, layouts::TITLE);
        return Ok(());
    }
    let known = WORKLOADS.iter().map(|workload| workload.name);
    let more = [
        recovery::NAME,
        recorder::NAME,
        archive::NAME,
        guest::NAME,
        no_disk::NAME,
        layouts::NAME,
    ];
    let known: Vec<_> = known.chain(more).collect();
    options::check_names(&common.only, "workload", &known)?;
    let wanted = |name: &str| options::wanted(&common.only, name);
    let rounds = common.rounds();
    let mut bench = Bench {
        dir: args.dir.clone(),
        archive_dir: args.archive_dir.clone().unwrap_or(args.dir.clone()),
        tonearm: common.tonearm.clone(),
        log_size: common.log_size.clone(),
        seconds: common.seconds(args.seconds, 1, 5),
        sustained_seconds: common.seconds(args.sustained_seconds, 5, 60),
        quiet_max: common.quiet_max(),
    };
    server::check_tools(&bench)?;
    bench.prepare().context("cannot make the targets")?;
    let mut samples: Vec<Sample> = Vec::new();
    for round in 0..rounds {
        for workload in WORKLOADS.iter().filter(|workload| wanted(workload.name)) {
            let servers = workload.servers();
            for turn in 0..servers.len() {
                let kind = servers[(turn + round) % servers.len()];
                let sample = bench
                    .sample(workload, kind, round)
                    .with_context(|| format!("{} on {}", workload.name, kind.name()))?;
                eprintln!("{}", sample.line(round + 1, rounds));
                samples.push(sample);
            }
        }
    }
    let mut recoveries = Vec::new();
    if wanted(recovery::NAME) {
        for round in 0..rounds {
            let recovery = recovery::measure(&bench).context("recovery")?;
            eprintln!("{}", recovery.line(round + 1, rounds));
            recoveries.push(recovery);
        }
    }
    let mut recorders = Vec::new();
    if wanted(recorder::NAME) {
        for round in 0..rounds {
            for name in recorder::LOADS {
                let load = recorder::workload(name)?;
                let pair = recorder::measure(&bench, load, round).context("recorder")?;
                eprintln!("{}", pair.lines(round + 1, rounds));
                recorders.push(pair);
            }
        }
    }
    let (mut archives, mut restores) = (Vec::new(), Vec::new());
    if wanted(archive::NAME) {
        for round in 0..rounds {
            for name in archive::LOADS {
                let pair = archive::measure(&bench, name, round).context("archive")?;
                eprintln!("{}", pair.lines(round + 1, rounds));
                archives.push(pair);
            }
            let restore = archive::measure_restore(&bench, round).context("restore")?;
            eprintln!("{}", restore.line(round + 1, rounds));
            restores.push(restore);
        }
    }
    let mut guests = Vec::new();
    if wanted(guest::NAME) {
        for round in 0..rounds {
            for depth in guest::DEPTHS {
                let pair = guest::measure(&bench, depth, round).context("vhost-user")?;
                eprintln!("{}", pair.lines(round + 1, rounds));
                guests.push(pair);
            }
        }
    }
    let mut disks = Vec::new();
    if wanted(no_disk::NAME) {
        for round in 0..rounds {
            let triple = no_disk::measure(&bench, round).context("no-disk")?;
            eprintln!("{}", triple.lines(round + 1, rounds));
            disks.push(triple);
        }
    }
    let mut cases = Vec::new();
    if wanted(layouts::NAME) {
        cases = layouts::measure(&bench, common.quick).context("layouts")?;
    }
    bench.clean_up();
    let run = Run {
        machine: machine::describe(&args.dir, &["nbdkit", "qemu-nbd", "fio"]),
        log_size: common.log_size.clone(),
        samples,
        recoveries,
        recorders,
        archives,
        restores,
        guests,
        disks,
        layouts: cases,
    };
    if common.json {
        return run.json();
    }
    run.print();
    Ok(())
}
