//! 32 one-sector writes in batches (Trail 5.1, Table 1).

use crate::experiment::{Context, Drives, Experiment, NamedDrive, Outcome};
use crate::harness::{Moves, Rig, TrailLog, formula, ms, outer_tracks};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use base::Nanos;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-batch",
    title: "One batch costs little more than one write",
    source: "Trail 5.1, Table 1",
    about: "32 synchronous writes of one sector go to the log in batches of 1 to 32; after each physical write the \
            head is moved to the next track by a read.",
    drives: Drives::One("st41601n"),
    run,
};

/// Batch size, and elapsed time in the paper's Table 1, in ms.
const TABLE_1: [(u32, f64); 6] = [
    (1, 129.9),
    (2, 69.6),
    (4, 33.1),
    (8, 17.7),
    (16, 10.9),
    (32, 8.4),
];
const WRITES: u32 = 32;
const TRACKS: u64 = 20_000;

struct Elapsed {
    total_ms: f64,
    write_ms: f64,
    move_ms: f64,
}

fn run(context: &Context<'_>, drives: &[NamedDrive]) -> Outcome {
    let drive = &drives[0];
    let map = outer_tracks(drive, TRACKS);
    let sequences = context.count(400, 40);
    let measured = context.map(&TABLE_1, |(batch, _)| {
        let rig = Rig::new(drive, context.seed(1));
        let mut log = TrailLog::new(rig, &map, formula(drive, &map), Moves::EachWrite);
        // One physical write and move beforehand: the first of the sequence finds the head in place.
        log.write(2);
        log.after_write();
        let mut elapsed = 0;
        let (moves, move_time) = (log.totals.moves, log.totals.move_time);
        for _ in 0..sequences {
            log.idle_until(Nanos(log.rig.now().0 + 20_000_000));
            let start = log.rig.now();
            for _ in 0..WRITES / batch {
                log.write(1 + batch);
                log.after_write();
            }
            elapsed += log.rig.now().0 - start.0;
        }
        let physical = sequences as f64 * f64::from(WRITES / batch);
        let moved = ms(Nanos(log.totals.move_time.0 - move_time.0));
        debug_assert_eq!(log.totals.moves - moves, physical as u64);
        Elapsed {
            total_ms: elapsed as f64 / 1e6 / sequences as f64,
            write_ms: (elapsed as f64 / 1e6 - moved) / physical,
            move_ms: moved / physical,
        }
    });
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "batch",
        "paper, ms",
        "here, ms",
        "off by, %",
        "one write, ms",
        "one move, ms",
    ]);
    for ((batch, paper), elapsed) in TABLE_1.iter().zip(&measured) {
        let off = 100.0 * (elapsed.total_ms / paper - 1.0);
        table.row(vec![
            batch.to_string(),
            number(*paper),
            number(elapsed.total_ms),
            format!("{off:+.1}"),
            number(elapsed.write_ms),
            number(elapsed.move_ms),
        ]);
        if drive.name == "st41601n" {
            outcome.findings.push(
                Finding::shown(
                    format!("32 one-sector writes in batches of {batch}"),
                    elapsed.total_ms,
                    "ms",
                )
                .paper(number(*paper))
                .bound(Bound::Within {
                    value: *paper,
                    percent: 10.0,
                }),
            );
        }
    }
    let line = |name: &str, style, color, time: &dyn Fn(usize) -> f64| {
        let points = (0..TABLE_1.len()).map(|index| (f64::from(TABLE_1[index].0), time(index)));
        Line::new(name, style, color, points.collect())
    };
    outcome.figures.push(
        Figure::plot(
            "trail-batch",
            "Elapsed time of 32 one-sector writes",
            "Each physical write costs a command after a read, the wait for a sector, its sectors (one of them the \
             header), and a read that moves the head.",
            vec![Panel {
                title: drive.name.clone(),
                x: Axis::log("writes in a batch"),
                y: Axis::log("elapsed time, ms"),
                lines: vec![
                    line("paper", Style::Dashed, 1, &|index| TABLE_1[index].1),
                    line("here", Style::Marked, 0, &|index| measured[index].total_ms),
                ],
                legend: Legend::TopRight,
            }],
        )
        .with(table),
    );
    outcome
}
