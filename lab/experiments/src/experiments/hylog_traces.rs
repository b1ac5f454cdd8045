//! Throughput of the layouts with the workloads Financial and Campus (HyLog, Figure 10).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Case, Grid, INTERVAL, LAYOUTS, OLTP_WRITES, OURS, Oltp, PAPER, Requests, normalised_row,
    paper_drive, steady_by,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::cost;
use tonearm_pages::{Band, Cleaning, Layout, Setup, Steady};
use tonearm_workload::{Pool, Pooled, Published, SkewOptions, SkewedPages, campus, financial};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-traces",
    title: "Overwriting, logs and HyLog with the workloads Financial and Campus",
    source: "HyLog 6.3, Figure 10",
    about: "Twenty users without think time on one drive, behind a buffer pool of 400 MB. The traces of the paper cannot be had: \
            both are synthesised, with the sizes and ratios of Table 4 and with skews that are chosen. Beyond the paper: SepBIT, \
            and HyLog with the product's estimate of hot writes.",
    drives: Drives::One("atlas10k"),
    run,
};

/// A workload.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Trace {
    Financial,
    Campus,
    /// As in hylog-throughput, an eighth of it, for comparison.
    Tpcc,
}

use Trace::{Campus, Financial, Tpcc};

const TRACES: [Trace; 3] = [Financial, Campus, Tpcc];
/// Layouts of Figure 10.
const PRINTED: [Layout; 4] = [Layout::Overwrite, Layout::Lfs, Layout::Wolf, PAPER];

const SHARES: [f64; 5] = [0.7, 0.8, 0.9, 0.95, 0.98];
/// What a quick run does of them: few segments of its small store are free, so it cannot go further.
const QUICK: [f64; 2] = [0.8, 0.9];
/// Where the causes are looked for.
const MIDDLE: f64 = 0.9;
const POOL_BYTES: u64 = 400 << 20;
/// Quick runs have so many times fewer pages.
const QUICK_PARTS: u64 = 8;

impl Trace {
    fn name(self) -> &'static str {
        match self {
            Financial => Published::FINANCIAL.name,
            Campus => Published::CAMPUS.name,
            Tpcc => Published::TPCC.name,
        }
    }

    fn layouts(self) -> &'static [Layout] {
        match self {
            Tpcc => &PRINTED,
            _ => &LAYOUTS,
        }
    }

    fn page_bytes(self) -> u64 {
        match self {
            Campus => Published::CAMPUS.page_bytes,
            _ => 4096,
        }
    }

    /// The part of the data that is simulated on [`narrow`] drives: at the lowest share of used space it takes nearly all of
    /// one. Of the full size of Financial a whole drive does not hold that.
    fn parts(self, context: &Context<'_>) -> u64 {
        match (self, context.is_full()) {
            (Financial, true) => 12,
            (Campus, true) => 10,
            (Financial, false) => 12 * QUICK_PARTS,
            (Campus, false) => 9 * QUICK_PARTS,
            (Tpcc, _) => Oltp::EIGHTH.part,
        }
    }

    /// Share of the writes behind the pool, by Table 4.
    fn published_writes(self) -> f64 {
        match self {
            Financial => 1.0 / (1.0 + Published::FINANCIAL.physical_ratio),
            Campus => 1.0 / (1.0 + Published::CAMPUS.physical_ratio),
            Tpcc => OLTP_WRITES,
        }
    }
}

/// A workload and what was found with it.
struct Load {
    trace: Trace,
    pages: u64,
    /// Time from one decision of the separator to the next.
    interval: Nanos,
    /// Share of the writes that go to the hottest tenth of the pages.
    tenth: f64,
    grid: Grid,
    /// LFS with a cleaner that takes the segments with the fewest live pages, at each share of used space.
    greedy: Vec<Steady>,
}

fn case(layout: Layout, used: f64, interval: Nanos) -> Case {
    Case {
        disks: 1,
        interval,
        ..Case::new(layout, used)
    }
}

