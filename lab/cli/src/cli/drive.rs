//! `tonearm-lab drive`: simulated drives from the command line.

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `tonearm-lab drive`.
#[derive(Args, Debug)]
#[command(after_help = "\
A drive is a name of `tonearm-lab drive list`, or a file NAME.toml of your own in the same form.
Everything here runs in virtual time: hours of a drive pass in a second, and the same input gives
the same answer.

Examples:
  tonearm-lab drive list
  tonearm-lab drive show atlas10k --plot atlas10k.svg
  tonearm-lab drive replay --drive atlas10k --trace f1.spc.gz --format spc --wrap --out answer.csv
  tonearm-lab drive validate --drive atlas10k --measured atlas10k.csv.gz --plot fit.svg
  tonearm-lab drive bench --drive atlas10k --requests 1000000")]
pub struct Drive {
    /// What to do.
    #[command(subcommand)]
    pub action: DriveAction,
}

/// The subcommands of `tonearm-lab drive`.
#[derive(Subcommand, Debug)]
pub enum DriveAction {
    /// List the drives that come with Tonearm
    List(List),
    /// Show all that is known of a drive: geometry, zones, seeks, overheads, caches, sources
    Show(Show),
    /// Measure how fast the simulation itself runs
    Bench(BenchDrive),
    /// Run a trace on a drive and write each request's response time
    Replay(Replay),
    /// Compare a drive with what was measured on the real one
    Validate(Validate),
    /// Find what passes between two requests, for a drive's file that does not say it
    Deltas(Deltas),
}

/// `tonearm-lab drive list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm-lab drive list")]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab drive show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab drive show cheetah9LP
  tonearm-lab drive show ./mine.toml --plot mine.svg
        also checks the file: what is wrong is reported with its key and the reason
  tonearm-lab drive show cheetah9LP --json > cheetah9LP.json
        the drive's file as it is, in JSON")]
pub struct Show {
    /// Name of a drive, or a .toml file
    #[arg(value_name = "NAME|FILE.toml")]
    pub drive: String,
    /// Draw seek curve and zones as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print the drive's file as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which drive, and how it is switched on.
#[derive(Args, Debug, Clone)]
pub struct Switched {
    /// Name of a drive, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub drive: String,
    /// Order of service: fcfs, sstf, scan, clook, vr:0.2, sptf [default: the drive's own]
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<tonearm_drive_file::Scheduler>,
    /// Volatile write cache [default: the drive's own]
    #[arg(long, value_enum, value_name = "on|off")]
    pub write_cache: Option<Switch>,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// On or off.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// A write is done when the cache has it
    On,
    /// A write is done when it is on the medium
    Off,
}

/// `tonearm-lab drive bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab drive bench --drive atlas10k --requests 1000000
  tonearm-lab drive bench --drive atlas10k --requests 1000000 --scheduler sptf --depth 32 --json

Random requests of 4 KiB, aligned to 4 KiB, over the whole drive; as soon as one is done the next
is issued. Time is that of this process on the processor, without the reading of the drive's file.")]
pub struct BenchDrive {
    /// The drive.
    #[command(flatten)]
    pub drive: Switched,
    /// How many requests
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub requests: u64,
    /// Requests at a time [default: 1 for fcfs, else 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: Option<u32>,
    /// Share of reads, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(0..=100))]
    pub reads: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab drive replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab drive replay --drive atlas10k --trace Financial1.spc.gz --format spc --device 0 \\
      --out answer.csv
        the requests of one unit of storage, at the times of the trace
  tonearm-lab drive replay --drive cheetah9LP --trace hm_0.csv.gz --format msr --wrap \\
      --scheduler sptf --out answer.csv
        a larger disk's trace, folded onto a small one that chooses what is nearest
  blktrace -d /dev/sda -o - | blkparse -i - > sda.txt
  tonearm-lab drive replay --drive ./mine.toml --trace sda.txt --format blkparse --out answer.csv
        what this machine's disk was asked, on a drive of your own
  tonearm trace record disk.tonearm --out day.csv --for 24h
  tonearm-lab drive replay --drive sata2tb --trace day.csv --format csv --device 0 --out answer.csv
        what the first volume of a served store was asked, on another drive

Writes a line for each request: arrival_ms,lba,sectors,rw,response_ms. rw is R, W, or F for a
flush; lba counts sectors of 512 bytes. Files may be gzipped.

Formats with arrival times are replayed at these times, whatever the drive does; disksim-valid,
csv with think times, and fio's version 2 are closed loops: a request is issued when the one
before it is done and its think time has passed.")]
pub struct Replay {
    /// The drive.
    #[command(flatten)]
    pub drive: Switched,
    /// The trace, gzipped or not
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Its format
    #[arg(long, value_enum)]
    pub format: TraceFormat,
    /// Where the answer goes; - for standard output
    #[arg(long, value_name = "FILE.csv")]
    pub out: PathBuf,
    /// Take the requests of one device of the trace alone: disk, ASU, file number, or major,minor
    #[arg(long, value_name = "N", value_parser = device)]
    pub device: Option<u32>,
    /// Fold requests that lie beyond the drive's end onto the drive
    #[arg(long)]
    pub wrap: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab drive validate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab drive validate --drive atlas10k --measured atlas10k.csv.gz
  tonearm-lab drive validate --drive ./mine.toml --measured mine.csv --plot fit.svg --json

FILE is a CSV file, gzipped or not, with a header that names at least the columns rw, blkno,
blocks, measured_ms and think_ms_before_next; another --format will do if it has response times.

The demerit figure (Ruemmler and Wilkes) is the root mean square of the horizontal distance between
the two distributions of response times; a good one is a few percent of the mean. It compares the
distributions only: per-request RMS shows how far single requests are off.")]
pub struct Validate {
    /// The drive.
    #[command(flatten)]
    pub drive: Switched,
    /// What was measured on the real drive
    #[arg(long, value_name = "FILE")]
    pub measured: PathBuf,
    /// Its format
    #[arg(long, value_enum, default_value = "csv")]
    pub format: TraceFormat,
    /// Draw both distributions as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab drive deltas`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm-lab drive deltas ./mine.toml >> mine.toml

Prints the section [disk.deltas] that `tonearm create --head formula` needs. The drives of the library and files of
`tonearm-lab calibrate` have it. It follows from the other figures: find it again when these have changed.")]
pub struct Deltas {
    /// Name of a drive, or a .toml file
    #[arg(value_name = "NAME|FILE.toml")]
    pub drive: String,
}

/// A trace format, as an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceFormat(pub tonearm_trace::Format);

impl ValueEnum for TraceFormat {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [TraceFormat; tonearm_trace::Format::ALL.len()] = {
            let mut all =
                [TraceFormat(tonearm_trace::Format::Csv); tonearm_trace::Format::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = TraceFormat(tonearm_trace::Format::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.about()))
    }
}

/// `5`, or `8,16` as one number.
pub(super) fn device(text: &str) -> Result<u32, String> {
    let number = match text.split_once(',') {
        None => text.parse().ok(),
        Some((major, minor)) => {
            let (major, minor) = (major.parse::<u32>().ok(), minor.parse::<u32>().ok());
            let numbers = major.zip(minor);
            numbers
                .filter(|(major, minor)| *major < 1 << 12 && *minor < 1 << 20)
                .map(|(major, minor)| major << 20 | minor)
        }
    };
    number.ok_or_else(|| "a number, or major,minor as in 8,16".to_string())
}
