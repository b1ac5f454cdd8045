//! `tonearm-bench-mount`: compares a mount of Tonearm with ext4 and with a passthrough FUSE file system.
//!
//! All three are on the same disk in the same run. ext4 has its journal, and is on a loop device with direct I/O over a file whose
//! blocks are written before. The passthrough file system is this program's own, over a folder of that ext4. In each round
//! every contender runs each workload in turn, and the order rotates from round to round. A sample waits for a quiet
//! machine, and what other programs used meanwhile is recorded with it.
//!
//! Mounts are made in a mount namespace of this program's own (unshare(1)), and the loop device is one that goes with its last
//! user. So nothing stays mounted when the program is interrupted or killed. The next run removes the files that are left.

#![forbid(unsafe_code)]

mod contender;
mod ext4;
mod load;
mod passthrough;
mod passthrough_files;
mod report;
mod sample;
mod workload;

use anyhow::{Context, bail};
use clap::Parser;
use contender::Kind;
use report::Run;
use sample::Bench;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tonearm_bench::machine;
use tonearm_bench::options::{self, Common};
use tonearm_bench::report::print_json;
use tonearm_bench::rounds::{Samples, rotated};
use workload::WORKLOADS;

/// Set in the program that is in its own mount namespace.
const INSIDE: &str = "TONEARM_BENCH_MOUNT_INSIDE";

/// Compares a mount of Tonearm with ext4 and a passthrough file system, on this machine's disk. Needs root.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-bench-mount                      everything: medians of 5 rounds, about 15 minutes
  tonearm-bench-mount --quick              one short round: does it work, not how fast it is
  tonearm-bench-mount --only varmail       one workload (may be repeated)
  tonearm-bench-mount --json > run.json    all samples")]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Seconds of each sample that has no fixed amount of work [default: 5, or 1 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Files of `small-files` [default: 50000, or 5000 with --quick]
    #[arg(long)]
    files: Option<u64>,
    /// MiB of the sequential file [default: 1024, or 128 with --quick]
    #[arg(long)]
    sequential_mib: Option<u64>,
    /// Size of the store, and of ext4's file in MiB
    #[arg(long, default_value_t = 4096)]
    mib: u64,
    /// Where both are made: the file system that is measured
    #[arg(long, default_value = "target/bench-mount")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    options::end(run())
}

fn run() -> anyhow::Result<()> {
    let mut words = std::env::args_os().skip(1);
    if words
        .next()
        .is_some_and(|word| word == passthrough::COMMAND)
    {
        let (source, place) = (words.next(), words.next());
        let (source, place) = source.zip(place).context("SOURCE and PLACE")?;
        return passthrough::serve(Path::new(&source), Path::new(&place));
    }
    let args = Args::parse();
    let common = &args.common;
    let known = WORKLOADS
        .iter()
        .map(|workload| (workload.name, workload.title));
    let known: Vec<_> = known.collect();
    if common.list {
        options::print_names(&known, 16);
        return Ok(());
    }
    options::check_names(&common.only, "workload", &known)?;
    if !rustix::process::geteuid().is_root() {
        bail!("mounting ext4 on a loop device needs root");
    }
    if std::env::var_os(INSIDE).is_none() {
        let error = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--"])
            .arg(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(INSIDE, "1")
            .exec();
        return Err(error).context("cannot run unshare (apt-get install util-linux)");
    }
    let bench = Bench::prepare(&args).context("cannot prepare")?;
    let mut samples = Vec::new();
    for round in 0..common.rounds().count {
        for workload in WORKLOADS
            .iter()
            .filter(|workload| common.wants(workload.name))
        {
            for kind in rotated(&Kind::ALL, round) {
                samples.push(bench.sample(workload, kind, round)?);
            }
        }
    }
    let samples = Samples(samples);
    let run = Run {
        machine: machine::describe(&args.dir, &[]),
        log_size: common.log_size.clone(),
        ratios: report::ratios(&samples),
        samples,
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
