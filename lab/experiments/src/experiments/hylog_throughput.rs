//! Throughput of the layouts against the share of used space (HyLog, Figure 6).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Case, Grid, LAYOUTS, OLTP_WRITES, OURS, PAPER, Store, oltp, paper_drive, steady_by, within,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, number};
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::cost;
use tonearm_pages::{Band, Cleaning, Layout, Steady, Work};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-throughput",
    title: "Overwriting, logs and HyLog against the share of used space",
    source: "HyLog 6.2, Figure 6",
    about: "Twenty users without think time run TPC-C behind a buffer pool of 400 MB on four drives. The layouts differ in one \
            rule: where a written page goes. Beyond the paper: SepBIT, HyLog with the product's estimate of hot writes, and \
            what plugging of holes does.",
    drives: Drives::Some(&["atlas10k", "hylog2003", "hylog2008"]),
    run,
};

/// The drive of which the paper prints numbers.
const PRINTED: &str = "atlas10k";
/// Shares of used space, from the paper's least to its largest.
const SHARES: [f64; 6] = [0.5, 0.7, 0.9, 0.95, 0.97, 0.98];
/// Shares where the layouts differ, or the paper prints numbers.
const HIGH: [f64; 3] = [0.95, 0.97, 0.98];
/// On the faster drives.
const FASTER: [f64; 3] = [0.5, 0.95, 0.98];
/// The fullest.
const LAST: [f64; 1] = [0.98];
/// Overwriting does not depend on the free space: in the paper its curve is a straight line.
const BASE: [f64; 1] = [0.5];

/// What is simulated on a drive.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scope {
    /// The points of which the paper prints numbers.
    Printed,
    /// The curves of Figure 6 on the first drive.
    Curves,
    /// Those on the others.
    Faster,
    /// A quick run.
    Quick,
}

/// The shares at which `layout` is simulated.
fn shares(scope: Scope, cleaning: Cleaning, layout: Layout) -> &'static [f64] {
    match (scope, cleaning, layout) {
        (_, Cleaning::CostAge, Layout::Overwrite) => &BASE,
        (_, Cleaning::Adaptive, Layout::Overwrite | Layout::Wolf | Layout::Sepbit) => &[],
        (Scope::Printed, Cleaning::CostAge, Layout::Lfs | PAPER) => &HIGH,
        (Scope::Printed, Cleaning::CostAge, Layout::Wolf) => &LAST,
        (Scope::Printed, ..) | (Scope::Faster, Cleaning::Adaptive, _) => &[],
        (Scope::Faster, _, Layout::Sepbit) => &[],
        (Scope::Faster, ..) => &FASTER,
        (Scope::Curves, Cleaning::Adaptive, _) => &HIGH,
        (Scope::Curves, ..) => &SHARES,
        (Scope::Quick, Cleaning::CostAge, Layout::Lfs | PAPER | OURS) => &HIGH,
        (Scope::Quick, ..) => &LAST,
    }
}

/// What was found on one drive.
struct Curves {
    drive: String,
    store: Store,
    grid: Grid,
    cases: Vec<Case>,
}

impl Curves {
    fn new(context: &Context<'_>, scope: Scope, drive: &DriveFile) -> Self {
        let store = match scope {
            Scope::Printed => Store::FULL,
            Scope::Curves | Scope::Faster => Store::ONE_DRIVE,
            Scope::Quick => Store::QUICK,
        };
        let mut cases = Vec::new();
        for cleaning in [Cleaning::CostAge, Cleaning::Adaptive] {
            for layout in LAYOUTS {
                let shares = shares(scope, cleaning, layout).iter();
                cases.extend(shares.map(|used| Case {
                    cleaning,
                    ..store.case(layout, *used)
                }));
            }
        }
        let grid = Grid::new(context, &cases, |case| store.simulate(context, drive, case));
        Self {
            drive: drive.name.clone(),
            store,
            grid,
            cases,
        }
    }

    fn case(&self, cleaning: Cleaning, layout: Layout, used: f64) -> Option<Case> {
        let is_it =
            |case: &&Case| (case.cleaning, case.layout) == (cleaning, layout) && case.used == used;
        self.cases.iter().find(is_it).copied()
    }

