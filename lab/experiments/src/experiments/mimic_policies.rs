//! The three policies of service (Disk Mimic 3.1).

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{Rig, Times, inner_region, ms, one_size, paper_grid, profile, turn};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Head, Mimic, SkipModel};
use tonearm_head_study::{BasicCompact, Choices, Policy};

pub const EXPERIMENT: Experiment = Experiment {
    name: "mimic-policies",
    title: "Aggressive, defensive and average-limit service",
    source: "Disk Mimic 3.1 (the paper names them and measures the last)",
    about: "Each policy with its parameter chooses the skips of a compact table; then 4-KiB writes with a host that is \
            late by chance show what the choice is worth, on average and at worst.",
    drives: Drives::One("mimic80"),
    run,
};

const NAMES: [&str; 3] = ["aggressive", "defensive", "average-limit"];

fn policies(turn: Nanos) -> Vec<(&'static str, String, Policy)> {
    let mut policies = Vec::new();
    for percent in [25, 50, 75, 90, 96, 100] {
        let majority = f64::from(percent) / 100.0;
        policies.push((
            "aggressive",
            format!("{percent} %"),
            Policy::Aggressive { majority },
        ));
    }
    for quarters in 2..=8_u64 {
        let bound = Nanos(turn.0 * quarters / 8);
        policies.push((
            "defensive",
            format!("{:.1} ms", ms(bound)),
            Policy::Defensive { bound },
        ));
    }
    for tenths in [0, 1, 2, 5, 10, 15, 20] {
        let tolerance = Nanos(tenths * 100_000);
        policies.push((
            "average-limit",
            format!("{:.1} ms", ms(tolerance)),
            Policy::AverageLimit { tolerance },
        ));
    }
    policies
}

struct Measured {
    times: Times,
    bytes: usize,
    missed: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let samples = 25;
    let profile = profile(
        context,
        drive,
        inner_region(drive),
        one_size(paper_grid(drive, inner_region(drive), samples), 0),
        0,
        &drive.spec.host,
    );
    let policies = policies(turn(drive));
    let writes = context.count(20_000, 1_000);
    let measured = context.map(&policies, |(_, _, policy)| {
        let choices = Choices::new(&profile, *policy).expect("the profile is whole");
        let model = BasicCompact::new(&choices);
        let bytes = model.stored_bytes();
        let times = serve(
            drive,
            Mimic::new(*profile.grid(), model),
            writes,
            context.seed(5),
        );
        let half = ms(turn(drive)) * 0.75;
        Measured {
            missed: times.share_above(half),
            times,
            bytes,
        }
    });
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "policy",
        "parameter",
        "mean, ms",
        "99 %, ms",
        "greatest, ms",
        "a revolution lost, %",
        "bytes stored",
    ]);
    for ((name, parameter, _), found) in policies.iter().zip(&measured) {
        table.row(vec![
            (*name).into(),
            parameter.clone(),
            number(found.times.mean_ms()),
            number(found.times.quantile_ms(0.99)),
            number(found.times.quantile_ms(1.0)),
            number(100.0 * found.missed),
            found.bytes.to_string(),
        ]);
    }
    let (mut lines, mut least) = (Vec::new(), Vec::new());
    for (color, name) in NAMES.iter().enumerate() {
        let of_name = policies
            .iter()
            .zip(&measured)
            .filter(|((policy, _, _), _)| policy == name);
        let points: Vec<(f64, f64)> = of_name
            .map(|(_, found)| (found.bytes as f64, found.times.mean_ms()))
            .collect();
        least.push(
            points
                .iter()
                .map(|(_, mean)| *mean)
                .fold(f64::INFINITY, f64::min),
        );
        lines.push(Line::new(name, Style::Dots, color, points));
    }
    let best = least.iter().copied().fold(f64::INFINITY, f64::min);
    for (name, least) in NAMES.iter().zip(least) {
        let what = format!("{name}: least mean response");
        outcome.findings.push(Finding::shown(what, least, "ms"));
        let what = format!("{name}: least mean response over that of the best policy");
        let found = Finding::shown(what, least / best, "times");
        outcome.findings.push(found.bound(Bound::AtMost(1.05)));
    }
    outcome.figures = vec![
        Figure::plot(
            "mimic-policies",
            "Mean response against memory, for each policy",
            "Each point is a parameter of its policy, with the Basic Compact form.",
            vec![Panel {
                title: drive.name.clone(),
                x: Axis::linear("bytes stored"),
                y: Axis::linear("mean response time, ms"),
                lines,
                legend: Legend::TopRight,
            }],
        )
        .with(table),
    ];
    outcome.notes = vec![format!(
        "Think times are by chance, 0 to 9 ms; the program knows of an end {} ms late on average, exponentially \
         distributed.",
        drive.spec.host.late_ms
    )];
    outcome
}

/// Writes of 4 KiB through the log, at places that `head` chooses.
fn serve(drive: &DriveFile, mut head: impl Head, writes: u64, seed: u64) -> Times {
    let region = inner_region(drive);
    let mut rig = Rig::new(drive, seed).on(&drive.spec.host, seed);
    let mut random = Random::new(seed, 1);
    let mut times = Times::default();
    let mut free = region;
    for _ in 0..writes {
        rig.think(Nanos(random.below(9_000_000)));
        let place = head.place(rig.now(), 8, &[free]);
        let Some(place) = place.filter(|place| place.sector + 16_384 < region.end) else {
            free = region;
            continue;
        };
        let write = rig.write(place.sector, 8);
        head.written(&write);
        free.start = write.end();
        times.push(write.done.since(write.sent));
    }
    times
}
