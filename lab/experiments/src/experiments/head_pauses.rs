//! The predictors after pauses (Trail 3.1, periodic repositioning).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Moves, Rig, Times, TrailLog, formula, online, region, tracks_within};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Head, TrackMap};

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-pauses",
    title: "Predictors after a pause",
    source: "Trail 3.1 and 4.2, on all drives",
    about: "A log waits between its writes: from 0.1 ms, less than a sector, to a minute, in which a spindle drifts by \
            several sectors. The predictor that learns, which is the default, is compared with the paper's formula.",
    drives: Drives::Mechanical,
    run,
};

/// Trail 4.2.
const THRESHOLD: f64 = 0.3;
/// Writes that are measured, also in a quick run: they take a second for all drives.
const WRITES: u64 = 2_000;
/// Writes from which a predictor learns a drive, with pauses of 0 to 20 ms. Each second one has up to a tenth of a track, so that
/// many tracks are left.
const WARM_UP: u64 = 2_000;
const WARM_UP_PAUSE: Nanos = Nanos(20_000_000);
/// Sectors of a record: one that has its data in the header, and one with a block.
const SIZES: [u32; 2] = [1, 9];
/// The shortest pauses in ms. Each pause is this long, or up to twice as long.
const PAUSES_MS: [f64; 7] = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 6e4];
const PREDICTORS: [&str; 2] = ["formula", "online"];
/// A mean response of the predictor that learns is worse than that of the formula when it is longer by more than this share,
/// and by more than the time.
const WORSE: (f64, f64) = (1.02, 0.01);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    drive: usize,
    sectors: usize,
    pause: usize,
    predictor: usize,
}

struct Measured {
    times: Times,
    /// Reads that moved the head or found its position, for each write.
    reads: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let maps: Vec<TrackMap> = context.map(drives, |drive| tracks_within(drive, region(drive)));
    let mut cases = Vec::new();
    for drive in 0..drives.len() {
        for sectors in 0..SIZES.len() {
            for pause in 0..PAUSES_MS.len() {
                cases.extend((0..PREDICTORS.len()).map(|predictor| Case {
                    drive,
                    sectors,
                    pause,
                    predictor,
                }));
            }
        }
    }
    let measured = context.map(&cases, |case| {
        measure(context, &drives[case.drive], &maps[case.drive], *case)
    });
    let at = |case: Case| {
        let index = cases.iter().position(|other| *other == case);
        &measured[index.expect("each case is measured")]
    };
    Outcome {
        findings: findings(drives, &at),
        figures: SIZES
            .iter()
            .enumerate()
            .map(|(sectors, _)| figure(drives, sectors, &at))
            .collect(),
        notes: vec![
            format!(
                "Mean response times of a log on the first 500 MB of the drive, which goes to the next track when {:.0} % of one \
                 is used. Before, {WARM_UP} writes with pauses of up to {} ms.",
                100.0 * THRESHOLD,
                WARM_UP_PAUSE.0 / 1_000_000
            ),
            format!(
                "Worse: longer by more than {:.0} % and {} ms.",
                100.0 * (WORSE.0 - 1.0),
                WORSE.1
            ),
        ],
        ..Outcome::default()
    }
}

fn measure(context: &Context<'_>, drive: &DriveFile, map: &TrackMap, case: Case) -> Measured {
    let head: Box<dyn Head> = match case.predictor {
        0 => formula(drive, map),
        _ => online(map),
    };
    let rig = Rig::new(drive, context.seed(12));
    let mut random = context.random(11);
    let mut log = TrailLog::new(rig, map, head, Moves::Used(THRESHOLD));
    let sectors_max = u64::from(map.track(0).sectors / 10).clamp(9, 200);
    for number in 0..WARM_UP {
        log.think(Nanos(random.below(WARM_UP_PAUSE.0)));
        log.write(match number % 2 {
            0 => SIZES[case.sectors],
            _ => 1 + random.below(sectors_max) as u32,
        });
        log.after_write();
    }
    let (before, writes) = (log.totals.moves, WRITES);
    let pause = (PAUSES_MS[case.pause] * 1e6) as u64;
    let mut times = Times::default();
    for _ in 0..writes {
        // The pause begins when the last write is done. A read that moves the head may still be under way at its end.
        let due = Nanos(log.last().done.0 + pause + random.below(pause));
        log.after_write();
        log.idle_until(due);
        let write = log.write(SIZES[case.sectors]);
        times.push(write.done.since(due));
    }
    Measured {
        times,
        reads: (log.totals.moves - before) as f64 / writes as f64,
    }
}

