//! Throughput of HyLog against the separator's measurement interval (HyLog 4.2), under TPC-C, and against the number of pages
//! that share one of its counters.

mod counters;

use self::counters::Shared;
use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Case, OURS, PAPER, Store, paper_drive, scattered};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Counts, Layout, Setup, Simulation};
use tonearm_workload::Workload;

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-interval",
    title: "HyLog against the interval and the counters of its separator",
    source: "HyLog 4.2, the measurement interval",
    about: "Users run TPC-C behind a buffer pool on a drive that is almost full. The separator decides which pages \
            are hot at the end of each interval. In short intervals few pages are written at all; with long ones a page may \
            have cooled before the next decision. Beyond the paper: the product bounds the memory of its counters, so that \
            adjacent pages share one in a large store. What that costs depends on whether hot pages are neighbours: those of \
            TPC-C's tables often are, and in the other workload the hot pages lie anywhere.",
    drives: Drives::One("atlas10k"),
    run,
};

const MINUTE: u64 = 60_000_000_000;
/// The paper's interval, in minutes.
const CHOSEN: f64 = 20.0;
/// Requests between two looks at the virtual time.
const STEP: u64 = 2000;

/// Share of the space that the pages take.
const USED: f64 = 0.98;

/// What a run simulates. Times are those of the whole store.
struct Plan {
    store: Store,
    /// Minutes.
    intervals: &'static [f64],
    /// Pages that share a counter.
    shared: &'static [u64],
    /// Minutes of the warm-up and of the measurement, if two intervals and one are not longer.
    warm_up: f64,
    measured: f64,
}

const FULL: Plan = Plan {
    store: Store::ONE_DRIVE,
    intervals: &[2.5, 5.0, 10.0, CHOSEN, 40.0, 80.0, 160.0],
    shared: &[1, 2, 4, 16, 64, 256],
    warm_up: 160.0,
    measured: 80.0,
};
const QUICK: Plan = Plan {
    store: Store::QUICK,
    intervals: &[5.0, CHOSEN, 40.0],
    shared: &[1, 4, 64],
    warm_up: 80.0,
    measured: 40.0,
};

/// What one simulation found.
struct Found {
    counts: Counts,
    segment_pages: u32,
    /// Means over the decisions of the measurement: share of hot pages, and the share of writes that the decision expected to
    /// go to them.
    hot_share: f64,
    expected: f64,
}

impl Found {
    fn throughput(&self) -> f64 {
        self.counts.throughput()
    }

    /// Share of the writes that were appended.
    fn hot_writes(&self) -> f64 {
        let placed = self.counts.hot_writes + self.counts.cold_writes;
        self.counts.hot_writes as f64 / placed.max(1) as f64
    }
}

impl Plan {
    /// Index of the paper's interval.
    fn chosen(&self) -> usize {
        let chosen = self.intervals.iter().position(|at| *at == CHOSEN);
        chosen.expect("the paper's interval is simulated")
    }

    fn nanos(&self, minutes: f64) -> u64 {
        let whole = Nanos((minutes * MINUTE as f64) as u64);
        self.store.time(whole).0
    }

    /// One simulation: a warm-up of two intervals at least, and then a measurement of whole intervals.
    fn simulate(
        &self,
        context: &Context<'_>,
        drive: &DriveFile,
        workload: impl Workload,
        Rule {
            layout,
            interval,
            shared,
        }: Rule,
    ) -> Found {
        let case = Case {
            interval: Nanos(self.nanos(interval)),
            ..self.store.case(layout, USED)
        };
        let pages = workload.pages();
        let setup = Setup {
            // Two bytes for a counter.
            counter_bytes: 2 * pages.div_ceil(shared) as usize,
            ..case.setup(drive, pages, context.seed(1))
        };
        let mut simulation = Simulation::new(&setup, workload).expect("a setup that works");
        let begin = self.warm_up.max(2.0 * interval);
        let end = begin + self.measured.max(interval);
        let mut run_until = |end: u64, shares: &mut Vec<(f64, f64)>| {
            while simulation.counts().nanos < end {
                let goes_on = simulation.run(STEP).expect("a generated load");
                assert!(goes_on, "there are requests enough");
                let (decision, decisions) = simulation.decision();
                if decisions as usize > shares.len() {
                    shares.push((decision.hot_share, decision.hot_writes));
                }
            }
            simulation.counts()
        };
        let mut shares = Vec::new();
        let begun = run_until(self.nanos(begin), &mut shares);
        let first = shares.len().saturating_sub(1);
        let counts = run_until(self.nanos(end), &mut shares) - begun;
        // The last decision falls on the end.
        let measured = &shares[first..shares.len().saturating_sub(1).max(first)];
        let mean = |of: fn(&(f64, f64)) -> f64| {
            measured.iter().map(of).sum::<f64>() / measured.len().max(1) as f64
        };
        Found {
            counts,
            segment_pages: setup.segment_pages(),
            hot_share: mean(|share| share.0),
            expected: mean(|share| share.1),
        }
    }
}

