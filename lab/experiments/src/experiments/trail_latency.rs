//! Synchronous writes to a track-based log and in place (Trail 5.1, Figure 3).

mod small_writes;

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Arrivals, Load, Moves, Rig, TrailLog, all_tracks, formula, in_place, online};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::{DriveFile, Scheduler};

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-latency",
    title: "Synchronous writes to a track-based log and in place",
    source: "Trail 5.1, Figure 3",
    about: "One and five processes write synchronously, as soon as they can (clustered) or with pauses (sparse). A \
            log that writes where the head is waits for the command and the transfer; writing in place waits for a \
            seek and half a turn. The log's head is predicted by the paper's formula, and by the predictor that learns.",
    drives: Drives::One("st41601n"),
    run,
};

/// Sizes in KiB.
const SIZES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Processes of the panels of Figure 3.
const PROCESSES: [u32; 2] = [1, 5];
/// Longer than the head needs to the next track (Trail 5.1).
const PAUSE: Nanos = Nanos(5_000_000);
/// Share of a track that is used before the next one (Trail 4.2).
const THRESHOLD: f64 = 0.3;
/// Trail 5.1: "up to 11.85 times faster".
const FASTER: f64 = 11.85;
/// The printed maximum is of one panel, and the text does not say of which.
const FASTER_PERCENT: f64 = 20.0;

/// Where the writes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To a log whose head Trail's formula predicts.
    Formula,
    /// To the same log with the predictor that learns.
    Online,
    InPlace,
}

const WAYS: [Way; 3] = [Way::Formula, Way::Online, Way::InPlace];

#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    processes: u32,
    sparse: bool,
    kib: u32,
    way: Way,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let mut cases = Vec::new();
    for processes in PROCESSES {
        for kib in SIZES {
            for sparse in [false, true] {
                cases.extend(WAYS.map(|way| Case {
                    processes,
                    sparse,
                    kib,
                    way,
                }));
            }
        }
    }
    let map = all_tracks(drive);
    let writes = context.count(10_000, 500);
    let means = context.map(&cases, |case| {
        let load = Load {
            processes: case.processes,
            arrivals: if case.sparse {
                Arrivals::Sparse(PAUSE)
            } else {
                Arrivals::Clustered
            },
            sectors: case.kib * 2,
            writes,
            warm_up: writes / 4,
        };
        let seed = context.seed(u64::from(case.kib));
        let log = |head| {
            let rig = Rig::new(drive, seed);
            TrailLog::new(rig, &map, head, Moves::Used(THRESHOLD)).serve(&load, seed)
        };
        let times = match case.way {
            Way::Formula => log(formula(drive, &map)),
            Way::Online => log(online(&map)),
            Way::InPlace => in_place(drive, &load, Some(Scheduler::CLook), seed),
        };
        times.mean_ms()
    });
    let mean = |case: Case| {
        let at = cases.iter().position(|other| *other == case);
        means[at.expect("each case is measured")]
    };
    let mut outcome = Outcome {
        findings: PROCESSES
            .iter()
            .flat_map(|count| panel_findings(&mean, *count))
            .collect(),
        figures: vec![figure(&mean)],
        ..Outcome::default()
    };
    let (findings, table) = small_writes::measure(context, drive);
    outcome.findings.extend(findings);
    outcome.figures.push(table);
    outcome.notes = vec![
        "The log is the laboratory's own: for a write of 1 or 2 KiB to a new block the product's log gets the whole block of \
         4 KiB. The experiment trail-drives measures the product's log on this drive."
            .into(),
        "The data drives of the paper (5400-rpm IDE) are not among the models: the same drive is written in place, \
         over the whole of its surface. Waiting writes are sorted by place in one direction (C-LOOK), as Linux sorts them."
            .into(),
        format!(
            "Sparse: a process writes again {0} to {1} ms after its last write, by chance.",
            PAUSE.0 / 1_000_000,
            PAUSE.0 / 500_000
        ),
        "A record is one header sector and the data; what waits when the log is free goes into one record. A write \
         that needs more than a track is cut into records of a track each."
            .into(),
    ];
    outcome
}

fn who(processes: u32) -> String {
    match processes {
        1 => "one process".into(),
        count => format!("{count} processes"),
    }
}

