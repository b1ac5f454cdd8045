//! `tonearm-lab study`: which layout suits a trace.

use super::drive::{TraceFormat, device};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::{size, span};

/// `tonearm-lab study`.
#[derive(Args, Debug)]
#[command(after_help = "\
The trace is replayed on stores of Tonearm's own engine, on simulated drives in virtual time: in the
four layouts, at each utilisation, with and without a drive for the log, at the trace's load and at
twice that. The result is a recommendation with its margin, and the figures that it rests on. The
same trace and seed give the same figures.

Examples:
  tonearm-lab study --trace sda.txt --drive sata8tb --report study
        then open study/index.html
  tonearm trace record disk.tonearm --out day.csv --for 24h
  tonearm-lab study --trace day.csv --drive ./sdx.toml
        the requests of a store that is served
  tonearm-lab study --trace Financial1.spc.gz --device 0 --drive atlas10k --disks 5 --redundancy raid5
  tonearm-lab study --trace hm_0.csv.gz --format msr --drive ./mine.toml --log-drive nvme_plp \\
      --utilisation 0.7,0.9 --requests 500000 --json > study.json
  tonearm-lab workload skew hot-cold:90-10 --size 512MiB --accesses 100000 --out skew.csv
  tonearm-lab study --trace skew.csv --drive atlas10k --clients 8
        a load that was made; it has no times, so clients send one request after the other

How to read the result: docs/study.md.")]
pub struct Study {
    /// The trace, gzipped or not
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Its format [default: the one in which its first request can be read]
    #[arg(long, value_enum)]
    pub format: Option<TraceFormat>,
    /// Drive of the data: a name of `tonearm-lab drive list`, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub drive: String,
    /// How many such drives
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=16))]
    pub disks: u8,
    /// How the data is spread over them
    #[arg(long, value_enum, default_value_t = Redundancy::None)]
    pub redundancy: Redundancy,
    /// Shares of the store that hold data, 0.25 to 0.98
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', default_value = "0.8,0.9,0.95",
        value_parser = share)]
    pub utilisation: Vec<u64>,
    /// Drive of the log where it has one of its own [default: one like that of the data]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub log_drive: Option<String>,
    /// Take the requests of one device of the trace alone: disk, ASU, file number, or major,minor
    #[arg(long, value_name = "N", value_parser = device)]
    pub device: Option<u32>,
    /// Requests of each measurement: the trace is cut to them, or repeated
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(100..=5_000_000))]
    pub requests: u64,
    /// Take only the first part of the trace, such as 90s, 10m or 24h
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse)]
    pub span: Option<Duration>,
    /// Clients of a trace without arrival times; each sends a request when its last one is answered
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub clients: u64,
    /// Memory for written data, as of `tonearm serve --memory`
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size::parse)]
    pub memory: u64,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the result into this folder: index.html, and each figure as .svg
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How data is spread over drives.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// One drive after the other
    None,
    /// Stripes
    Raid0,
    /// Stripes with parity: a drive may fail
    Raid5,
}

/// `0.8`, as 80 percent.
fn share(text: &str) -> Result<u64, String> {
    let percent = text.parse::<f64>().ok().map(|share| 100.0 * share);
    let whole = percent.filter(|percent| (percent - percent.round()).abs() < 1e-6);
    let whole = whole.filter(|percent| (25.0..=98.0).contains(&percent.round()));
    whole
        .map(|percent| percent.round() as u64)
        .ok_or_else(|| "a share from 0.25 to 0.98 with at most two digits, such as 0.9".to_string())
}
