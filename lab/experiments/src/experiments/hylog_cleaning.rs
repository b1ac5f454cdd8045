//! What cleaning costs under uniformly random updates (HyLog, Figures 2 and 5).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{paper_drive, steady, updates};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::cost;
use tonearm_pages::{Cleaning, Layout, Setup, Steady};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-cleaning",
    title: "What the cleaner of a log costs under uniformly random updates",
    source: "HyLog 3.2.2 and 5.1, Figures 2 and 5",
    about: "Pages are updated at random in a log, whose cleaner works by cost and age, by plugging holes, or by the \
            cheaper of both in each pass. The simulator of pages runs the product's choice of segments on one drive; the \
            model's formulas stand beside.",
    drives: Drives::One("atlas10k"),
    run,
};

const UTILISATIONS: [f64; 8] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95];
/// What a quick run does of them.
const QUICK: [f64; 3] = [0.7, 0.8, 0.9];
/// Bytes of a page, and of a segment.
const PAGE: u32 = 8192;
const CHUNK: u32 = 256 << 10;
/// Bytes of larger segments, for Figure 2 alone.
const LARGE: u32 = 1 << 20;
const WAYS: [(&str, Cleaning); 4] = [
    ("greedy", Cleaning::Greedy),
    ("cost-age", Cleaning::CostAge),
    ("plugging", Cleaning::Plugging),
    ("adaptive", Cleaning::Adaptive),
];

/// One point: its cost in units of a segment write divided by its pages, counted and by the time that the disk was busy.
struct Point {
    steady: Steady,
    counted: f64,
    timed: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = paper_drive(&drives[0]);
    let shares: &[f64] = if context.is_full() {
        &UTILISATIONS
    } else {
        &QUICK
    };
    let pages = context.count(128 << 10, 32 << 10);
    let mut points = Vec::new();
    for (_, cleaning) in WAYS {
        points.extend(shares.iter().map(|share| (cleaning, CHUNK, *share)));
    }
    let small = points.len();
    points.extend(shares.iter().map(|share| (Cleaning::Greedy, LARGE, *share)));
    let points = context.map(&points, |(cleaning, chunk_bytes, share)| {
        let setup = Setup {
            cleaning: *cleaning,
            disks: 1,
            users: 1,
            page_bytes: PAGE,
            chunk_bytes: *chunk_bytes,
            utilisation: *share,
            seed: context.seed(1),
            ..Setup::new(&drive.spec, Layout::Lfs, pages)
        };
        let steady = steady(context, &setup, updates(pages, context.seed(2)), 1.0);
        let (_, chunk_ms) = steady.service_ms();
        let unit = chunk_ms / f64::from(steady.segment_pages);
        Point {
            counted: steady.write_cost(steady.efficiency),
            timed: steady.counts.write_nanos(steady.segment_pages) / 1e6 / unit,
            steady,
        }
    });
    let of = |way: usize| &points[way * shares.len()..(way + 1) * shares.len()];
    let mut outcome = Outcome::default();
    utilisations(shares, of(0), of(1), &points[small..], &mut outcome);
    costs(shares, &of, &mut outcome);
    outcome.notes = vec![
        format!("{pages} pages of 8 KB in segments of 256 KB on one drive, and one user. The paper's number of disks and of \
                 users are images that its text has lost. Its cache of 128 MB is left out: uniformly random updates stay so \
                 behind any cache."),
        "The cost is the time that the disk was busy for each page, divided by the mean time of a segment over its \
         pages; the cost by counts has the efficiency of single random writes in place of the time of the plugged pages."
            .into(),
        "The measurement begins when every segment that the data filled at first has been emptied once, and when four \
         windows, in each of which a quarter of all pages is written, agree."
            .into(),
    ];
    if !context.is_full() {
        outcome.is_partial = true;
    }
    if let Some(point) = points.iter().find(|point| !point.steady.is_steady) {
        outcome.notes.push(format!(
            "Not steady after {} windows: those of the last four are means over a cost that swings.",
            point.steady.windows.len()
        ));
    }
    outcome
}

