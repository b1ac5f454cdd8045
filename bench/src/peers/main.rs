//! `tonearm-bench-peers`: Tonearm against `nbdkit file` and `qemu-nbd`, side by side.
//!
//! Same file system, same run: in each round every server takes each workload in turn, and the order
//! rotates from round to round. Servers are started anew for each sample and the file system is synced
//! between samples, so that nobody pays for what another left behind. A sample waits for a quiet machine;
//! what else ran meanwhile is recorded beside it.

#![forbid(unsafe_code)]

mod client;
mod fio;
mod recovery;
mod report;
mod sample;
mod server;
mod workload;

use anyhow::{Context, bail};
use clap::Parser;
use sample::{Bench, Sample};
use std::path::PathBuf;
use tonearm_bench::machine;
use workload::WORKLOADS;

/// Measures Tonearm and its peers on this machine's disk.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-peers                      everything: medians of 5 rounds, about 40 minutes
  tonearm-bench-peers --quick              one short round: does it work, not how fast it is
  tonearm-bench-peers --only flush-1       one workload (may be repeated)
  tonearm-bench-peers --json > run.json    all samples")]
pub struct Args {
    /// Short samples and one round: a rehearsal, no result
    #[arg(long)]
    quick: bool,
    /// Only this workload, or `recovery` (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Rounds [default: 5, or 1 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each sample [default: 5, or 1 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Seconds of each sample of sustained writing [default: 60, or 5 with --quick]
    #[arg(long)]
    sustained_seconds: Option<u64>,
    /// Log of Tonearm's store: what a store of 2 GiB or more has by default
    #[arg(long, default_value = "1GiB")]
    log_size: String,
    /// Where the targets are made: the file system that is measured
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The program that is measured
    #[arg(long, default_value = "target/release/tonearm")]
    tonearm: PathBuf,
    /// Longest wait for a quiet machine before a sample
    #[arg(long, default_value_t = 10)]
    quiet_seconds_max: u64,
    /// Names of the workloads
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
        println!("{:16} {}", recovery::NAME, recovery::TITLE);
        return Ok(());
    }
    for name in &args.only {
        if name != recovery::NAME && WORKLOADS.iter().all(|workload| workload.name != *name) {
            bail!("no workload '{name}'; --list names them");
        }
    }
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let quick = |value: Option<u64>, short: u64, long: u64| {
        value.unwrap_or(if args.quick { short } else { long })
    };
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 5 });
    let mut bench = Bench {
        dir: args.dir.clone(),
        tonearm: args.tonearm.clone(),
        log_size: args.log_size.clone(),
        seconds: quick(args.seconds, 1, 5),
        sustained_seconds: quick(args.sustained_seconds, 5, 60),
        quiet_seconds_max: if args.quick {
            0
        } else {
            args.quiet_seconds_max
        },
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
    bench.clean_up();
    let machine = machine::describe(&args.dir, &["nbdkit", "qemu-nbd", "fio"]);
    if args.json {
        report::json(&machine, &args.log_size, &samples, &recoveries)
    } else {
        report::tables(&machine, &args.log_size, &samples, &recoveries);
        Ok(())
    }
}
