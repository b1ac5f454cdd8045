//! The set-up of HyLog's experiments: its drives, its workloads, and one simulation of pages.

use crate::experiment::Context;
use crate::report::{Bound, Finding, Table, number};
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, DriveSpec};
use tonearm_layout::separation::Estimate;
use tonearm_pages::{Band, Layout, Setup, Simulation, Steady, Work};
use tonearm_workload::{Random, Skew, SkewOptions, SkewedPages, Workload};
use tonearm_world::Kind;

/// The separator with the paper's estimate of the writes to hot pages, and with the product's.
pub const PAPER: Layout = Layout::Hylog(Estimate::SameWrites);
pub const OURS: Layout = Layout::Hylog(Estimate::LaterWrites);
/// The layouts of the paper, the product's HyLog, and SepBIT.
pub const LAYOUTS: [Layout; 6] = [
    Layout::Overwrite,
    Layout::Lfs,
    Layout::Wolf,
    PAPER,
    OURS,
    Layout::Sepbit,
];
/// Time from one decision of the separator to the next, as in the paper.
pub const INTERVAL: Nanos = Nanos::from_secs(20 * 60);

/// Milliseconds of a sector on a bus of 160 MB/s.
const ULTRA160_MS: f64 = 0.0032;

/// The drive as the paper has it: the file of the Atlas 10K has the slow bus of its validation trace, on which a segment
/// of 512 KB takes 107 ms; the paper's takes 27.3 ms.
pub fn paper_drive(drive: &DriveFile) -> DriveFile {
    let mut drive = drive.clone();
    if drive.name == "atlas10k"
        && let Some(disk) = &mut drive.spec.disk
    {
        (disk.bus.read_sector_ms, disk.bus.write_sector_ms) = (ULTRA160_MS, ULTRA160_MS);
    }
    drive
}

/// Mean time of `ios` writes of `bytes` at random places of a drive of its own.
pub fn service_ms(spec: &DriveSpec, bytes: u32, ios: u64, seed: u64) -> f64 {
    let options = DriveOptions {
        write_cache: Some(false),
        ..DriveOptions::default()
    };
    let drive = Drive::new(spec, &options);
    let sectors = bytes / 512;
    let places = drive.sectors() / u64::from(sectors);
    let mut user = ClosedLoop::new(drive);
    let mut random = Random::new(seed, 0);
    let nanos: u64 = (0..ios)
        .map(|_| {
            let place = random.below(places) * u64::from(sectors);
            user.serve(Kind::Write, place, sectors).0
        })
        .sum();
    nanos as f64 / ios as f64 / 1e6
}

/// Uniformly random updates without an end.
pub fn updates(pages: u64, seed: u64) -> SkewedPages {
    skewed(pages, 1.0, Skew::Uniform, seed)
}

/// Uniformly random reads without an end.
pub fn reads(pages: u64, seed: u64) -> SkewedPages {
    skewed(pages, 0.0, Skew::Uniform, seed)
}

/// Accesses without an end, reads and writes with the same skew.
fn skewed(pages: u64, write_share: f64, skew: Skew, seed: u64) -> SkewedPages {
    SkewedPages::new(&SkewOptions {
        pages,
        accesses: u64::MAX,
        write_share,
        reads: skew,
        writes: skew,
        seed,
    })
}

/// The steady state of `setup` under `workload`, with `write_share` of writes.
pub fn steady<W: Workload>(
    context: &Context<'_>,
    setup: &Setup,
    workload: W,
    write_share: f64,
) -> Steady {
    let full = Band::new(setup.pages, write_share);
    let band = match context.is_full() {
        true => full,
        false => Band {
            width: 0.05,
            most: 24,
            ..full
        },
    };
    steady_by(setup, workload, &band)
}

