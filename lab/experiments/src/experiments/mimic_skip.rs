//! The best place of the next write, and the cost of other places (Disk Mimic 2.2, Figures 1 and 3).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{ms, one_size, paper_grid, profile, turn};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Cell, Profile};
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

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let samples = 25;
    let profile = profile(
        context,
        drive,
        one_size(paper_grid(drive, samples), 0),
        0,
        &drive.spec.host,
    );
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    let choices = Choices::new(&profile, policy).expect("the profile is whole");
    let grid = *profile.grid();
    let kib = |skip: usize| grid.skips.at(skip) as f64 / 2.0;
    let think_ms = |think: usize| ms(Nanos(grid.thinks.at(think)));
    let best: Vec<(f64, f64)> = (0..grid.thinks.len())
        .map(|think| (think_ms(think), kib(choices.at(0, think).best)))
        .collect();
    let falls = (1..best.len()).find(|at| best[*at].1 < best[at - 1].1 / 2.0);
    let wait = falls.map_or(0.0, |at| best[at].0);
    let slope = slope(&best[..falls.unwrap_or(best.len())]);
    let at_zero = choices.at(0, 0);
    let candidates: Vec<usize> = (0..grid.skips.len())
        .filter(|skip| at_zero.acceptable.contains(*skip))
        .collect();
    let span = |skips: &[usize]| kib(skips[skips.len() - 1]) - kib(skips[0]);
    let track = drive
        .spec
        .disk
        .as_ref()
        .map_or(0, |disk| disk.geometry.zones[0].track_sectors);
    let speed = f64::from(track) / 2.0 / ms(turn(drive));
    let findings = vec![
        Finding::shown("best skip at no think time", kib(at_zero.best), "KiB").paper("32"),
        Finding::shown(
            "skips within 0.5 ms of it reach over",
            span(&candidates),
            "KiB",
        )
        .paper("32 to 48: 16"),
        Finding::shown("think time at which the best skip begins anew", wait, "ms").paper("7.5"),
        Finding::shown("growth of the best skip with think time", slope, "KiB/ms")
            .bound(Bound::Within {
                value: speed,
                percent: 2.0,
            })
            .because("The speed of the platter under the head, in the outermost zone."),
    ];
    let line = |points| vec![Line::new("", Style::Dots, 0, points)];
    let figures = vec![
        Figure::plot(
            "mimic-best-skip",
            "Best skip against think time, 4 KiB",
            "As Figure 1: a line of the platter's speed, which falls back when the place has come around.",
            vec![Panel {
                title: drive.name.clone(),
                x: Axis::linear("think time, ms"),
                y: Axis::linear("best skip, KiB"),
                lines: line(best),
                legend: Legend::TopLeft,
            }],
        ),
        responses(drive, &profile, &candidates),
    ];
    let notes = vec![format!(
        "The grid of Disk Mimic 4.1: think times by 0.1 ms, {samples} samples at each point, in a log of 500 MB; skips \
         by {} KiB up to a little more than a track.",
        grid.skips.step as f64 / 2.0
    )];
    Outcome {
        findings,
        figures,
        notes,
        ..Outcome::default()
    }
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
        (grid.skips.at(skip) as f64 / 2.0, mean.map_or(0.0, ms))
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
