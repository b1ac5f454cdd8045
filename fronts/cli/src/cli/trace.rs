//! `tonearm trace`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::{size, span};

/// `tonearm trace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm trace record disk.tonearm --out day.csv --for 24h")]
pub struct Trace {
    /// What to do.
    #[command(subcommand)]
    pub action: TraceAction,
}

/// The subcommands of `tonearm trace`.
#[derive(Subcommand, Debug)]
pub enum TraceAction {
    /// Record the requests of NBD clients to a store that is being served
    Record(TraceRecord),
}

/// `tonearm trace record`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm trace record disk.tonearm --out day.csv --for 24h
        Ctrl-C ends it earlier; the trace is whole then, too
  tonearm trace record disk.tonearm --volume main --out main.csv --max-bytes 256MiB --files 4
        the newest requests, in at most 1 GiB: main.csv, main.csv.1, main.csv.2 and main.csv.3
  tonearm-lab workload trace day.csv --format csv
  tonearm-lab drive replay --drive sata2tb --trace day.csv --format csv --out answer.csv
        what the trace is like, and how another drive would have done
  tonearm trace record disk.tonearm --volume main --out main.iolog --format fio-iolog --for 1h
  fio --name=replay --read_iolog=main.iolog --replay_redirect=/dev/sdx --ioengine=libaio \\
      --iodepth=64 --direct=1
        the same requests at the same times on another disk; its contents are lost

Each line is a request that was answered: when it arrived (ms since the start), number of the
volume, R, W, F (flush), T (trim) or Z (zeroing), first sector, sectors of 512 bytes, 1 for FUA,
and how long it took (ms). There is no content of a block in it. Requests come in order of arrival,
and are written 5 seconds later for that. When this program or its disk is too slow, requests are
lost, and the trace says how many; the server and its clients never wait for it. Requests of
programs that use the store without NBD, such as SQLite's, are not recorded.

An iolog has times in microseconds, no comments, and the volumes' names as files, with %20 for a
blank. fio has no FUA, so a datasync follows such a write. Trims and zeroings are left out and
counted.")]
pub struct TraceRecord {
    /// The store's primary file or block device
    #[arg(value_name = "STORE")]
    pub path: PathBuf,
    /// The file for the trace
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Its format
    #[arg(long, value_enum, default_value_t = TraceFormat::Csv)]
    pub format: TraceFormat,
    /// Record this volume alone [default: all]
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// End after this time, such as 90s, 10m or 24h [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse)]
    pub duration: Option<Duration>,
    /// Largest size of a file
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1GiB")]
    pub max_bytes: u64,
    /// How many files are kept. With 1 the recording ends when FILE is full; with more, FILE becomes FILE.1 then, FILE.1
    /// becomes FILE.2, and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub files: u32,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The format of a recorded trace.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Columns named in a header, as `tonearm-lab` reads them
    Csv,
    /// fio's iolog, version 3: `fio --read_iolog` replays it
    FioIolog,
}