/// Figure 2.
fn utilisations(
    shares: &[f64],
    greedy: &[Point],
    aged: &[Point],
    large: &[Point],
    outcome: &mut Outcome,
) {
    let large_name = format!("greedy, segments of {} pages", LARGE / PAGE);
    let mut table = Table::new(&[
        "used",
        "u_c, formula",
        "u_c, greedy",
        "u_c, cost-age",
        &format!("u_c, {large_name}"),
    ]);
    for (at, share) in shares.iter().enumerate() {
        let formula = cost::cleaning_utilisation(*share);
        let [greedy, aged, large] =
            [greedy, aged, large].map(|points| points[at].steady.cleaning_utilisation());
        table.row([*share, formula, greedy, aged, large].map(number).to_vec());
        for (name, found) in [("greedy", greedy), (&large_name, large)] {
            outcome.findings.push(
                Finding::shown(
                    format!("cleaning utilisation at {share}, {name}"),
                    found,
                    "",
                )
                .paper(number(formula))
                .bound(Bound::Within {
                    value: formula,
                    percent: 6.0,
                }),
            );
        }
    }
    let line = |points: &[Point]| {
        let values = points
            .iter()
            .map(|point| point.steady.cleaning_utilisation());
        shares.iter().copied().zip(values).collect()
    };
    let formula = (1..100).map(|percent| f64::from(percent) / 100.0);
    let formula = formula
        .map(|disk| (disk, cost::cleaning_utilisation(disk)))
        .collect();
    outcome.figures.push(
        Figure::plot(
            "hylog-utilisation-of-cleaning",
            "Disk utilisation and cleaning utilisation (Figure 2)",
            "The share of live pages in the segments that are cleaned.",
            vec![Panel {
                title: String::new(),
                x: Axis::upto("live pages on the disk, share", 1.0),
                y: Axis::upto("live pages in cleaned segments, share", 1.0),
                lines: vec![
                    Line::new("formula (2)", Style::Solid, 0, formula),
                    Line::new("greedy", Style::Dots, 1, line(greedy)),
                    Line::new("cost-age", Style::Dots, 2, line(aged)),
                ],
                legend: Legend::TopLeft,
            }],
        )
        .with(table),
    );
}

/// Figure 5.
fn costs<'a>(shares: &[f64], of: &dyn Fn(usize) -> &'a [Point], outcome: &mut Outcome) {
    let mut table = Table::new(&[
        "used",
        "cleaning, formula",
        "cost-age",
        "plugging, formula",
        "plugging",
        "adaptive",
        "plugging passes, %",
    ]);
    let (aged, plugged, adaptive) = (of(1), of(2), of(3));
    for (at, share) in shares.iter().enumerate() {
        let used = cost::cleaning_utilisation(*share);
        let efficiency = plugged[at].steady.efficiency;
        let [clean, plug, ..] = adaptive[at].steady.counts.passes;
        table.row(
            [
                *share,
                cost::cleaning(used),
                aged[at].timed,
                cost::plugging(used, efficiency),
                plugged[at].timed,
                adaptive[at].timed,
                100.0 * plug as f64 / (clean + plug).max(1) as f64,
            ]
            .map(number)
            .to_vec(),
        );
        let near = |what: &str, ours: f64, value: f64, percent: f64| {
            Finding::shown(format!("write cost at {share}, {what}"), ours, "")
                .paper(number(value))
                .bound(Bound::Within { value, percent })
        };
        outcome.findings.push(near(
            "cost-age against formula (4)",
            aged[at].timed,
            cost::cleaning(used),
            15.0,
        ));
        let least = aged[at].timed.min(plugged[at].timed);
        outcome.findings.push(near(
            "adaptive against the cheaper of both",
            adaptive[at].timed,
            least,
            15.0,
        ));
    }
    let line = |way: usize| {
        let values = of(way).iter().map(|point| point.timed);
        shares.iter().copied().zip(values).collect::<Vec<_>>()
    };
    let counted = |way: usize| {
        let values = of(way).iter().map(|point| point.counted);
        shares.iter().copied().zip(values).collect::<Vec<_>>()
    };
    let formula = (40..96).map(|percent| f64::from(percent) / 100.0);
    let formula = formula
        .map(|disk| (disk, cost::cleaning(cost::cleaning_utilisation(disk))))
        .collect();
    let panel = |title: &str, line: &dyn Fn(usize) -> Vec<(f64, f64)>| Panel {
        title: title.into(),
        x: Axis::upto("live pages on the disk, share", 1.0),
        y: Axis::linear("cost of a write, appended pages"),
        lines: vec![
            Line::new("cost-age", Style::Marked, 0, line(1)),
            Line::new("plugging", Style::Marked, 1, line(2)),
            Line::new("adaptive", Style::Marked, 2, line(3)),
        ],
        legend: Legend::TopLeft,
    };
    let mut timed = panel("by the time of the disk", &line);
    timed.lines.push(Line::new(
        "cleaning, formula (4)",
        Style::Dashed,
        3,
        formula,
    ));
    outcome.figures.push(
        Figure::plot(
            "hylog-cleaning",
            "Overall write cost of a log (Figure 5)",
            "Cost-age cleaning, plugging of holes, and the cheaper of both in each pass.",
            vec![timed, panel("by counts of I/Os", &counted)],
        )
        .with(table),
    );
}