    /// With cost-age cleaning.
    fn at(&self, layout: Layout, used: f64) -> Option<&Steady> {
        let case = self.case(Cleaning::CostAge, layout, used)?;
        Some(self.grid.at(case))
    }

    /// Throughput in units of that of Overwrite.
    fn relative(&self, cleaning: Cleaning, layout: Layout, used: f64) -> Option<f64> {
        let case = self.case(cleaning, layout, used)?;
        let base = self.store.case(Layout::Overwrite, used);
        Some(self.grid.over(case, base))
    }

    /// The shares of a layout in rising order.
    fn shares(&self, cleaning: Cleaning, layout: Layout) -> impl Iterator<Item = f64> + '_ {
        let own = move |case: &&Case| (case.cleaning, case.layout) == (cleaning, layout);
        self.cases.iter().filter(own).map(|case| case.used)
    }

    fn panel(&self, cleaning: Cleaning) -> Option<Panel> {
        let mut lines = Vec::new();
        for (color, layout) in LAYOUTS.into_iter().enumerate() {
            let points = self.shares(cleaning, layout);
            let mut points: Vec<(f64, f64)> = points
                .filter_map(|used| Some((used, self.relative(cleaning, layout, used)?)))
                .collect();
            if (cleaning, layout) == (Cleaning::CostAge, Layout::Overwrite) {
                points = [SHARES[0], SHARES[SHARES.len() - 1]]
                    .map(|used| (used, 1.0))
                    .to_vec();
            }
            if !points.is_empty() {
                lines.push(Line::new(layout.name(), Style::Marked, color, points));
            }
        }
        (!lines.is_empty()).then(|| Panel {
            title: match self.store.disks {
                1 => format!("{}, {}", self.drive, way(cleaning)),
                disks => format!("{disks} of {}, {}", self.drive, way(cleaning)),
            },
            x: Axis::upto("used space, share", 1.0),
            y: Axis::linear("throughput, Overwrite is 1"),
            lines,
            legend: Legend::Outside,
        })
    }
}

fn way(cleaning: Cleaning) -> &'static str {
    match cleaning {
        Cleaning::Adaptive => "cleaning and plugging",
        _ => "cleaning alone",
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let mut outcome = Outcome {
        is_partial: !context.is_full(),
        ..Outcome::default()
    };
    let curves = |drive: &DriveFile, scope| Curves::new(context, scope, &paper_drive(drive));
    // A drive that is named in place of the experiment's own has the curves of the first one.
    let all: Vec<Curves> = match context.is_full() {
        true => {
            let faster = |drive: &DriveFile| matches!(&*drive.name, "hylog2003" | "hylog2008");
            let scope = |drive: &DriveFile| match faster(drive) {
                true => Scope::Faster,
                false => Scope::Curves,
            };
            let of = drives.iter().map(|drive| curves(drive, scope(drive)));
            of.collect()
        }
        false => vec![curves(&drives[0], Scope::Quick)],
    };
    let printed = context
        .is_full()
        .then(|| curves(&drives[0], Scope::Printed));
    if all[0].drive == PRINTED {
        let findings = &mut outcome.findings;
        let printed = printed.as_ref().unwrap_or(&all[0]);
        printed_findings(printed, findings);
        numbers_of_6_2(context, printed, findings);
        overlap(&all[0], findings);
        plugging(&all[0], findings);
        own_findings(&all[0], findings);
        independent(context, &drives[0], all[0].store, findings);
    }
    outcome.findings.extend(drives_findings(&all));
    outcome.notes = notes(context, all[0].store);
    let all: Vec<Curves> = all.into_iter().chain(printed).collect();
    outcome.figures.push(figure(&all));
    outcome
}

