//! `tonearm-lab lab cost`: the processor's time for one prediction, which Trail 3.1 gives as less than 1 us.
//!
//! These are the only figures of `tonearm-lab lab` that depend on the machine.

use crate::cli::LabCost;
use anyhow::Context;
use serde::Serialize;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, track_map, turn};
use tonearm_head::{Access, Formula, Head, Mimic, Online, Span, Table, TrackMap};
use tonearm_terminal::report;
use tonearm_world::Kind;

/// Writes before those that are timed, from which predictors learn.
const WARM_UP: u64 = 2_000;
/// Timed writes.
const WRITES: u64 = 200;
/// Predictions before each of them.
const PREDICTIONS: u64 = 1_000;
/// Trail 3.1: "less than one microsecond" on a Pentium II of 300 MHz.
const PAPER_NS: f64 = 1_000.0;
/// A header and 4 KiB.
const SECTORS: u32 = 9;

#[derive(Serialize)]
struct Cost {
    predictor: &'static str,
    prediction_ns: f64,
    learning_ns: f64,
    /// Whether a prediction takes less than [`PAPER_NS`].
    verdict: &'static str,
}

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: &LabCost) -> anyhow::Result<ExitCode> {
    let file = DriveFile::find(&arguments.drive)?;
    let map = track_map(&file.spec, 0..u64::MAX);
    let map = map.with_context(|| format!("{} has no head that can be followed", file.name))?;
    let disk = file.spec.disk.as_ref().context("no platter")?;
    let deltas = tonearm_calibrate::deltas(&file.spec, &map);
    let mut costs = Vec::new();
    if let Some(deltas) = deltas {
        let formula = Formula::new(map.clone(), turn(disk), deltas, None);
        costs.push(cost("formula", &file, &map, formula));
    }
    let track = map.track(0).turn_sectors;
    let step = (track / 128).max(1).next_power_of_two();
    let grid = tonearm_head_study::paper_grid(turn(disk), track, step);
    // What the table holds does not change how long it takes to look something up.
    let table = Table::of_skips(grid, vec![grid.skips.len() as u16 / 2; grid.rows()])?;
    costs.push(cost("mimic", &file, &map, Mimic::new(grid, table)));
    let tracks = Online::with_map(map.clone());
    costs.push(cost("online + tracks", &file, &map, tracks));
    costs.push(cost("online", &file, &map, Online::new()));
    if arguments.json {
        report::json(&costs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = report::table(&[
        "predictor",
        "a prediction, ns",
        "learning from a write, ns",
        "Trail 3.1: under 1000 ns",
    ]);
    for cost in &costs {
        let number = |ns: f64| format!("{ns:.0}");
        rows.add_row([
            cost.predictor.to_string(),
            number(cost.prediction_ns),
            number(cost.learning_ns),
            cost.verdict.to_string(),
        ]);
    }
    report::align_right(&mut rows, 1..3);
    report::line(rows)?;
    report::line(
        "Processor time on this machine. Trail 3.1: a prediction takes less than 1000 ns on a Pentium II of 300 MHz.",
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Lets `head` place a log on `file`, and times it.
fn cost(predictor: &'static str, file: &DriveFile, map: &TrackMap, mut head: impl Head) -> Cost {
    let mut user = ClosedLoop::new(Drive::new(&file.spec, &DriveOptions::default()));
    let (mut track, mut free_from) = (0, map.track(0).first);
    let (mut predicting, mut learning) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + WRITES {
        user.think(Nanos(number * 137_911 % 9_000_000));
        let now = user.now();
        let free = [
            Span {
                start: free_from,
                end: map.track(track).end(),
            },
            Span {
                start: map.track(track + 1).first,
                end: map.track(track + 1).end(),
            },
        ];
        if number >= WARM_UP {
            let begun = Instant::now();
            for later in 0..PREDICTIONS {
                let now = Nanos(now.0 + later * 10_007);
                black_box(head.place(black_box(now), SECTORS, black_box(&free)));
            }
            predicting.push(begun.elapsed().as_nanos() as u64);
        }
        let place = head.place(now, SECTORS, &free);
        let first = place.map_or(free[1].start, |place| place.sector);
        user.serve(Kind::Write, first, SECTORS);
        let write = Access {
            first,
            sectors: SECTORS,
            sent: now,
            done: user.now(),
        };
        let begun = Instant::now();
        head.written(&write);
        if number >= WARM_UP {
            learning.push(begun.elapsed().as_nanos() as u64);
        }
        if free[1].holds(first, SECTORS) {
            track += 1;
        }
        free_from = write.end();
    }
    let prediction_ns = median(predicting) / PREDICTIONS as f64;
    Cost {
        predictor,
        prediction_ns,
        learning_ns: median(learning),
        verdict: if prediction_ns < PAPER_NS {
            "held"
        } else {
            "missed"
        },
    }
}

/// The time that half of `times` do not exceed, so that a thread that has to wait for the processor does not count.
fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64
}
