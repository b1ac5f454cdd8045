//! Throughput of the layouts on a hard disk of the 2020s and on a flash drive.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Case, Grid, INTERVAL, LAYOUTS, OLTP_WRITES, OURS, Oltp, PAPER, steady_by};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::cost;
use tonearm_pages::{Band, Layout};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-drives",
    title: "Overwriting, logs and HyLog on a drive of the 2020s and on flash",
    source: "beyond HyLog: drives of the 2020s",
    about: "The workload of hylog-throughput on one hard disk and on one flash drive: whether cold pages in place still pay, what \
            the segment I/O efficiency E is, and whether the separator decides rightly.",
    drives: Drives::Some(&["sata2tb", "ssd"]),
    run,
};

/// Overwriting and logs, without a separator that decides.
const PLAIN: [Layout; 4] = [Layout::Overwrite, Layout::Lfs, Layout::Wolf, Layout::Sepbit];
/// Hot shares that are forced.
const FORCED: [Layout; 3] = [
    Layout::Forced(0.2),
    Layout::Forced(0.4),
    Layout::Forced(0.6),
];
const SHARES: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.98];
/// What a quick run does of them.
const QUICK: [f64; 2] = [0.8, 0.98];
/// The part of the data that is simulated on one drive, so that it has as many segments as hylog-throughput on four.
const FULL_PART: Oltp = Oltp::FOURTH;
const QUICK_PART: Oltp = Oltp::EIGHTH;
/// Time from one decision of the separator to the next on flash, for all the data.
const FLASH_INTERVAL: Nanos = Nanos::from_secs(120);
/// Spare space of a drive of this class: the difference of a GB and a GiB.
const DRIVE_SPARE: f64 = 0.07;

/// A drive and what was found on it.
struct Found {
    drive: String,
    layouts: Vec<Layout>,
    interval: Nanos,
    grid: Grid,
}

fn case(layout: Layout, used: f64, interval: Nanos) -> Case {
    Case {
        disks: 1,
        interval,
        ..Case::new(layout, used)
    }
}

impl Found {
    fn new(context: &Context<'_>, drive: &DriveFile, shares: &[f64]) -> Self {
        let (oltp, skip) = match context.is_full() {
            true => (FULL_PART, 12),
            false => (QUICK_PART, 3),
        };
        let requests = oltp.requests(context.seed(2));
        let (pages, interval) = (requests.pages(), interval(drive, oltp.part));
        let band = Band {
            skip,
            spread: false,
            decisions: 3,
            width: if context.is_full() { 0.03 } else { 0.06 },
            most: if context.is_full() { 40 } else { 8 },
            ..Band::new(pages, OLTP_WRITES)
        };
        let layouts = layouts(drive, context.is_full());
        let cases: Vec<Case> = layouts
            .iter()
            .flat_map(|layout| shares.iter().map(|used| case(*layout, *used, interval)))
            .collect();
        let grid = Grid::new(context, &cases, |case| {
            let setup = case.setup(drive, pages, context.seed(1));
            steady_by(&setup, requests.replay(), &band)
        });
        Self {
            drive: drive.name.clone(),
            layouts,
            interval,
            grid,
        }
    }

    fn case(&self, layout: Layout, used: f64) -> Case {
        case(layout, used, self.interval)
    }

    fn relative(&self, layout: Layout, used: f64) -> f64 {
        self.grid.relative(self.case(layout, used))
    }

    /// The cost of a write in a log at which the log is as fast as Overwrite: the E of equation 8 that makes the right
    /// decision. On a busy drive the time of a request grows in proportion to the cost of a write, so it lies on the straight
    /// line through the fullest and the emptiest store.
    fn break_even(&self, shares: &[f64]) -> f64 {
        let point = |used: f64| {
            let lfs = self.grid.at(self.case(Layout::Lfs, used));
            (lfs.write_cost(lfs.efficiency), 1.0 / lfs.throughput())
        };
        let (empty, full) = (point(shares[0]), point(shares[shares.len() - 1]));
        let base = self.grid.at(self.case(Layout::Overwrite, shares[0]));
        let slope = (full.1 - empty.1) / (full.0 - empty.0);
        empty.0 + (1.0 / base.throughput() - empty.1) / slope
    }

    fn findings(&self, shares: &[f64]) -> Vec<Finding> {
        let drive = &self.drive;
        let mut findings = Vec::new();
        for used in shares {
            let of_better = |layout| self.grid.of_better(self.case(layout, *used));
            for layout in [Layout::Lfs, Layout::Sepbit] {
                let what = format!("{} against Overwrite at {used}, {drive}", layout.name());
                findings.push(Finding::shown(what, self.relative(layout, *used), ""));
            }
            for layout in [PAPER, OURS] {
                let name = layout.name();
                let what =
                    format!("{name} against the better of Overwrite and LFS at {used}, {drive}");
                let found = Finding::shown(what, of_better(layout), "");
                findings.push(found.bound(Bound::AtLeast(0.98)));
            }
            let best = self.layouts.iter().map(|layout| of_better(*layout));
            let best = best.fold(0.0, f64::max);
            let what = format!(
                "the best layout against the better of Overwrite and LFS at {used}, {drive}"
            );
            findings.push(Finding::shown(what, best, ""));
            let what =
                format!("HyLog with later writes against the best layout at {used}, {drive}");
            let found = Finding::shown(what, of_better(OURS) / best, "");
            findings.push(found.bound(Bound::AtLeast(0.9)));
            let decision = self.grid.at(self.case(OURS, *used)).decision;
            let what = format!("hot share that the separator chooses at {used}, {drive}");
            findings.push(Finding::shown(what, 100.0 * decision.hot_share, "%"));
        }
        let right = self.break_even(shares);
        let what = format!("cost of a log's write at which it is as fast as Overwrite, {drive}");
        findings.push(Finding::shown(what, right, ""));
        let cases = self.layouts.iter();
        let cases = cases.flat_map(|layout| shares.iter().map(|used| (*layout, *used)));
        let measured = cases.map(|(layout, used)| {
            let steady = self.grid.at(self.case(layout, used));
            steady.efficiency / right
        });
        let (least, most) = measured.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        let what =
            |which: &str| format!("{which} measured E of all layouts over that cost, {drive}");
        findings.extend([
            Finding::shown(what("least"), least, "").bound(Bound::AtLeast(0.67)),
            Finding::shown(what("largest"), most, "").bound(Bound::AtMost(1.5)),
        ]);
        findings
    }