/// The rule that decides where a written page goes.
#[derive(Clone, Copy)]
struct Rule {
    layout: Layout,
    /// Minutes.
    interval: f64,
    /// Pages that share a counter.
    shared: u64,
}

impl Rule {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            interval: CHOSEN,
            shared: 1,
        }
    }
}

const RULES: [Layout; 2] = [PAPER, OURS];

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = paper_drive(&drives[0]);
    let plan = if context.is_full() { FULL } else { QUICK };
    let requests = plan.store.oltp.requests(context.seed(2));
    let whole = [Layout::Overwrite, Layout::Lfs].map(Rule::new);
    let mut cases = whole.to_vec();
    for layout in RULES {
        cases.extend(plan.intervals.iter().map(|interval| Rule {
            interval: *interval,
            ..Rule::new(layout)
        }));
    }
    let shared = plan.shared.iter().map(|shared| Rule {
        shared: *shared,
        ..Rule::new(OURS)
    });
    let timed = cases.len();
    // The first one is among those of the intervals.
    cases.extend(shared.clone().skip(1));
    let found = context.map(&cases, |rule| {
        plan.simulate(context, &drive, requests.replay(), *rule)
    });
    let rules: Vec<Rule> = whole.into_iter().chain(shared).collect();
    let anywhere = context.map(&rules, |rule| {
        let workload = scattered(requests.pages(), context.seed(3));
        plan.simulate(context, &drive, workload, *rule)
    });
    let (found, neighbours) = found.split_at(timed);
    let (base, rules) = found.split_at(2);
    let rules: Vec<&[Found]> = rules.chunks(plan.intervals.len()).collect();
    let own = &rules[1][plan.chosen()];
    let shared = [
        Shared::new("TPC-C", base, std::iter::once(own).chain(neighbours)),
        Shared::new("90-10, anywhere", &anywhere[..2], &anywhere[2..]),
    ];
    let mut outcome = Outcome::default();
    findings(&plan, context.is_full(), base, &rules, &mut outcome);
    outcome.findings.extend(
        shared
            .iter()
            .flat_map(|load| load.findings(&plan, context.is_full())),
    );
    outcome.figures.push(figure(&plan, base, &rules));
    outcome.figures.push(counters::figure(&plan, &shared));
    if !context.is_full() {
        outcome.is_partial = true;
    }
    outcome.notes.push(format!(
        "One of the paper's four drives with a fourth of its {} users. TPC-C with {} warehouses behind a buffer pool of {} MiB, \
         {} pages, {USED} of the space used, cost-age cleaning without plugging. Pages of orders that come during the run have \
         their place from the begin. A measurement of {} minutes follows after {}; with a longer interval, one interval after \
         two. In a quick run the drive has half the data, and half of all times.",
        4 * plan.store.users,
        plan.store.oltp.warehouses,
        400 / plan.store.oltp.part,
        requests.pages(),
        plan.measured,
        plan.warm_up,
    ));
    outcome
}