fn findings<'a>(drives: &[DriveFile], at: &dyn Fn(Case) -> &'a Measured) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pause, shortest) in PAUSES_MS.iter().enumerate() {
        let mut worse = Vec::new();
        for (drive, named) in drives.iter().enumerate() {
            for (sectors, count) in SIZES.iter().enumerate() {
                let mean = |predictor| {
                    let case = Case {
                        drive,
                        sectors,
                        pause,
                        predictor,
                    };
                    at(case).times.mean_ms()
                };
                let (formula, online) = (mean(0), mean(1));
                if online > formula * WORSE.0 && online > formula + WORSE.1 {
                    worse.push(format!(
                        "{} {count}: {} against {}",
                        named.name,
                        number(online),
                        number(formula)
                    ));
                }
            }
        }
        let what = format!(
            "pauses from {} ms: drives and sizes on which online is worse than the formula",
            number(*shortest)
        );
        let mut finding = Finding::shown(what, worse.len() as f64, "").bound(Bound::AtMost(0.0));
        if !worse.is_empty() {
            finding = finding.because(worse.join("; "));
        }
        findings.push(finding);
    }
    findings
}

fn figure<'a>(drives: &[DriveFile], sectors: usize, at: &dyn Fn(Case) -> &'a Measured) -> Figure {
    let mut columns = vec!["drive".to_string()];
    for pause in PAUSES_MS {
        columns.extend(PREDICTORS.map(|name| format!("{name}, {} ms", number(pause))));
    }
    columns.push("reads for a write of online, 1 s".into());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&columns);
    let case = |drive, pause, predictor| Case {
        drive,
        sectors,
        pause,
        predictor,
    };
    for (drive, named) in drives.iter().enumerate() {
        let mut row = vec![named.name.clone()];
        for pause in 0..PAUSES_MS.len() {
            row.extend(
                (0..2).map(|predictor| number(at(case(drive, pause, predictor)).times.mean_ms())),
            );
        }
        row.push(number(at(case(drive, 4, 1)).reads));
        table.row(row);
    }
    let line = |predictor: usize, pause: usize| {
        let point = |drive: usize| {
            let mean = at(case(drive, pause, predictor)).times.mean_ms();
            ((drive + 1) as f64, mean)
        };
        let name = format!("{}, {} ms", PREDICTORS[predictor], number(PAUSES_MS[pause]));
        let color = 2 * pause + predictor;
        Line::new(
            &name,
            Style::Dots,
            color,
            (0..drives.len()).map(point).collect(),
        )
    };
    // The shortest pause, one of a second, and the longest.
    let lines = [0, 4, 6].map(|pause| [line(0, pause), line(1, pause)]);
    Figure::plot(
        &format!("head-pauses-{}", SIZES[sectors]),
        &format!(
            "Mean response after a pause: records of {} sectors",
            SIZES[sectors]
        ),
        "Mean time from the end of the pause to the end of the write, in milliseconds.",
        vec![Panel {
            title: format!("{} sectors", SIZES[sectors]),
            x: Axis::of("", drives.iter().map(|drive| drive.name.clone()).collect()),
            y: Axis::log("mean response, ms"),
            lines: lines.into_iter().flatten().collect(),
            legend: Legend::Outside,
        }],
    )
    .with(table)
}
