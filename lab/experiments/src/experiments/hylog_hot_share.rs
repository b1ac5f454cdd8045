//! Throughput against the hot share (HyLog, Figure 7), and what decides which share the separator chooses.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Case, OURS, PAPER, Store, Variant, normalised_row, normalised_table, paper_drive, steady_by,
    within,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Band, Layout, Steady};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-hot-share",
    title: "HyLog against the share of hot pages, and what decides the share",
    source: "HyLog 4.1, 4.2 and 6.2, Figure 7",
    about: "TPC-C on drives that are 0.98 full. Hot shares are forced, to see how near to the best one the separator comes. \
            Then three readings of the paper are compared in which the separator finds other shares: intervals with more writes \
            for each page, counts that have the cleaner's copies, and a cleaner that keeps users waiting. Beyond the paper: hot \
            pages that are sorted as WOLF does, and pages that have cooled and are overwritten where they lie, as in the product.",
    drives: Drives::One("atlas10k"),
    run,
};

const USED: f64 = 0.98;
/// Hot shares that are forced.
const FORCED: [f64; 3] = [0.1, 0.2, 0.4];
const QUICK_FORCED: [f64; 2] = [0.2, 0.4];
/// The paper's interval, and that in which the forced shares are counted: in 20 minutes most pages are not written at all.
const CHOSEN: f64 = 20.0;
const LONG: f64 = 120.0;
/// Minutes from one decision of the separator to the next.
const INTERVALS: [f64; 5] = [5.0, CHOSEN, 60.0, LONG, 240.0];
const QUICK_INTERVALS: [f64; 2] = [CHOSEN, LONG];
/// The paper's hot share at the first decision after the warm-up, and its share of hot writes (6.2).
const HOT_SHARE: f64 = 42.2;
const HOT_WRITES: f64 = 58.2;

const PLAIN: Variant = Variant {
    sorts_hot: false,
    counts_copies: false,
    cleaner_blocks: false,
    cools_in_place: false,
};
const COPIES: Variant = Variant {
    counts_copies: true,
    ..PLAIN
};
const BLOCKS: Variant = Variant {
    cleaner_blocks: true,
    ..PLAIN
};
const SORTED: Variant = Variant {
    sorts_hot: true,
    ..PLAIN
};
const IN_PLACE: Variant = Variant {
    cools_in_place: true,
    ..PLAIN
};

/// One simulation.
#[derive(Clone, Copy)]
struct Rule {
    store: Store,
    layout: Layout,
    minutes: f64,
    variant: Variant,
    used: f64,
}

struct Point {
    rule: Rule,
    steady: Steady,
    /// Writes for each page between two decisions.
    density: f64,
}

impl Rule {
    fn new(store: Store, layout: Layout, minutes: f64, variant: Variant) -> Self {
        Self {
            store,
            layout,
            minutes,
            variant,
            used: USED,
        }
    }

    fn simulate(self, context: &Context<'_>, drive: &DriveFile) -> Point {
        let interval = self.store.time(Nanos((self.minutes * 60e9) as u64));
        let case = Case {
            interval,
            variant: self.variant,
            ..self.store.case(self.layout, self.used)
        };
        let requests = self.store.oltp.requests(context.seed(2));
        let pages = requests.pages();
        let setup = case.setup(drive, pages, context.seed(1));
        let band = Band {
            decisions: 2,
            most: 80,
            ..self.store.band(pages)
        };
        let steady = steady_by(&setup, requests.replay(), &band);
        let rate = steady.counts.writes as f64 / steady.counts.nanos as f64;
        Point {
            rule: self,
            density: rate * interval.0 as f64 / pages as f64,
            steady,
        }
    }

    fn name(&self) -> &'static str {
        match self.variant {
            PLAIN => "",
            COPIES => "copies count",
            BLOCKS => "the cleaner blocks users",
            SORTED => "sorted",
            IN_PLACE => "cooled pages in place",
            _ => "copies count, the cleaner blocks users",
        }
    }
}

impl Point {
    /// Share of hot pages, and share of the writes that the decision expects to go to them, in percent.
    fn decided(&self) -> [f64; 2] {
        let decision = self.steady.decision;
        [decision.hot_share, decision.hot_writes].map(|share| 100.0 * share)
    }
}

/// All points, with those that are looked up.
struct Points(Vec<Point>);