fn findings(plan: &Plan, is_full: bool, base: &[Found], rules: &[&[Found]], outcome: &mut Outcome) {
    let better = base.iter().map(Found::throughput).fold(0.0, f64::max);
    let chosen = plan.chosen();
    let longest = plan.intervals[plan.intervals.len() - 1];
    for (layout, found) in RULES.iter().zip(rules) {
        let name = layout.name();
        let rates = || found[..=chosen].iter().map(Found::throughput);
        let (least, most) = (
            rates().fold(f64::INFINITY, f64::min),
            rates().fold(0.0, f64::max),
        );
        let at = found[chosen].throughput();
        let flat = Finding::shown(
            format!("{name}: least over largest throughput, up to {CHOSEN} minutes"),
            least / most,
            "",
        )
        .paper("not sensitive");
        let drop = Finding::shown(
            format!("{name}: throughput with {longest} minutes over that with {CHOSEN}"),
            found[found.len() - 1].throughput() / at,
            "",
        );
        let better = Finding::shown(
            format!("{name}, {CHOSEN} minutes: of the better of Overwrite and LFS"),
            at / better,
            "",
        );
        let expected = Finding::shown(
            format!("{name}, {CHOSEN} minutes: writes to hot pages, counted over expected"),
            found[chosen].hot_writes() / found[chosen].expected,
            "",
        );
        // What the paper says is of a store that is as full as its own.
        outcome.findings.extend(match (is_full, *layout == OURS) {
            (true, true) => vec![
                flat.bound(Bound::AtLeast(0.95)),
                drop.bound(Bound::AtLeast(0.9)),
                better.bound(Bound::AtLeast(0.98)),
                expected.bound(Bound::Within {
                    value: 1.0,
                    percent: 10.0,
                }),
            ],
            (true, false) => vec![
                flat.bound(Bound::AtLeast(0.95)),
                drop.paper("drops").bound(Bound::AtMost(0.99)),
                better,
                expected,
            ],
            (false, true) => vec![drop.bound(Bound::AtLeast(0.9)), better],
            (false, false) => vec![better],
        });
    }
}

fn figure(plan: &Plan, base: &[Found], rules: &[&[Found]]) -> Figure {
    let mut table = Table::new(&[
        "layout",
        "interval, minutes",
        "requests/s",
        "against Overwrite",
        "hot pages, share",
        "writes to hot pages, expected",
        "writes to hot pages, counted",
        "u_c",
    ]);
    let overwrite = base[0].throughput();
    let mut row = |name: &str, interval: &str, found: &Found| {
        let separates = interval != "-";
        table.row(vec![
            name.into(),
            interval.into(),
            number(found.throughput()),
            number(found.throughput() / overwrite),
            if separates {
                number(found.hot_share)
            } else {
                "-".into()
            },
            if separates {
                number(found.expected)
            } else {
                "-".into()
            },
            number(found.hot_writes()),
            number(found.counts.cleaning_utilisation(found.segment_pages)),
        ]);
    };
    row("Overwrite", "-", &base[0]);
    row("LFS", "-", &base[1]);
    let ends = [plan.intervals[0], plan.intervals[plan.intervals.len() - 1]];
    let level = |found: &Found| ends.map(|at| (at, found.throughput())).to_vec();
    let mut lines = vec![
        Line::new("Overwrite", Style::Solid, 0, level(&base[0])),
        Line::new("LFS", Style::Solid, 1, level(&base[1])),
    ];
    for (color, (layout, found)) in (2..).zip(RULES.iter().zip(rules)) {
        let name = layout.name();
        for (interval, found) in plan.intervals.iter().zip(*found) {
            row(name, &number(*interval), found);
        }
        let rates = found.iter().map(Found::throughput);
        let points = plan.intervals.iter().copied().zip(rates).collect();
        lines.push(Line::new(name, Style::Marked, color, points));
    }
    Figure::plot(
        "hylog-interval",
        "Throughput against the measurement interval",
        "The paper says that the throughput is not sensitive below 20 minutes, and drops with longer intervals.",
        vec![Panel {
            title: format!("TPC-C, {USED} of the space used"),
            x: Axis::log("measurement interval, minutes"),
            y: Axis::linear("throughput, requests/s"),
            lines,
            legend: Legend::Outside,
        }],
    )
    .with(table)
}