/// What the paper says of the layouts on the Atlas 10K.
fn printed_findings(curves: &Curves, findings: &mut Vec<Finding>) {
    let printed = [
        (Layout::Lfs, 0.95, 1.27),
        (Layout::Lfs, 0.98, 0.78),
        (PAPER, 0.97, 1.074),
        (PAPER, 0.98, 1.008),
    ];
    for (layout, share, paper) in printed {
        if let Some(ours) = curves.relative(Cleaning::CostAge, layout, share) {
            let layout = layout.name();
            let what = format!("{layout} against Overwrite at {share}, cleaning alone");
            findings.push(within(what, ours, "", paper, 8.0));
        }
    }
    for (share, paper) in [(0.95, 0.884), (0.98, 0.962)] {
        if let Some(lfs) = curves.at(Layout::Lfs, share) {
            let used = lfs.cleaning_utilisation();
            let what = format!("cleaning utilisation of LFS at {share}");
            findings.push(within(what, used, "", paper, 3.0));
            let relative = curves.relative(Cleaning::CostAge, Layout::Lfs, share);
            findings.extend(relative.map(|ours| model(lfs, share, ours)));
            if let Some(base) = curves.at(Layout::Overwrite, BASE[0]) {
                let paper = if share == 0.95 { 1.27 } else { 0.78 };
                findings.push(by_table_4(base, lfs, share, paper));
            }
        }
    }
    if let (Some(wolf), Some(lfs)) = (curves.at(Layout::Wolf, 0.98), curves.at(Layout::Lfs, 0.98)) {
        let ratio = wolf.throughput() / lfs.throughput();
        findings.push(within("WOLF against LFS at 0.98", ratio, "", 1.05, 5.0));
    }
}

/// "The throughput of HyLog overlaps that of LFS" up to 0.95, because all pages are hot.
fn overlap(curves: &Curves, findings: &mut Vec<Finding>) {
    for share in curves.shares(Cleaning::CostAge, PAPER) {
        if let (true, Some(hylog), Some(lfs)) = (
            share <= 0.95,
            curves.at(PAPER, share),
            curves.at(Layout::Lfs, share),
        ) {
            let ratio = hylog.throughput() / lfs.throughput();
            let what = format!("HyLog against LFS at {share}");
            findings.push(within(what, ratio, "", 1.0, 5.0));
        }
    }
}

/// The same numbers with a cleaner that also plugs, as 4.3 has it.
fn plugging(curves: &Curves, findings: &mut Vec<Finding>) {
    for (layout, share, paper) in [(Layout::Lfs, 0.98, 0.78), (PAPER, 0.98, 1.008)] {
        if let Some(ours) = curves.relative(Cleaning::Adaptive, layout, share) {
            let layout = layout.name();
            let what = format!("{layout} against Overwrite at {share}, cleaning and plugging");
            findings.push(within(what, ours, "", paper, 8.0));
        }
    }
}

/// The times, the idleness and the efficiency of the paper's two examples, and the writes of Table 4.
fn numbers_of_6_2(context: &Context<'_>, curves: &Curves, findings: &mut Vec<Finding>) {
    let writes = 100.0 * curves.store.oltp.requests(context.seed(2)).write_share();
    let what = "writes behind the pool";
    findings.push(within(what, writes, "%", 100.0 * OLTP_WRITES, 5.0));
    let examples = [
        (Layout::Lfs, 0.95, [5.6, 27.3, 30.0, 37.5]),
        (PAPER, 0.98, [5.8, 27.2, 22.5, 35.2]),
    ];
    for (layout, share, [page, segment, idle, efficiency]) in examples {
        let Some(steady) = curves.at(layout, share) else {
            continue;
        };
        let (page_ms, segment_ms) = steady.service_ms();
        let what = |what: &str| format!("{what}, {} at {share}", layout.name());
        let time = what("time of a segment on a disk");
        findings.push(within(time, segment_ms, "ms", segment, 5.0));
        findings.push(within(what("time of a page"), page_ms, "ms", page, 10.0));
        // A single drive is never idle while a user waits.
        if curves.store.disks > 1 {
            let ours = 100.0 * steady.idle();
            findings.push(within(
                what("idle time of the disks"),
                ours,
                "%",
                idle,
                20.0,
            ));
            let ours = steady.efficiency;
            findings.push(within(
                what("E, adjusted for idleness"),
                ours,
                "",
                efficiency,
                10.0,
            ));
        }
    }
}