impl Load {
    fn new(context: &Context<'_>, trace: Trace, drive: &DriveFile, shares: &[f64]) -> Self {
        let parts = trace.parts(context);
        let interval = Nanos(INTERVAL.0 / parts);
        let options = match trace {
            Financial => Some(financial(context.seed(2))),
            Campus => Some(campus(context.seed(3))),
            Tpcc => None,
        };
        let tpcc = Oltp::EIGHTH;
        let pages = match &options {
            Some(options) => options.pages / parts,
            None => tpcc.requests(context.seed(4)).pages(),
        };
        let band = Band {
            decisions: 3,
            // Much of TPC-C is never written.
            spread: trace != Tpcc,
            skip: if trace == Tpcc { 8 } else { 4 },
            width: if context.is_full() { 0.03 } else { 0.06 },
            most: if context.is_full() { 40 } else { 20 },
            ..Band::new(pages, trace.published_writes())
        };
        let count = band.requests * u64::from(band.most + 1);
        let made;
        let requests = match options {
            Some(options) => {
                let endless = SkewOptions {
                    pages,
                    accesses: u64::MAX,
                    ..options
                };
                let pool = Pool::new(POOL_BYTES / trace.page_bytes() / parts);
                made = Requests::record(Pooled::new(SkewedPages::new(&endless), pool), count);
                &made
            }
            None => tpcc.requests(context.seed(4)),
        };
        let setup = |case: &Case| Setup {
            page_bytes: trace.page_bytes() as u32,
            ..case.setup(drive, pages, context.seed(1))
        };
        let cases: Vec<Case> = trace
            .layouts()
            .iter()
            .flat_map(|layout| shares.iter().map(|used| case(*layout, *used, interval)))
            .collect();
        let grid = Grid::new(context, &cases, |case| {
            steady_by(&setup(case), requests.replay(), &band)
        });
        let greedy = context.map(shares, |used| {
            let greedy = Setup {
                cleaning: Cleaning::Greedy,
                ..setup(&case(Layout::Lfs, *used, interval))
            };
            steady_by(&greedy, requests.replay(), &band)
        });
        Self {
            trace,
            pages,
            interval,
            tenth: requests.share_of_writes(0.1),
            grid,
            greedy,
        }
    }

    fn case(&self, layout: Layout, used: f64) -> Case {
        case(layout, used, self.interval)
    }

    /// Throughput in units of that of Overwrite.
    fn relative(&self, layout: Layout, used: f64) -> f64 {
        self.grid.relative(self.case(layout, used))
    }

    /// Throughput of LFS with the greedy cleaner in units of that of Overwrite, at each share of used space.
    fn relative_greedy(&self) -> impl Iterator<Item = f64> {
        self.greedy.iter().map(|lfs| lfs.throughput() / self.base())
    }

    /// Throughput of Overwrite, which does not depend on the share of used space.
    fn base(&self) -> f64 {
        self.grid
            .at(self.case(Layout::Overwrite, MIDDLE))
            .throughput()
    }

    /// LFS where the causes are looked for.
    fn middle(&self) -> &Steady {
        self.grid.at(self.case(Layout::Lfs, MIDDLE))
    }

