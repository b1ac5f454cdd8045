//! `tonearm-lab workload`: loads of page accesses from the command line.

use super::drive::{TraceFormat, device};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tonearm_terminal::size;
use tonearm_workload::Skew;

/// `tonearm-lab workload`.
#[derive(Args, Debug)]
#[command(after_help = "\
A load is a stream of page accesses: a page number, and read or write. Each command makes one, reports
what it is like, and writes it as a trace if --out is given. The same options and seed give the same
accesses on every machine.

Examples:
  tonearm-lab workload tpcc
        TPC-C on 50 warehouses, as in the HyLog paper: sizes, mix, accesses, log bytes
  tonearm-lab workload tpcc --transactions 1200000 --pool 400MiB
        as many accesses as the paper's trace has, and what a buffer pool leaves of them
  tonearm-lab workload skew knuth:80-20 --size 1GiB --out skew.csv
  tonearm-lab drive replay --drive sata2tb --trace skew.csv --format csv --out answer.csv
        a skewed load, and how long a drive needs for it
  tonearm-lab workload trace sda.txt --format blkparse --pool 1GiB
        how skewed your own trace is, and what a buffer pool of 1 GiB would leave of it

What a page is and where the figures come from: docs/workloads.md.")]
pub struct Workload {
    /// What to do.
    #[command(subcommand)]
    pub action: WorkloadAction,
}

/// The subcommands of `tonearm-lab workload`.
#[derive(Subcommand, Debug)]
pub enum WorkloadAction {
    /// TPC-C by its standard, as accesses to the pages of its tables and indexes
    Tpcc(TpccLoad),
    /// Independent accesses, some pages hotter than others
    Skew(SkewLoad),
    /// Stand-in for the HyLog paper's trace of a financial institution; synthesised
    Financial(StandIn),
    /// Stand-in for the HyLog paper's trace of a campus file server; synthesised
    Campus(StandIn),
    /// A trace in any format that the tools read
    Trace(TraceLoad),
}

/// What is done with a load.
#[derive(Args, Debug)]
pub struct Make {
    /// Also report what an LRU write-back buffer pool of this size leaves; --out then writes that
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub pool: Option<u64>,
    /// Write the accesses there, as a trace of the format csv; - for standard output
    #[arg(long, value_name = "FILE.csv")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab workload tpcc`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab workload tpcc
  tonearm-lab workload tpcc --warehouses 10 --transactions 20000 --out tpcc.csv
        40 MB of trace: each access is a line
  tonearm-lab workload tpcc --transactions 1200000 --pool 400MiB --out disk.csv
        only what a buffer pool of 400 MiB reads and writes
  tonearm-lab workload tpcc --page-size 8KiB --json > figures.json

The mix is 45 % new orders, 43 % payments, 4 % each of order status, delivery and stock level. A
transaction is done statement by statement as in the standard's sample programs: a row that is
found by its key costs a read on each level of the index and one of the row's page; an update adds a
write. The page format is that of DB2, from which the paper's trace comes; the options change it.")]
pub struct TpccLoad {
    /// Warehouses; each has about 85 MB
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub warehouses: u32,
    /// Transactions
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub transactions: u64,
    /// Bytes of a page, 1 to 64 KiB
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = size::parse)]
    pub page_size: u64,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Bytes of a page's own data
    #[arg(long, value_name = "BYTES", default_value_t = 68)]
    pub page_header: u32,
    /// Bytes of a row besides its columns
    #[arg(long, value_name = "BYTES", default_value_t = 10)]
    pub row_overhead: u32,
    /// Bytes of an index entry besides its key
    #[arg(long, value_name = "BYTES", default_value_t = 9)]
    pub entry_overhead: u32,
    /// How full the loading fills pages of tables, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub table_fill: u32,
    /// How full the loading fills pages of indexes, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90)]
    pub index_fill: u32,
    /// Pages by which a table or index grows
    #[arg(long, value_name = "PAGES", default_value_t = 32)]
    pub extent: u32,
    /// Bytes of a log record besides the changed columns, the row or the key
    #[arg(long, value_name = "BYTES", default_value_t = 40)]
    pub log_header: u32,
    /// What is done with it.
    #[command(flatten)]
    pub make: Make,
}

/// `tonearm-lab workload skew`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab workload skew uniform --size 1GiB
  tonearm-lab workload skew hot-cold:90-10 --size 1GiB --writes 30
  tonearm-lab workload skew knuth:80-20 --size 10GiB --accesses 10000000 --pool 400MiB

SKEW is one of
  uniform          every page alike
  hot-cold:90-10   90 % of the accesses go to 10 % of the pages, evenly within both parts
  knuth:80-20      the share h of the pages gets h^theta of the accesses, theta = ln 0.8 / ln 0.2
  hsu:80-20        Hill's function, with 80 % of the accesses to 20 % of the pages; stands in for
                   the distribution that HyLog takes from Hsu et al., whose formula is lost
The hot pages lie anywhere: a random permutation places them.")]
pub struct SkewLoad {
    /// uniform, hot-cold:90-10, knuth:80-20 or hsu:80-20
    #[arg(value_name = "SKEW")]
    pub skew: Skew,
    /// Size of the data
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size::parse)]
    pub size: u64,
    /// Bytes of a page
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = size::parse)]
    pub page_size: u64,
    /// Accesses
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub accesses: u64,
    /// Share of the writes, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, value_parser = percent)]
    pub writes: f64,
    /// Another skew for the reads [default: that of the writes]
    #[arg(long, value_name = "SKEW")]
    pub reads_skew: Option<Skew>,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// What is done with it.
    #[command(flatten)]
    pub make: Make,
}

/// `tonearm-lab workload financial` and `campus`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab workload financial --pool 400MiB
  tonearm-lab workload campus --accesses 1000000 --out campus.csv

This is not the trace, but independent accesses with the published size, page size, reads and
writes. The skews are chosen: that of the writes so that Financial is more skewed than Campus, and
Campus more than TPC-C, as the paper says; that of the reads so that a buffer pool of 400 MiB leaves
the published ratio.")]
pub struct StandIn {
    /// Accesses [default: as many as the trace has]
    #[arg(long, value_name = "N")]
    pub accesses: Option<u64>,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// What is done with it.
    #[command(flatten)]
    pub make: Make,
}

/// `tonearm-lab workload trace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab workload trace Financial1.spc.gz --format spc --device 0
  tonearm-lab workload trace hm_0.csv.gz --format msr --page-size 8KiB --pool 1GiB
  tonearm-lab workload trace sda.txt --format blkparse --out pages.csv
        the same accesses, one page each, on a space without the pages that are never touched

A request becomes one access for each page that it touches. The pages of the trace are numbered
without gaps, in the order of device and address. The trace is read twice, so it cannot be a pipe.")]
pub struct TraceLoad {
    /// The trace, gzipped or not
    pub trace: PathBuf,
    /// Its format
    #[arg(long, value_enum)]
    pub format: TraceFormat,
    /// Bytes of a page, a multiple of 512
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = size::parse)]
    pub page_size: u64,
    /// Take the requests of one device of the trace alone: disk, ASU, file number, or major,minor
    #[arg(long, value_name = "N", value_parser = device)]
    pub device: Option<u32>,
    /// What is done with it.
    #[command(flatten)]
    pub make: Make,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "a number from 0 to 100".to_string())
}