/// What the paper says of a panel, of the log with its formula.
fn panel_findings(mean: &dyn Fn(Case) -> f64, processes: u32) -> Vec<Finding> {
    let at = |way, sparse, kib| {
        mean(Case {
            processes,
            sparse,
            kib,
            way,
        })
    };
    let faster = |sparse, kib| at(Way::InPlace, sparse, kib) / at(Way::Formula, sparse, kib);
    let who = who(processes);
    let all = SIZES.iter().flat_map(|kib| [(true, *kib), (false, *kib)]);
    let largest = all
        .map(|(sparse, kib)| faster(sparse, kib))
        .fold(0.0, f64::max);
    let longer = SIZES
        .iter()
        .filter(|kib| at(Way::Formula, false, **kib) > at(Way::Formula, true, **kib));
    let growing = |sparse| {
        SIZES
            .windows(2)
            .filter(move |pair| faster(sparse, pair[1]) > faster(sparse, pair[0]))
    };
    // The ratio that is farthest from 1.
    let ratios = SIZES.map(|kib| at(Way::InPlace, false, kib) / at(Way::InPlace, true, kib));
    let farthest = ratios
        .into_iter()
        .max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
    let mut findings = vec![
        Finding::shown(
            format!("{who}: times faster than in place, the largest"),
            largest,
            "",
        )
        .paper("up to 11.85")
        .bound(Bound::Within {
            value: FASTER,
            percent: FASTER_PERCENT,
        }),
        Finding::shown(
            format!(
                "{who}: sizes of which clustered writes to the log take longer than sparse ones"
            ),
            longer.count() as f64,
            "of 7",
        )
        .paper("all")
        .bound(Bound::AtLeast(SIZES.len() as f64)),
        Finding::shown(
            format!("{who}: in place, clustered over sparse, the ratio farthest from 1"),
            farthest.expect("there are sizes"),
            "times",
        )
        .paper("the same")
        .bound(Bound::Within {
            value: 1.0,
            percent: 10.0,
        }),
        Finding::shown(
            format!("{who}: sizes of which the log gains more than of the next smaller one"),
            [true, false]
                .map(|sparse| growing(sparse).count())
                .iter()
                .sum::<usize>() as f64,
            "of 12",
        )
        .paper("none")
        .bound(Bound::AtMost(0.0)),
    ];
    if processes > 1 {
        let saved = |sparse| at(Way::InPlace, sparse, 1) - at(Way::Formula, sparse, 1);
        findings.push(
            Finding::shown(
                format!(
                    "{who}: time that the log saves of a write of 1 KiB, clustered over sparse"
                ),
                saved(false) / saved(true),
                "times",
            )
            .paper("greater when clustered")
            .bound(Bound::AtLeast(1.0)),
        );
    }
    findings
}

fn figure(mean: &dyn Fn(Case) -> f64) -> Figure {
    let mut panels = Vec::new();
    let mut table = Table::new(&[
        "size, KiB",
        "processes",
        "formula, sparse, ms",
        "formula, clustered, ms",
        "online, sparse, ms",
        "online, clustered, ms",
        "in place, sparse, ms",
        "in place, clustered, ms",
        "times faster, formula, sparse",
        "times faster, formula, clustered",
    ]);
    for processes in PROCESSES {
        let at = |way, sparse, kib| {
            mean(Case {
                processes,
                sparse,
                kib,
                way,
            })
        };
        let line = |name, style, color, sparse, way| {
            let point = |kib: &u32| (f64::from(*kib), at(way, sparse, *kib));
            Line::new(name, style, color, SIZES.iter().map(point).collect())
        };
        panels.push(Panel {
            title: who(processes),
            x: Axis::linear("size of a write, KiB"),
            y: Axis::log("mean response time, ms"),
            lines: vec![
                line("in place, clustered", Style::Marked, 1, false, Way::InPlace),
                line("in place, sparse", Style::Dashed, 4, true, Way::InPlace),
                line("formula, clustered", Style::Marked, 0, false, Way::Formula),
                line("formula, sparse", Style::Dashed, 5, true, Way::Formula),
                line("online, clustered", Style::Marked, 2, false, Way::Online),
                line("online, sparse", Style::Dashed, 3, true, Way::Online),
            ],
            legend: Legend::BottomRight,
        });
        for kib in SIZES {
            let mut row = vec![kib.to_string(), processes.to_string()];
            row.extend(
                WAYS.iter()
                    .flat_map(|way| [true, false].map(|sparse| number(at(*way, sparse, kib)))),
            );
            row.extend([true, false].map(|sparse| {
                number(at(Way::InPlace, sparse, kib) / at(Way::Formula, sparse, kib))
            }));
            table.row(row);
        }
    }
    Figure::plot(
        "trail-latency",
        "Mean response time of synchronous writes",
        "As Figure 3 of the paper, whose log has the formula. The predictor that learns moves the head only where that \
         gains time.",
        panels,
    )
    .with(table)
}