    fn panel(&self, shares: &[f64]) -> Panel {
        let lines = LAYOUTS.iter().enumerate().map(|(color, layout)| {
            let points = shares
                .iter()
                .map(|used| (*used, self.relative(*layout, *used)));
            Line::new(layout.name(), Style::Marked, color, points.collect())
        });
        Panel {
            title: self.drive.clone(),
            x: Axis::upto("used space, share", 1.0),
            y: Axis::linear("throughput, Overwrite is 1"),
            lines: lines.collect(),
            legend: Legend::Outside,
        }
    }

    fn table(&self) -> Table {
        self.grid.table(&["drive", "layout", "used"], |case| {
            let layout = match case.layout {
                Layout::Forced(share) => format!("{} {}", case.layout.name(), number(share)),
                layout => layout.name().into(),
            };
            vec![self.drive.clone(), layout, number(case.used)]
        })
    }
}

/// The layouts that are simulated on `drive`. Within an interval on a hard disk too few pages are written for a forced share.
fn layouts(drive: &DriveFile, is_full: bool) -> Vec<Layout> {
    let forced: &[Layout] = match drive.spec.flash {
        Some(_) if is_full => &FORCED,
        _ => &[],
    };
    [&PLAIN, &[PAPER, OURS][..], forced].concat()
}

/// Time from one decision of the separator to the next.
fn interval(drive: &DriveFile, parts: u64) -> Nanos {
    let whole = match drive.spec.flash {
        Some(_) => FLASH_INTERVAL,
        None => INTERVAL,
    };
    Nanos(whole.0 / parts)
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let shares: &[f64] = if context.is_full() { &SHARES } else { &QUICK };
    let all = context.map(drives, |drive| Found::new(context, drive, shares));
    let mut outcome = Outcome::default();
    if !context.is_full() {
        outcome.is_partial = true;
    }
    for found in &all {
        outcome.findings.extend(found.findings(shares));
    }
    let flash = drives.iter().position(|drive| drive.spec.flash.is_some());
    if let Some(found) = flash.map(|at| &all[at]) {
        outcome.findings.extend(amplification(found, shares));
    }
    let mut tables = all.iter().map(Found::table);
    let mut table = tables.next().unwrap_or_default();
    table.rows.extend(tables.flat_map(|table| table.rows));
    let panels = all.iter().map(|found| found.panel(shares)).collect();
    let title = "Throughput on a hard disk of the 2020s and on flash";
    let caption = "In units of the throughput of Overwrite on the same drive.";
    outcome.figures = vec![Figure::plot("hylog-drives", title, caption, panels).with(table)];
    outcome.notes = notes();
    outcome
}

/// What garbage collection in the drive would change, which the model does not have.
fn amplification(found: &Found, shares: &[f64]) -> Vec<Finding> {
    let right = found.break_even(shares);
    let mut findings: Vec<Finding> = shares
        .iter()
        .map(|used| {
            let lfs = found.grid.at(found.case(Layout::Lfs, *used));
            let what = format!(
                "write amplification of page writes in the drive from which LFS is faster at {used}, {}",
                found.drive
            );
            Finding::shown(what, lfs.write_cost(lfs.efficiency) / right, "")
        })
        .collect();
    let collected = cost::cleaning_utilisation(1.0 - DRIVE_SPARE);
    let what = "write amplification by equation 2 of a full drive with 7 % of spare space";
    findings.push(Finding::shown(what, 1.0 / (1.0 - collected), ""));
    findings
}

fn notes() -> Vec<String> {
    vec![
        "The workload, its 20 users and cost-age cleaning without plugging are those of hylog-throughput, with a fourth of the data on one \
         drive. The data lie at the front of the drive, so that seeks on sata2tb are short; that favours Overwrite. Write caches \
         are off."
            .into(),
        "Segments of 512 KB on both drives. By equation 6 those of sata2tb would be about 6 MB, and a store of this size would not \
         have enough of them."
            .into(),
        format!(
            "Decisions of the separator every 20 minutes on sata2tb, and every {} seconds on ssd, or a part of them with the smaller \
             store. The shorter interval saves requests: in it a page of the ssd has about one write.",
            FLASH_INTERVAL.0 / 1_000_000_000
        ),
        "The model of ssd has eight channels with fixed times of a read (0.085 ms) and of a write (0.6 ms) for a request of any \
         size, a link of 500 MB/s that all channels share, a cache (off here) and flushes. It has no erase blocks, no mapping, no \
         garbage collection and so no write amplification, no wear, and no discard. A page that is overwritten costs the same on a \
         full drive as on an empty one. So the figures hold for a drive that is mostly empty; the last findings tell the write \
         amplification that would turn them round, if segments had none."
            .into(),
    ]
}