    /// Throughput of a log in units of that of Overwrite, by the model, if its cleaner cost nothing and a read took as long
    /// as a page that is overwritten.
    fn without_cleaning(&self) -> f64 {
        let (writes, efficiency) = (self.middle().counts.write_share(), self.middle().efficiency);
        1.0 / (1.0 - writes + writes / efficiency)
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = narrow(&paper_drive(&drives[0]));
    let shares: &[f64] = if context.is_full() { &SHARES } else { &QUICK };
    let loads = context.map(&TRACES, |trace| Load::new(context, *trace, &drive, shares));
    let mut outcome = Outcome::default();
    if !context.is_full() {
        outcome.is_partial = true;
    }
    let [financial, campus, tpcc] = &loads[..] else {
        return outcome;
    };
    for (one, other) in [(financial, tpcc), (campus, tpcc), (financial, campus)] {
        outcome.findings.extend(advantages(one, other, shares));
    }
    for load in [financial, campus] {
        outcome.findings.extend(of_best(load, shares));
    }
    outcome.findings.extend(causes(financial, campus, tpcc));
    outcome.figures = vec![figure(&loads, shares)];
    outcome.notes = notes(&loads);
    outcome
}

/// The drive with one of its surfaces: a part of the data takes as many cylinders as all data take on the whole drive, so
/// seeks are as long.
fn narrow(drive: &DriveFile) -> DriveFile {
    let mut drive = drive.clone();
    if let Some(disk) = &mut drive.spec.disk {
        let geometry = &mut disk.geometry;
        let surfaces = std::mem::replace(&mut geometry.heads, 1);
        geometry.sectors = geometry
            .sectors
            .map(|sectors| sectors / u64::from(surfaces));
        for zone in &mut geometry.zones {
            // Their places are those of all surfaces.
            (zone.reserved, zone.spares) = (0, 0);
            (zone.slips, zone.defects) = Default::default();
        }
    }
    drive
}

/// What the layouts gain over Overwrite with one workload, over what they gain with another one.
fn advantages(one: &Load, other: &Load, shares: &[f64]) -> Vec<Finding> {
    let over = |layout, used: &f64| one.relative(layout, *used) / other.relative(layout, *used);
    let (of, than) = (one.trace.name(), other.trace.name());
    let demanded = |what: String, ours: f64| {
        let found = Finding::shown(what, ours, "").paper("above 1");
        found.bound(Bound::AtLeast(1.0))
    };
    let mut findings: Vec<Finding> = shares
        .iter()
        .map(|used| {
            let what = format!("LFS against Overwrite at {used}, {of} over {than}");
            demanded(what, over(Layout::Lfs, used))
        })
        .collect();
    findings.extend([Layout::Wolf, PAPER].map(|layout| {
        let least = least(shares, |used| over(layout, used));
        let name = layout.name();
        let what = format!("{name} against Overwrite, {of} over {than}, the least");
        demanded(what, least)
    }));
    let greedy = one.relative_greedy().zip(other.relative_greedy());
    let greedy = greedy.map(|(own, its)| own / its);
    let what = format!("LFS with a greedy cleaner, {of} over {than}, the least");
    findings.push(demanded(what, greedy.fold(f64::INFINITY, f64::min)));
    findings
}

fn least(shares: &[f64], of: impl Fn(&f64) -> f64) -> f64 {
    shares.iter().map(of).fold(f64::INFINITY, f64::min)
}

/// The rules that separate pages, next to the better of Overwrite and LFS.
fn of_best(load: &Load, shares: &[f64]) -> Vec<Finding> {
    let against = |layout: Layout| {
        let of = |used: &f64| load.grid.of_better(load.case(layout, *used));
        let (name, trace) = (layout.name(), load.trace.name());
        let what = format!("{name} against the better of Overwrite and LFS, {trace}, the least");
        Finding::shown(what, least(shares, of), "")
    };
    let mut findings = vec![
        against(PAPER).paper("almost 1").bound(Bound::AtLeast(0.95)),
        against(OURS).bound(Bound::AtLeast(0.98)),
        against(Layout::Sepbit),
    ];
    findings.extend(shares.iter().filter(|used| **used >= MIDDLE).map(|used| {
        let steady = load.grid.at(load.case(OURS, *used));
        let ratio = steady.write_cost(steady.efficiency) / steady.decision.cost;
        let (name, trace) = (OURS.name(), load.trace.name());
        let what = format!("cost of a write over that of equation 8, {name} at {used}, {trace}");
        Finding::shown(what, ratio, "")
    }));
    findings
}

/// The reasons that the paper gives, and what else differs.
fn causes(financial: &Load, campus: &Load, tpcc: &Load) -> Vec<Finding> {
    let mut findings = Vec::new();
    for load in [financial, campus, tpcc] {
        let name = load.trace.name();
        let (lfs, published) = (load.middle(), load.trace.published_writes());
        let writes = lfs.counts.write_share();
        findings.push(
            Finding::shown(
                format!("writes behind the pool, {name}"),
                100.0 * writes,
                "%",
            )
            .paper(number(100.0 * published))
            .bound(Bound::Within {
                value: 100.0 * published,
                percent: 5.0,
            }),
        );
        let tenth = format!("writes to the hottest tenth of the pages, {name}");
        findings.push(Finding::shown(tenth, 100.0 * load.tenth, "%"));
        let cleaned = format!("cleaning utilisation of LFS at {MIDDLE}, {name}");
        findings.push(Finding::shown(cleaned, lfs.cleaning_utilisation(), ""));
        let efficiency = format!("segment I/O efficiency, LFS at {MIDDLE}, {name}");
        findings.push(Finding::shown(efficiency, lfs.efficiency, ""));
        let free = format!("a log without cleaning against Overwrite by the model, {name}");
        findings.push(Finding::shown(free, load.without_cleaning(), ""));
    }
    for (one, other) in [(financial, campus), (campus, tpcc)] {
        let (of, than) = (one.trace.name(), other.trace.name());
        let what = format!("writes to the hottest tenth of the pages, {of} over {than}");
        findings.push(
            Finding::shown(what, one.tenth / other.tenth, "")
                .paper("above 1")
                .bound(Bound::AtLeast(1.0)),
        );
    }
    for load in [financial, campus] {
        let cost = |load: &Load| cost::cleaning(load.middle().cleaning_utilisation());
        let name = load.trace.name();
        let what = format!("cost of a write by equation 4, LFS at {MIDDLE}, {name} over TPC-C");
        findings.push(
            Finding::shown(what, cost(load) / cost(tpcc), "")
                .paper("below 1")
                .bound(Bound::AtMost(1.0)),
        );
    }
    findings
}

/// Figure 10.
fn figure(loads: &[Load], shares: &[f64]) -> Figure {
    let panels = loads.iter().map(|load| {
        let lines = LAYOUTS.iter().enumerate();
        let lines = lines.filter(|(_, layout)| load.trace.layouts().contains(layout));
        let lines = lines.map(|(color, layout)| {
            let points = shares
                .iter()
                .map(|used| (*used, load.relative(*layout, *used)));
            Line::new(layout.name(), Style::Marked, color, points.collect())
        });
        Panel {
            title: load.trace.name().into(),
            x: Axis::upto("used space, share", 1.0),
            y: Axis::linear("throughput, Overwrite is 1"),
            lines: lines.collect(),
            legend: Legend::Outside,
        }
    });
    let mut tables = loads.iter().map(|load| {
        let trace = || load.trace.name().to_string();
        let mut table = load.grid.table(&["workload", "layout", "used"], |case| {
            vec![trace(), case.layout.name().into(), number(case.used)]
        });
        for (used, lfs) in shares.iter().zip(&load.greedy) {
            let names = vec![trace(), "LFS, greedy cleaner".into(), number(*used)];
            normalised_row(&mut table, names, lfs, load.base());
        }
        table
    });
    let mut table = tables.next().unwrap_or_default();
    table.rows.extend(tables.flat_map(|table| table.rows));
    Figure::plot(
        "hylog-traces",
        "Throughput with Financial and Campus (Figure 10)",
        "In units of the throughput of Overwrite with the same workload. Financial and Campus are synthesised. TPC-C, as in \
         hylog-throughput, on the same single drive.",
        panels.collect(),
    )
    .with(table)
}

fn notes(loads: &[Load]) -> Vec<String> {
    let pages = loads
        .iter()
        .map(|load| format!("{} of {}", load.pages, load.trace.name()));
    vec![
        "Financial and Campus are synthesised: independent requests with the sizes, page sizes, reads and writes of Table 4. Their \
         skews are chosen, so that Financial is more skewed than Campus and Campus more than TPC-C. The real traces also have \
         sequential runs, bursts, and pages that nothing touches. docs/workloads.md has the details."
            .into(),
        format!(
            "Pages that are simulated: {}, a part of the data, with the same part of the pool and of the 20 minutes from one \
             decision of the separator to the next. The drive has one surface of six, so the data take as many cylinders as all \
             data on a whole drive. The data of Financial are larger than the whole drive.",
            pages.collect::<Vec<String>>().join(", ")
        ),
        "The traces have too few writes for a steady state: Financial has one behind the pool for every eight pages. The requests \
         here go on with the same skew until the state is steady."
            .into(),
        "One drive, 20 users, segments of 512 KB. The cleaner is the paper's, cost-age (4.3), without plugging. At 0.98 Financial gains \
         less than TPC-C with either cleaner."
            .into(),
        "That Financial is more skewed than Campus, and Campus more than TPC-C, holds because the skews were chosen so. What the layouts \
         make of it is measured."
            .into(),
    ]
}