impl Points {
    fn at(&self, layout: Layout, minutes: f64, variant: Variant, disks: u32) -> Option<&Point> {
        self.0.iter().find(|point| {
            let rule = &point.rule;
            (rule.layout, rule.minutes, rule.variant, rule.store.disks)
                == (layout, minutes, variant, disks)
                && rule.used == USED
        })
    }

    /// Throughput of Overwrite on as many disks.
    fn base(&self, disks: u32) -> f64 {
        let base = self.at(Layout::Overwrite, CHOSEN, PLAIN, disks);
        base.map_or(f64::NAN, |point| point.steady.throughput())
    }

    /// The forced shares with their throughputs on one disk, and with them all cold and all hot pages.
    fn forced(&self) -> Vec<(f64, f64)> {
        let ends = [(0.0, Layout::Overwrite), (1.0, Layout::Lfs)];
        let forced = FORCED.map(|share| (share, Layout::Forced(share)));
        let all = ends[..1].iter().chain(&forced).chain(&ends[1..]);
        let found = all.filter_map(|(share, layout)| {
            let minutes = match layout {
                Layout::Forced(_) => LONG,
                _ => CHOSEN,
            };
            let point = self.at(*layout, minutes, PLAIN, 1)?;
            Some((*share, point.steady.throughput()))
        });
        found.collect()
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = paper_drive(&drives[0]);
    let is_full = context.is_full();
    let store = if is_full {
        Store::ONE_DRIVE
    } else {
        Store::QUICK
    };
    let rules = rules(store, is_full);
    let points = Points(context.map(&rules, |rule| rule.simulate(context, &drive)));
    let mut outcome = Outcome {
        is_partial: !is_full,
        ..Outcome::default()
    };
    choices(&points, &mut outcome.findings);
    sweeps(&points, &mut outcome.findings);
    blocking(&points, &mut outcome.findings);
    sorting(&points, &mut outcome.findings);
    cooling(&points, &mut outcome.findings);
    outcome.figures = vec![forced_figure(&points), sweeps_figure(&points)];
    outcome.notes = notes(store);
    outcome
}

fn rules(store: Store, is_full: bool) -> Vec<Rule> {
    let (forced, intervals): (&[f64], &[f64]) = match is_full {
        true => (&FORCED, &INTERVALS),
        false => (&QUICK_FORCED, &QUICK_INTERVALS),
    };
    let ends = [Layout::Overwrite, Layout::Lfs];
    let mut rules = ends
        .map(|layout| Rule::new(store, layout, CHOSEN, PLAIN))
        .to_vec();
    let of = |layout, minutes, variant| Rule::new(store, layout, minutes, variant);
    rules.extend(
        forced
            .iter()
            .map(|share| of(Layout::Forced(*share), LONG, PLAIN)),
    );
    rules.extend(intervals.iter().map(|minutes| of(PAPER, *minutes, PLAIN)));
    rules.push(of(PAPER, CHOSEN, COPIES));
    rules.extend([PLAIN, SORTED, IN_PLACE].map(|variant| of(OURS, CHOSEN, variant)));
    if !is_full {
        return rules;
    }
    rules.extend([LONG].map(|minutes| of(PAPER, minutes, COPIES)));
    rules.push(of(OURS, LONG, PLAIN));
    rules.extend([SORTED, IN_PLACE].map(|variant| of(PAPER, CHOSEN, variant)));
    // Several disks, which can be idle.
    let four = |layout, variant| Rule::new(Store::FULL, layout, CHOSEN, variant);
    let both = Variant {
        cleaner_blocks: true,
        ..COPIES
    };
    rules.push(four(Layout::Overwrite, PLAIN));
    rules.extend([PLAIN, BLOCKS, both].map(|variant| four(PAPER, variant)));
    rules.extend([PLAIN, IN_PLACE].map(|variant| four(OURS, variant)));
    rules.extend([PLAIN, BLOCKS].map(|variant| Rule {
        used: 0.95,
        ..four(Layout::Lfs, variant)
    }));
    rules
}

/// The numbers that the paper prints for Figure 7.
fn choices(points: &Points, findings: &mut Vec<Finding>) {
    let best = points
        .forced()
        .iter()
        .map(|point| point.1)
        .fold(0.0, f64::max);
    for (layout, minutes) in [(PAPER, CHOSEN), (PAPER, LONG), (OURS, CHOSEN), (OURS, LONG)] {
        let Some(point) = points.at(layout, minutes, PLAIN, 1) else {
            continue;
        };
        let what = |what: &str| format!("{}, {minutes} minutes: {what}", layout.name());
        let ours = 100.0 * point.steady.throughput() / best;
        let found = what("of the best throughput");
        if (layout, minutes) != (PAPER, CHOSEN) {
            findings.push(Finding::shown(found, ours, "%"));
            continue;
        }
        findings.push(within(found, ours, "%", 96.4, 5.0));
        let [share, _] = point.decided();
        let found = within(what("hot share"), share, "%", 40.0, 12.5);
        findings.push(found.paper("35 to 45"));
    }
}

/// Hot share and hot writes of the paper's rule by interval and by what is counted.
fn sweeps(points: &Points, findings: &mut Vec<Finding>) {
    for variant in [PLAIN, COPIES] {
        for minutes in INTERVALS {
            let Some(point) = points.at(PAPER, minutes, variant, 1) else {
                continue;
            };
            let [share, writes] = point.decided();
            let counts = match variant {
                COPIES => ", copies count",
                _ => "",
            };
            let what = |what: &str| format!("{what}, {minutes} minutes{counts}");
            let mut found = [
                within(what("hot share"), share, "%", HOT_SHARE, 10.0),
                within(what("hot writes"), writes, "%", HOT_WRITES, 10.0),
            ];
            if minutes != CHOSEN {
                // The paper has one interval.
                found.iter_mut().for_each(|found| {
                    *found = Finding::shown(found.what.clone(), found.ours, "%");
                });
            }
            findings.extend(found);
            let density =
                Finding::shown(what("writes of a page in an interval"), point.density, "");
            findings.push(density);
        }
    }
}

/// A cleaner that keeps users waiting, on four disks: how long they are idle, and what that does to E and the hot share.
fn blocking(points: &Points, findings: &mut Vec<Finding>) {
    for point in &points.0 {
        let rule = &point.rule;
        if rule.store.disks == 1 || ![PAPER, Layout::Lfs].contains(&rule.layout) {
            continue;
        }
        let paper = match rule.layout {
            Layout::Lfs => 30.0,
            _ => 22.5,
        };
        let what = |what: &str| {
            let name = match rule.name() {
                "" => String::new(),
                name => format!(", {name}"),
            };
            format!(
                "{what}, {} at {} on 4 disks{name}",
                rule.layout.name(),
                rule.used
            )
        };
        let idle = 100.0 * point.steady.idle();
        findings.push(within(what("idle time"), idle, "%", paper, 20.0));
        findings.push(Finding::shown(what("E"), point.steady.efficiency, ""));
        if rule.layout == PAPER {
            let [share, writes] = point.decided();
            findings.push(Finding::shown(what("hot share"), share, "%"));
            findings.push(Finding::shown(what("hot writes"), writes, "%"));
        }
    }
}

/// What WOLF's sorting gains inside HyLog (4.1: "can be easily applied to HyLog to further reduce its cleaning cost").
fn sorting(points: &Points, findings: &mut Vec<Finding>) {
    for layout in [PAPER, OURS] {
        let at = |variant| points.at(layout, CHOSEN, variant, 1);
        let (Some(plain), Some(sorted)) = (at(PLAIN), at(SORTED)) else {
            continue;
        };
        let what = |what: &str| format!("{what}, {}, sorted over unsorted", layout.name());
        let ratio = sorted.steady.throughput() / plain.steady.throughput();
        findings.push(
            Finding::shown(what("throughput"), ratio, "")
                .paper("above 1")
                .bound(Bound::AtLeast(1.0)),
        );
        let ratio = sorted.steady.cleaning_utilisation() / plain.steady.cleaning_utilisation();
        findings.push(Finding::shown(what("cleaning utilisation"), ratio, "").paper("below 1"));
    }
}

/// What it costs that the product overwrites a page that has cooled where it lies.
fn cooling(points: &Points, findings: &mut Vec<Finding>) {
    for (layout, disks) in [(PAPER, 1), (OURS, 1), (OURS, 4)] {
        let at = |variant| points.at(layout, CHOSEN, variant, disks);
        let (Some(moved), Some(in_place)) = (at(PLAIN), at(IN_PLACE)) else {
            continue;
        };
        let of_disks = match disks {
            1 => String::new(),
            disks => format!(" on {disks} disks"),
        };
        let what = |what: &str| {
            format!(
                "{what}, {}{of_disks}, cooled pages in place over those moved",
                layout.name()
            )
        };
        let ratio = in_place.steady.throughput() / moved.steady.throughput();
        findings.push(Finding::shown(what("throughput"), ratio, "").bound(Bound::AtLeast(0.97)));
        let ratio = in_place.steady.cleaning_utilisation() / moved.steady.cleaning_utilisation();
        findings.push(Finding::shown(what("cleaning utilisation"), ratio, ""));
    }
}

/// Figure 7.
fn forced_figure(points: &Points) -> Figure {
    let mut table = normalised_table(&["layout", "interval, minutes", "variant", "disks", "used"]);
    for point in &points.0 {
        let rule = &point.rule;
        let layout = match rule.layout {
            Layout::Forced(share) => format!("{} {}", rule.layout.name(), number(share)),
            layout => layout.name().into(),
        };
        let names = vec![
            layout,
            number(rule.minutes),
            rule.name().into(),
            rule.store.disks.to_string(),
            number(rule.used),
        ];
        normalised_row(
            &mut table,
            names,
            &point.steady,
            points.base(rule.store.disks),
        );
    }
    let mut lines = vec![Line::new("forced", Style::Marked, 0, points.forced())];
    for (layout, minutes) in [(PAPER, CHOSEN), (PAPER, LONG), (OURS, CHOSEN), (OURS, LONG)] {
        if let Some(point) = points.at(layout, minutes, PLAIN, 1) {
            let at = (point.steady.decision.hot_share, point.steady.throughput());
            let name = format!("{}, {minutes} minutes", layout.name());
            lines.push(Line::new(&name, Style::Dots, lines.len(), vec![at]));
        }
    }
    Figure::plot(
        "hylog-hot-share",
        "Throughput against the share of hot pages (Figure 7)",
        "A share that is forced, and those that the separator chooses. 0 is Overwrite and 1 is LFS.",
        vec![Panel {
            title: format!("{USED} of the space used, cleaning alone"),
            x: Axis::upto("hot pages, share", 1.0),
            y: Axis::linear("throughput, requests/s"),
            lines,
            legend: Legend::Outside,
        }],
    )
    .with(table)
}

/// The hot share against the writes of a page in an interval.
fn sweeps_figure(points: &Points) -> Figure {
    let mut lines = Vec::new();
    for variant in [PLAIN, COPIES] {
        let of = INTERVALS.map(|minutes| points.at(PAPER, minutes, variant, 1));
        let found = || of.into_iter().flatten();
        let name = match variant {
            COPIES => ", copies count",
            _ => "",
        };
        for (what, at) in [("hot share", 0), ("hot writes, expected", 1)] {
            let points = found().map(|point| (point.density, point.decided()[at]));
            lines.push(Line::new(
                &format!("{what}{name}"),
                Style::Marked,
                lines.len(),
                points.collect(),
            ));
        }
    }
    Figure::plot(
        "hylog-hot-share-interval",
        "The hot share against the writes of a page in an interval",
        "The paper has 42.2 and 58.2 % in 20 minutes.",
        vec![Panel {
            title: format!("{}, {USED} of the space used", PAPER.name()),
            x: Axis::log("writes of a page between two decisions"),
            y: Axis::upto("share, %", 100.0),
            lines,
            legend: Legend::Outside,
        }],
    )
}

fn notes(store: Store) -> Vec<String> {
    vec![
        format!(
            "One of the paper's four drives with its fourth of the users ({}), and {} warehouses, so that it has as many segments \
             for each free one. In a quick run it has an eighth of the data, and half of all times.",
            store.users, store.oltp.warehouses
        ),
        "Shares are forced by the counts of two hours, because in 20 minutes most pages are not written at all. The cleaner is \
         cost-age without plugging."
            .into(),
        "The paper counts \"whenever a page is written to the disk\". With the first reading users' writes count, with the second \
         one the cleaner's copies, too. A cleaner that blocks users lets none of them take a request until its pass has \
         ended."
            .into(),
    ]
}