/// What LFS would gain with the measured times and the paper's share of writes, which the generated TPC-C does not have.
fn by_table_4(base: &Steady, lfs: &Steady, share: f64, paper: f64) -> Finding {
    let request_ms = |steady: &Steady| {
        let read = steady.counts.mean_ms(&[Work::PageRead]);
        let write = steady.counts.write_nanos(steady.segment_pages) / 1e6;
        (1.0 - OLTP_WRITES) * read + OLTP_WRITES * write
    };
    let what =
        format!("LFS against Overwrite at {share}, by the measured times and Table 4's writes");
    within(what, request_ms(base) / request_ms(lfs), "", paper, 8.0)
}

/// The model with what was measured, as section 6.2 applies it.
fn model(lfs: &Steady, share: f64, ours: f64) -> Finding {
    let writes = lfs.efficiency / cost::cleaning(lfs.cleaning_utilisation());
    let written = lfs.counts.write_share();
    let model = 1.0 / (1.0 - written + written / writes);
    let paper = match share {
        0.95 => 1.27 / 1.30,
        _ => 0.78 / 0.828,
    };
    let what = format!("simulation over the model with what was measured, LFS at {share}");
    Finding::shown(what, ours / model, "")
        .paper(number(paper))
        .bound(Bound::Within {
            value: 1.0,
            percent: 12.0,
        })
}

/// What is demanded of the product's own rule.
fn own_findings(curves: &Curves, findings: &mut Vec<Finding>) {
    for cleaning in [Cleaning::CostAge, Cleaning::Adaptive] {
        for share in curves.shares(cleaning, OURS) {
            let of = |layout| curves.relative(cleaning, layout, share);
            let (Some(hylog), Some(lfs)) = (of(OURS), of(Layout::Lfs)) else {
                continue;
            };
            let way = way(cleaning);
            let what = format!(
                "HyLog with later writes against the better of Overwrite and LFS at {share}, {way}"
            );
            findings
                .push(Finding::shown(what, hylog / lfs.max(1.0), "").bound(Bound::AtLeast(0.98)));
        }
    }
    let last = SHARES[SHARES.len() - 1];
    if let (Some(sepbit), Some(lfs)) = (
        curves.at(Layout::Sepbit, last),
        curves.at(Layout::Lfs, last),
    ) {
        let ratio = sepbit.throughput() / lfs.throughput();
        let what = format!("SepBIT against LFS at {last}, cleaning alone");
        findings.push(Finding::shown(what, ratio, ""));
    }
}

/// LFS under independent requests with the skew that the paper prints: 58.2 % of the writes to 42.2 % of the pages. They show
/// what the skew of the generated TPC-C changes.
fn independent(
    context: &Context<'_>,
    drive: &DriveFile,
    store: Store,
    findings: &mut Vec<Finding>,
) {
    let drive = paper_drive(drive);
    let pages = store.oltp.requests(context.seed(2)).pages();
    let band = Band {
        width: store.width,
        ..Band::new(pages, OLTP_WRITES)
    };
    let base = store.case(Layout::Overwrite, 0.95);
    let logs = [0.95, 0.98].map(|share| store.case(Layout::Lfs, share));
    let cases = [&[base][..], &logs].concat();
    let grid = Grid::new(context, &cases, |case| {
        let setup = case.setup(&drive, pages, context.seed(1));
        steady_by(&setup, oltp(pages, context.seed(2)), &band)
    });
    for case in logs {
        let what = |what: &str| format!("{what} at {}, independent requests", case.used);
        let used = grid.at(case).cleaning_utilisation();
        findings.push(Finding::shown(
            what("cleaning utilisation of LFS"),
            used,
            "",
        ));
        let relative = grid.relative(case);
        findings.push(Finding::shown(what("LFS against Overwrite"), relative, ""));
    }
}

