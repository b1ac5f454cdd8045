//! The best place of the next write, and the cost of other places (Disk Mimic 2.2, Figures 1 and 3).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{inner_region, ms, one_size, paper_grid, profile, track_sectors, turn};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Cell, Grid, Profile};
use tonearm_head_study::{Choices, Policy};

pub const EXPERIMENT: Experiment = Experiment {
    name: "mimic-skip",
    title: "How far to skip, and what it costs to be wrong",
    source: "Disk Mimic 2.2 and 3, Figures 1 and 3",
    about: "A drive is profiled by 4-KiB writes at all skips after the last write, after think times of 0 to 9 ms. \
            The best skip grows as the platter turns, and begins anew after a revolution. Skipping a little too far \
            costs little; a little too short costs a revolution.",
    drives: Drives::One("mimic80"),
    run,
};

/// The tolerance of Figure 3.
const TOLERANCE: Nanos = Nanos(500_000);

/// Samples at each point, as in the paper.
const SAMPLES: u8 = 25;
/// Samples at each point of Figure 3. With fewer, chance decides which skips are within the tolerance: a few samples cross
/// the end of a track, and are longer by its skew.
const MANY_SAMPLES: u8 = 250;

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let grid = one_size(paper_grid(drive, inner_region(drive), SAMPLES), 0);
    let choices = choices(&take(context, drive, grid, 0));
    let best: Vec<(f64, f64)> = (0..grid.thinks.len())
        .map(|think| {
            let skip = choices.at(0, think).best;
            (ms(Nanos(grid.thinks.at(think))), kib(&grid, skip))
        })
        .collect();
    let mut no_think = grid;
    (no_think.thinks.count, no_think.samples) = (1, MANY_SAMPLES);
    let no_think = take(context, drive, no_think, 1);
    let choices = self::choices(&no_think);
    let choice = choices.at(0, 0);
    let candidates: Vec<usize> = choice.acceptable.iter().collect();
    Outcome {
        findings: findings(drive, &grid, &best, choice.best, &candidates),
        figures: vec![
            best_skips(drive, best),
            responses(drive, &no_think, &candidates),
        ],
        notes: vec![format!(
            "The grid of Disk Mimic 4.1: think times by 0.1 ms, {SAMPLES} samples at each point, in a log of 500 MB; skips \
             by {} KiB up to a little more than a track. Without think time {MANY_SAMPLES} samples at each point.",
            grid.skips.step as f64 / 2.0
        )],
        ..Outcome::default()
    }
}

fn take(context: &Context<'_>, drive: &DriveFile, grid: Grid, part: u64) -> Profile {
    let region = inner_region(drive);
    profile(context, drive, region, grid, part, &drive.spec.host)
}

fn choices(profile: &Profile) -> Choices {
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    Choices::new(profile, policy).expect("the profile is whole")
}

fn kib(grid: &Grid, skip: usize) -> f64 {
    grid.skips.at(skip) as f64 / 2.0
}

/// `best` is the best skip in KiB at each think time in ms; the other skips are those without think time.
fn findings(
    drive: &DriveFile,
    grid: &Grid,
    best: &[(f64, f64)],
    best_skip: usize,
    candidates: &[usize],
) -> Vec<Finding> {
    let falls = (1..best.len()).find(|at| best[*at].1 < best[at - 1].1 / 2.0);
    let wait = falls.map_or(0.0, |at| best[at].0);
    let slope = slope(&best[..falls.unwrap_or(best.len())]);
    let track = f64::from(track_sectors(drive, inner_region(drive)));
    // The paper's figures are read to a step of its grid: 4 KiB, 0.1 ms.
    let within_a_step = |value: f64, step: f64| Bound::Within {
        value,
        percent: 100.0 * step / value,
    };
    let skip = |what: &str, skip: usize, paper: f64| {
        Finding::shown(what, kib(grid, skip), "KiB")
            .paper(number(paper))
            .bound(within_a_step(paper, 4.0))
    };
    vec![
        skip("best skip at no think time", best_skip, 32.0),
        skip("least skip within 0.5 ms of it", candidates[0], 32.0),
        skip(
            "greatest skip within 0.5 ms of it",
            candidates[candidates.len() - 1],
            48.0,
        ),
        Finding::shown("think time at which the best skip begins anew", wait, "ms")
            .paper("7.5")
            .bound(within_a_step(7.5, 0.1)),
        Finding::shown("growth of the best skip with think time", slope, "KiB/ms")
            .bound(Bound::Within {
                value: track / 2.0 / ms(turn(drive)),
                percent: 2.0,
            })
            .because("The speed of the platter under the head, in the innermost zone."),
    ]
}

fn best_skips(drive: &DriveFile, best: Vec<(f64, f64)>) -> Figure {
    Figure::plot(
        "mimic-best-skip",
        "Best skip against think time, 4 KiB",
        "As Figure 1: a line of the platter's speed, which falls back when the place has come around.",
        vec![Panel {
            title: drive.name.clone(),
            x: Axis::linear("think time, ms"),
            y: Axis::linear("best skip, KiB"),
            lines: vec![Line::new("", Style::Dots, 0, best)],
            legend: Legend::TopLeft,
        }],
    )
}

/// Slope of the line of least squares through `points`.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    xy / xx
}

fn responses(drive: &DriveFile, profile: &Profile, candidates: &[usize]) -> Figure {
    let grid = profile.grid();
    let point = |skip: usize| {
        let mean = profile.mean(Cell {
            size: 0,
            think: 0,
            skip,
        });
        (kib(grid, skip), mean.map_or(0.0, ms))
    };
    let all = (0..grid.skips.len()).map(point).collect();
    let good = candidates.iter().copied().map(point).collect();
    Figure::plot(
        "mimic-response",
        "Response time against skip, 4 KiB, no think time",
        "As Figure 3: the skips of the candidate set, within 0.5 ms of the best, and what the others cost.",
        vec![Panel {
            title: drive.name.clone(),
            x: Axis::linear("skip, KiB"),
            y: Axis::linear("mean response time, ms"),
            lines: vec![
                Line::new("all skips", Style::Solid, 0, all),
                Line::new("within 0.5 ms of the best", Style::Dots, 1, good),
            ],
            legend: Legend::BottomRight,
        }],
    )
}