/// The steady state of `setup` under `workload` by `band`.
pub fn steady_by<W: Workload>(setup: &Setup, workload: W, band: &Band) -> Steady {
    let mut simulation = Simulation::new(setup, workload).expect("a setup that works");
    simulation
        .steady(band)
        .expect("a generated workload goes on")
}

/// Bytes of a segment on one disk: four times positioning time and bandwidth, to the nearest power of two (HyLog 3.3).
pub fn chunk_bytes(drive: &str) -> u32 {
    match drive {
        "hylog2003" => 1 << 20,
        "hylog2008" => 2 << 20,
        _ => 512 << 10,
    }
}

/// Share of the writes behind the buffer pool: 1.37 reads for each write (Table 4).
pub const OLTP_WRITES: f64 = 1.0 / 2.37;

/// Independent requests with the one point of the skew of TPC-C behind its buffer pool that the paper prints: 58.2 % of the
/// writes go to 42.2 % of the pages (6.2). Knuth's distribution of 58-42 goes through it.
pub fn oltp(pages: u64, seed: u64) -> SkewedPages {
    skewed(pages, OLTP_WRITES, Skew::Knuth { p: 0.58 }, seed)
}

/// Nine of ten accesses go to a tenth of the pages, which lie anywhere. There are as many writes as in [`oltp`].
pub fn scattered(pages: u64, seed: u64) -> SkewedPages {
    skewed(pages, OLTP_WRITES, Skew::HotCold { p: 0.9 }, seed)
}

/// Heads of [`measured`].
pub const MEASURED: [&str; 14] = [
    "requests/s",
    "u_c",
    "cost of a write",
    "page read, ms",
    "page write, ms",
    "segment, ms",
    "E",
    "hot share",
    "hot writes",
    "idle, %",
    "reads, %",
    "page writes, %",
    "appends, %",
    "cleaning, %",
];

/// What a simulation found. The shares of reads, page writes, appends and cleaning are of the time of the disks.
pub fn measured(steady: &Steady) -> [f64; 14] {
    let counts = &steady.counts;
    let time = counts.nanos as f64 * f64::from(steady.disks);
    let busy = |works: &[Work]| {
        let nanos: u64 = works.iter().map(|work| counts.busy[*work as usize]).sum();
        100.0 * nanos as f64 / time
    };
    let placed = counts.hot_writes + counts.cold_writes;
    [
        steady.throughput(),
        steady.cleaning_utilisation(),
        steady.write_cost(steady.efficiency),
        counts.mean_ms(&[Work::PageRead]),
        counts.mean_ms(&[Work::PageWrite]),
        steady.service_ms().1,
        steady.efficiency,
        steady.decision.hot_share,
        counts.hot_writes as f64 / placed.max(1) as f64,
        100.0 * steady.idle(),
        busy(&[Work::PageRead]),
        busy(&[Work::PageWrite]),
        busy(&[Work::Append]),
        busy(&[Work::CleanRead, Work::CleanWrite, Work::Plug]),
    ]
}

/// A table of simulations: the columns `heads`, the throughput in units of that of Overwrite, and [`MEASURED`].
pub fn normalised_table(heads: &[&str]) -> Table {
    Table::new(&[heads, &["against Overwrite"], &MEASURED, &["steady"]].concat())
}

/// Adds a simulation to such a table. `base` is the throughput of Overwrite.
pub fn normalised_row(table: &mut Table, names: Vec<String>, steady: &Steady, base: f64) {
    let mut cells = names;
    cells.push(number(steady.throughput() / base));
    cells.extend(measured(steady).map(number));
    cells.push(if steady.is_steady { "yes" } else { "no" }.into());
    table.row(cells);
}

/// A finding that is demanded to be within `percent` of the paper's value.
pub fn within(what: impl Into<String>, ours: f64, unit: &str, paper: f64, percent: f64) -> Finding {
    Finding::shown(what, ours, unit)
        .paper(number(paper))
        .bound(Bound::Within {
            value: paper,
            percent,
        })
}