/// What the paper says of the three drives.
fn drives_findings(all: &[Curves]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for curves in all.iter().filter(|curves| curves.drive != PRINTED) {
        let share = 0.95;
        let of = |layout| curves.relative(Cleaning::CostAge, layout, share);
        let three: Vec<f64> = [Layout::Lfs, Layout::Wolf, PAPER]
            .into_iter()
            .filter_map(of)
            .collect();
        let most = three.iter().copied().fold(0.0, f64::max);
        let apart = most / three.iter().copied().fold(f64::INFINITY, f64::min);
        let what = format!(
            "largest of LFS, WOLF and HyLog over the least at {share}, {}",
            curves.drive
        );
        let found = Finding::shown(what, apart, "").paper("almost 1");
        findings.push(found.bound(Bound::AtMost(1.05)));
    }
    // "The faster the disk, the more LFS and WOLF can tolerate the high space utilization."
    let kept = |curves: &Curves, layout| {
        let of = |share| curves.relative(Cleaning::CostAge, layout, share);
        Some(of(0.98)? / of(0.5)?)
    };
    for pair in all.windows(2) {
        if let [slower, faster] = pair
            && let (Some(least), Some(most)) =
                (kept(slower, Layout::Lfs), kept(faster, Layout::Lfs))
        {
            let what = format!(
                "what LFS keeps at 0.98 of its throughput at 0.5, {} over {}",
                faster.drive, slower.drive
            );
            let found = Finding::shown(what, most / least, "").paper("above 1");
            findings.push(found.bound(Bound::AtLeast(1.0)));
        }
    }
    findings
}

/// Figure 6.
fn figure(all: &[Curves]) -> Figure {
    let panels = all.iter().flat_map(|curves| {
        [Cleaning::CostAge, Cleaning::Adaptive]
            .into_iter()
            .filter_map(|cleaning| curves.panel(cleaning))
    });
    let mut tables = all.iter().map(|curves| {
        curves
            .grid
            .table(&["drive", "drives", "cleaner", "layout", "used"], |case| {
                vec![
                    curves.drive.clone(),
                    case.disks.to_string(),
                    way(case.cleaning).into(),
                    case.layout.name().into(),
                    number(case.used),
                ]
            })
    });
    let mut table = tables.next().unwrap_or_default();
    table.rows.extend(tables.flat_map(|table| table.rows));
    Figure::plot(
        "hylog-throughput",
        "Throughput against the share of used space (Figure 6)",
        "In units of the throughput of Overwrite on the same drives.",
        panels.collect(),
    )
    .with(table)
}

fn notes(context: &Context<'_>, store: Store) -> Vec<String> {
    let oltp = store.oltp;
    vec![
        format!(
            "The paper's system is four drives, 20 users, and TPC-C of 50 warehouses behind a pool of 400 MB; its printed numbers are \
             compared with those of four drives. The curves are of one of the four drives with its part of all that: {} users, {} \
             warehouses, {} pages of 4 KB. Such a drive has as many segments for each free one, but is never idle. In a quick run \
             it has half the data, and all is compared with it. RAID-0, SCAN on page numbers, write caches off, decisions of the \
             separator every 20 minutes, or half of them in a quick run. Segments on one disk: 512 KB, 1 MB and 2 MB on the three \
             drives.",
            store.users,
            oltp.warehouses,
            oltp.requests(context.seed(2)).pages(),
        ),
        "The cleaner is the paper's, cost-age (4.3). With plugging it takes the cheaper of both in each pass. The paper's own \
         numbers are those of cleaning alone: at a cleaning utilisation of 0.962 only formula (4) gives its 0.83."
            .into(),
        format!(
            "A third of the database is never written, so the data never spread wholly. The measurement begins after {} windows, \
             in each of which a fifth as many pages are written as there are, and four windows must agree within {} %.",
            store.skip,
            number(100.0 * store.width)
        ),
        "The paper's TPC-C is a trace of DB2 that is not to be had. Behind the same pool the generated one has more reads for \
         each write, and more of its writes go to few pages (docs/workloads.md). The independent requests have the one point of the \
         skew that the paper prints: 58.2 % of the writes go to 42.2 % of the pages."
            .into(),
    ]
}
