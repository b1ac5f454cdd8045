//! Speed and memory of the simulator of disk layouts (`lab/pages`).

use crate::meter;
use anyhow::ensure;
use tonearm_bench::{machine, report::verdict};
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::Estimate;
use tonearm_pages::{Cleaning, Layout, Setup, Simulation};
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{Pool, Pooled, Skew, SkewOptions, SkewedPages, Tpcc, Workload};

const PAGE: u64 = 4096;
/// Pages of HyLog's buffer pool of 400 MB.
const POOL_PAGES: u64 = (400 << 20) / PAGE;
/// Warehouses whose pages take 10 GB at the end of a run.
const WAREHOUSES: u32 = 110;
/// Transactions of TPC-C, more than a run takes.
const TRANSACTIONS: u64 = 1_000_000;
/// Requests in a second of processor time, and bytes of memory, that the project wants.
const RATE_TARGET: f64 = 500_000.0;
const RSS_TARGET: u64 = 1 << 30;

#[derive(clap::Args)]
pub struct Args {
    /// GB of pages of 4 KiB under the skewed load
    #[arg(long, default_value_t = 10)]
    gb: u64,
    /// Drive of which all disks are
    #[arg(long, default_value = "atlas10k")]
    drive: String,
    /// Disks
    #[arg(long, default_value_t = 4)]
    disks: u32,
    /// Share of the space that the pages take
    #[arg(long, default_value_t = 0.9)]
    used: f64,
    /// Requests that are measured
    #[arg(long, default_value_t = 2_000_000)]
    requests: u64,
    /// Requests before those: the free space is used up, and the cleaner works
    #[arg(long, default_value_t = 1_500_000)]
    warm_up: u64,
}

/// One simulation.
struct Figures {
    layout: &'static str,
    requests: f64,
    ios: f64,
    cpu_seconds: f64,
    virtual_hours: f64,
}

/// Measures each layout under a skewed load, and two under TPC-C behind a buffer pool.
///
/// # Errors
/// When the drive is not known, or the pages do not fit the disks.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let spec = DriveFile::find(&args.drive)?.spec;
    let setup = |layout, pages| Setup {
        disks: args.disks,
        cleaning: Cleaning::Greedy,
        utilisation: args.used,
        ..Setup::new(&spec, layout, pages)
    };
    let pages = args.gb * 1_000_000_000 / PAGE;
    println!(
        "{pages} pages of 4 KiB on {} disks, {} of the space used, 20 users, {} requests after {}",
        args.disks, args.used, args.requests, args.warm_up
    );
    let skew = Skew::Knuth { p: 0.58 };
    let skewed = SkewOptions {
        pages,
        accesses: u64::MAX,
        write_share: 1.0 / 2.37,
        reads: skew,
        writes: skew,
        seed: 1,
    };
    let hylog = Layout::Hylog(Estimate::LaterWrites);
    println!("skewed load:");
    for layout in [
        Layout::Overwrite,
        Layout::Lfs,
        Layout::Wolf,
        hylog,
        Layout::Sepbit,
    ] {
        let load = SkewedPages::new(&skewed);
        measure(args, &setup(layout, pages), load)?.report();
    }
    println!(
        "TPC-C of {WAREHOUSES} warehouses behind a pool of 400 MiB, the generator's time included:"
    );
    for layout in [Layout::Overwrite, hylog] {
        let options = TpccOptions {
            warehouses: WAREHOUSES,
            transactions: TRANSACTIONS,
            ..TpccOptions::default()
        };
        let load = Pooled::new(Tpcc::new(&options)?, Pool::new(POOL_PAGES));
        let pages = load.pages();
        measure(args, &setup(layout, pages), load)?.report();
    }
    let peak = machine::peak_bytes(std::process::id());
    println!(
        "peak memory {:.1} MiB (target {} MiB: {})",
        peak as f64 / f64::from(1 << 20),
        RSS_TARGET >> 20,
        verdict(peak < RSS_TARGET)
    );
    Ok(())
}

fn measure<W: Workload>(args: &Args, setup: &Setup, load: W) -> anyhow::Result<Figures> {
    let mut simulation = Simulation::new(setup, load)?;
    ensure!(simulation.run(args.warm_up)?, "the load ended too soon");
    let before = (simulation.counts(), meter::cpu_ns());
    ensure!(simulation.run(args.requests)?, "the load ended too soon");
    let cpu = meter::cpu_ns() - before.1;
    let counts = simulation.counts() - before.0;
    Ok(Figures {
        layout: setup.layout.name(),
        requests: counts.requests as f64,
        ios: counts.ios.iter().sum::<u64>() as f64,
        cpu_seconds: cpu as f64 / 1e9,
        virtual_hours: counts.nanos as f64 / 3.6e12,
    })
}

impl Figures {
    fn report(&self) {
        let rate = self.requests / self.cpu_seconds;
        println!(
            "  {:20} {rate:9.0} requests for each CPU second (target {RATE_TARGET:.0}: {}), {:9.0} I/Os of disks, {:.2} h \
             of virtual time in {:.2} s",
            self.layout,
            verdict(rate >= RATE_TARGET),
            self.ios / self.cpu_seconds,
            self.virtual_hours,
            self.cpu_seconds,
        );
    }
}
