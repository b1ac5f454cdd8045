//! Reads after ageing, by layout (HyLog 7: "as future work, we want to study the read performance of LFS and HyLog").

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{LAYOUTS, PAPER, Replay, Store, paper_drive, reads, within};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Layout, Simulation, Work};
use tonearm_workload::{Access, SkewedPages, Workload, WorkloadError};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-reads",
    title: "Reads from overwritten pages and from logs that have aged",
    source: "HyLog 3 and 7, future work",
    about: "TPC-C ages a database in each layout. Then nobody writes: its users read pages at random, and one of them reads the \
            whole database in order, as a scan with read-ahead does. The paper assumes that reads do not depend on the layout.",
    drives: Drives::One("atlas10k"),
    run,
};

const QUICK_LAYOUTS: [Layout; 2] = [Layout::Lfs, PAPER];
const SHARES: [f64; 3] = [0.5, 0.9, 0.98];
const QUICK: [f64; 1] = [0.9];
/// Pages that are written before the reads, for each page.
const AGEING: f64 = 2.0;
/// Random reads before the measurement, so that the cleaner has ended, and in it.
const SETTLE: u64 = 2000;
const RANDOM: u64 = 30_000;
/// Pages that a scan asks for at a time: 256 KB.
const TOGETHER: u64 = 64;

/// TPC-C for some requests, then random reads.
struct Aged<'a> {
    left: u64,
    ages: Replay<'a>,
    reads: SkewedPages,
}

impl Workload for Aged<'_> {
    fn pages(&self) -> u64 {
        self.ages.pages()
    }

    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.ages.next_access()
            }
            None => self.reads.next_access(),
        }
    }
}

struct Found {
    layout: Layout,
    used: f64,
    /// Random reads in a second, and the mean time of one on the disk in milliseconds.
    random: f64,
    read_ms: f64,
    /// MB/s of the scan, and I/Os for each [`TOGETHER`] pages.
    scan: f64,
    ios: f64,
}

fn read(
    context: &Context<'_>,
    store: Store,
    drive: &DriveFile,
    (layout, used): (Layout, f64),
) -> Found {
    let requests = store.oltp.requests(context.seed(2));
    let pages = requests.pages();
    let ages = (AGEING * pages as f64 / requests.write_share()) as u64;
    let setup = store
        .case(layout, used)
        .setup(drive, pages, context.seed(1));
    let load = Aged {
        left: ages,
        ages: requests.replay(),
        reads: reads(pages, context.seed(3)),
    };
    let mut simulation = Simulation::new(&setup, load).expect("a setup that works");
    let mut run = |count| {
        let before = simulation.counts();
        simulation.run(count).expect("a generated load");
        simulation.counts() - before
    };
    run(ages + SETTLE);
    let random = run(RANDOM);
    let (nanos, ios) = simulation.scan(0, pages, TOGETHER);
    let bytes = pages as f64 * f64::from(setup.page_bytes);
    Found {
        layout,
        used,
        random: random.throughput(),
        read_ms: random.mean_ms(&[Work::PageRead]),
        scan: bytes / 1e6 / (nanos as f64 / 1e9),
        ios: ios as f64 * TOGETHER as f64 / pages as f64,
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = paper_drive(&drives[0]);
    let (store, shares): (Store, &[f64]) = match context.is_full() {
        true => (Store::ONE_DRIVE, &SHARES),
        false => (Store::QUICK, &QUICK),
    };
    let mut cases = vec![(Layout::Overwrite, shares[0])];
    let layouts = match context.is_full() {
        true => &LAYOUTS[1..],
        false => &QUICK_LAYOUTS,
    };
    for used in shares {
        cases.extend(layouts.iter().map(|layout| (*layout, *used)));
    }
    let found = context.map(&cases, |case| read(context, store, &drive, *case));
    let base = &found[0];
    let mut outcome = Outcome {
        is_partial: !context.is_full(),
        ..Outcome::default()
    };
    for found in &found[1..] {
        let what = |what: &str| format!("{what}, {} at {}", found.layout.name(), found.used);
        outcome.findings.extend([
            within(
                what("random reads over those of Overwrite"),
                found.random / base.random,
                "",
                1.0,
                10.0,
            )
            .paper("1, assumed"),
            Finding::shown(
                what("scan over that of Overwrite"),
                found.scan / base.scan,
                "",
            )
            .paper("1, assumed")
            .bound(Bound::Within {
                value: 1.0,
                percent: 20.0,
            }),
        ]);
    }
    outcome.figures = vec![figure(&found)];
    outcome.notes = vec![
        format!(
            "One of the paper's four drives, {} users, TPC-C of {} warehouses. {AGEING} pages are written for each page of the \
             database before the reads. Random reads are of all pages alike. A scan asks for {TOGETHER} pages at a time; neighbours \
             on the disk are one I/O.",
            store.users, store.oltp.warehouses
        ),
        "Overwrite leaves the pages in the order in which they were loaded, so its scan is sequential. Its data lie at the front of \
         the disk, and those of a log on all of the used space: seeks of random reads are longer in a log, the more so the emptier \
         the disk is."
            .into(),
    ];
    outcome
}

fn figure(found: &[Found]) -> Figure {
    let mut table = Table::new(&[
        "layout",
        "used",
        "random reads/s",
        "random read, ms",
        "scan, MB/s",
        "I/Os for 64 pages",
    ]);
    for found in found {
        let numbers = [
            found.used,
            found.random,
            found.read_ms,
            found.scan,
            found.ios,
        ];
        let name = vec![found.layout.name().to_string()];
        table.row([name, numbers.map(number).to_vec()].concat());
    }
    let panel = |title: &str, label: &str, of: fn(&Found) -> f64| {
        let base = of(&found[0]);
        let lines = LAYOUTS.iter().enumerate();
        let lines = lines.filter(|(_, layout)| found.iter().any(|found| found.layout == **layout));
        let lines = lines.map(|(color, layout)| {
            let own = found.iter().filter(|found| found.layout == *layout);
            let points = match layout {
                Layout::Overwrite => [SHARES[0], SHARES[2]].map(|used| (used, base)).to_vec(),
                _ => own.map(|found| (found.used, of(found))).collect(),
            };
            Line::new(layout.name(), Style::Marked, color, points)
        });
        Panel {
            title: title.into(),
            x: Axis::upto("used space, share", 1.0),
            y: Axis::linear(label),
            lines: lines.collect(),
            legend: Legend::Outside,
        }
    };
    Figure::plot(
        "hylog-reads",
        "Reads after ageing",
        "After two writes for each page.",
        vec![
            panel("random reads", "throughput, reads/s", |found| found.random),
            panel("a scan of all pages", "throughput, MB/s", |found| {
                found.scan
            }),
        ],
    )
    .with(table)
}
