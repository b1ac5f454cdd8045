//! All predictors on all drives, which the papers do not compare.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Lost, Rig, Writes, formula, paper_grid, profile, region, tracks_within, turn, write_log,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive::Drift;
use tonearm_drive_file::{DriveFile, HostSpec};
use tonearm_head::{Grid, Head, Mimic, Online, Sequential, SkipModel, Span, TrackMap};
use tonearm_head_study::{
    BasicCompact, Choices, Coarse, LineCompact, LineFit, Linear, PlaneCompact, Policy,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "heads",
    title: "All predictors on all drives",
    source: "beyond the papers: zones, drift, idleness, background reads; latency against memory",
    about: "Every predictor writes a log on every mechanical drive, and each write is compared with the least time \
            that the drive could have given at that moment. Then the spindle changes its speed, nothing happens for an \
            hour, other requests move the head, or the log runs in another zone than the profile.",
    drives: Drives::Mechanical,
    run,
};

const TOLERANCE: Nanos = Nanos(500_000);
/// Bytes that the learning predictor may use.
const MEMORY: usize = 4096;

/// Predictors, in order of the columns.
const NAMES: [&str; 11] = [
    "sequential",
    "linear",
    "line-fit",
    "coarse",
    "plane-compact",
    "line-compact",
    "basic-compact",
    "mimic",
    "formula",
    "online + tracks",
    "online",
];
const MIMIC: usize = 7;
const WITH_TRACKS: usize = 9;
const ONLINE: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scenario {
    Plain,
    Small,
    Drift,
    Idle,
    Reads,
    InnerZone,
}

const SCENARIOS: [(Scenario, &str); 6] = [
    (Scenario::Plain, "4 to 200 KB"),
    (Scenario::Small, "4 KB"),
    (Scenario::Drift, "0.1 % faster"),
    (Scenario::Idle, "after an hour"),
    (Scenario::Reads, "reads between"),
    (Scenario::InnerZone, "inner zone"),
];

type Model = Box<dyn SkipModel + Send + Sync>;

/// Data about a drive from before the runs: a profile, or a calibration.
struct Known {
    grid: Grid,
    /// Line fit, coarse, plane, line, basic, full table.
    models: [Model; 6],
    least: Nanos,
    maps: [TrackMap; 2],
    regions: [Span; 2],
}

/// A model that several runs look into.
struct Shared<'a>(&'a (dyn SkipModel + Send + Sync));

impl SkipModel for Shared<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        self.0.skip(size, think)
    }

    fn stored_bytes(&self) -> usize {
        self.0.stored_bytes()
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let known: Vec<Known> = drives
        .iter()
        .zip(0..)
        .map(|(drive, part)| learn(context, drive, part))
        .collect();
    let mut cases = Vec::new();
    for drive in 0..drives.len() {
        for scenario in 0..SCENARIOS.len() {
            cases.extend((0..NAMES.len()).map(|head| (drive, scenario, head)));
        }
    }
    let lost = context.map(&cases, |(drive, scenario, head)| {
        measure(
            context,
            &drives[*drive],
            &known[*drive],
            SCENARIOS[*scenario].0,
            *head,
        )
    });
    let at = |drive: usize, scenario: usize, head: usize| {
        &lost[(drive * SCENARIOS.len() + scenario) * NAMES.len() + head]
    };
    let mut outcome = Outcome {
        findings: findings(drives, &at),
        ..Outcome::default()
    };
    outcome.figures.push(memory(drives, &at));
    for (index, (scenario, title)) in SCENARIOS.iter().enumerate() {
        outcome.figures.push(losses(
            drives,
            &|drive, head| at(drive, index, head),
            *scenario,
            title,
        ));
    }
    outcome.notes = vec![
        "Loss: response time less the least that the drive could have given for that write at that moment, over all \
         places within a revolution and a quarter after the last write, by the model of the drive itself."
            .into(),
        "Log: the first 500 MB of the drive, or all of it; requests of 4 to 200 KB by 4 KB and think times of 0 to 9 \
         ms, by chance (Disk Mimic 4.1). Tables are made from a profile of that grid with 10 samples at each point \
         and the policy average-limit with 0.5 ms; the profile is taken before, on the same region."
            .into(),
        "formula and online + tracks know the tracks of the log; online and the tables know nothing of them. Memory is \
         what the predictor says of itself."
            .into(),
        "0.1 % faster: the spindle's speed changes within ten minutes, exponentially, after the warm-up. Reads between: \
         before every third write 4 KB are read anywhere. Inner zone: the log lies at two thirds of the drive."
            .into(),
    ];
    outcome
}

fn learn(context: &Context<'_>, drive: &DriveFile, part: u64) -> Known {
    let samples = context.count(10, 3) as u8;
    let outer = region(drive);
    let mut grid = paper_grid(drive, outer, samples);
    if !context.is_full() {
        // Fewer sizes and think times: those in between count as the next greater ones.
        (grid.sizes.first, grid.sizes.step, grid.sizes.count) = (40, 40, 10);
    }
    let profile = profile(context, drive, outer, grid, part, &HostSpec::default());
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    let choices = Choices::new(&profile, policy).expect("the profile is whole");
    let sectors = Rig::new(drive, 0).sectors();
    let inner = Span {
        start: sectors / 3 * 2,
        end: (sectors / 3 * 2 + outer.len()).min(sectors),
    };
    let cells = (0..grid.skips.len()).filter_map(|skip| {
        profile.mean(tonearm_head::Cell {
            size: 0,
            think: 0,
            skip,
        })
    });
    Known {
        grid,
        least: cells.min().expect("the profile is whole"),
        models: [
            Box::new(LineFit::new(&choices)),
            Box::new(Coarse::new(&choices, grid.thinks.len() / 3)),
            Box::new(PlaneCompact::new(&choices)),
            Box::new(LineCompact::new(&choices)),
            Box::new(BasicCompact::new(&choices)),
            Box::new(choices.table()),
        ],
        maps: [tracks_within(drive, outer), tracks_within(drive, inner)],
        regions: [outer, inner],
    }
}

fn predictor<'a>(
    drive: &DriveFile,
    known: &'a Known,
    inner: usize,
    head: usize,
) -> Box<dyn Head + 'a> {
    let map = &known.maps[inner];
    match head {
        0 => Box::new(Sequential),
        1 => Box::new(Linear::new(
            known.least,
            turn(drive),
            known.maps[0].track(0).turn_sectors,
        )),
        2..=7 => Box::new(Mimic::new(known.grid, Shared(&*known.models[head - 2]))),
        8 => formula(drive, map),
        9 => Box::new(Online::with_map(map.clone())),
        _ => Box::new(Online::new()),
    }
}

fn measure(
    context: &Context<'_>,
    drive: &DriveFile,
    known: &Known,
    scenario: Scenario,
    head: usize,
) -> Lost {
    let writes = Writes {
        sectors_max: if scenario == Scenario::Small { 8 } else { 400 },
        think_max: Nanos(9_000_000),
        reads: if scenario == Scenario::Reads {
            1.0 / 3.0
        } else {
            0.0
        },
        // What a predictor learns needs as many writes in a quick run.
        warm_up: 500,
        idle: Nanos(if scenario == Scenario::Idle {
            3_600_000_000_000
        } else {
            0
        }),
        count: context.count(2_000, 300),
    };
    let drift = (scenario == Scenario::Drift).then_some(Drift {
        relative: 0.001,
        time_constant: Nanos(100_000_000_000),
        start: Nanos(5_000_000_000),
    });
    let inner = usize::from(scenario == Scenario::InnerZone);
    let seed = context.seed(17);
    let mut rig = Rig::with_drift(drive, seed, drift);
    let mut head = predictor(drive, known, inner, head);
    write_log(&mut rig, &mut *head, known.regions[inner], &writes, seed)
}

fn mean(drives: &[DriveFile], value: impl Fn(usize) -> f64) -> f64 {
    (0..drives.len()).map(value).sum::<f64>() / drives.len() as f64
}

fn findings<'a>(
    drives: &[DriveFile],
    at: &dyn Fn(usize, usize, usize) -> &'a Lost,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The ratio of two losses is useless if both are almost zero.
    const NOTHING_MS: f64 = 0.005;
    let count = |what: String, beyond: Vec<usize>| {
        let names: Vec<&str> = beyond
            .iter()
            .map(|drive| drives[*drive].name.as_str())
            .collect();
        let finding = Finding::shown(what, beyond.len() as f64, "drives").bound(Bound::AtMost(0.0));
        if names.is_empty() {
            finding
        } else {
            finding.because(names.join(", "))
        }
    };
    for head in [ONLINE, WITH_TRACKS] {
        let name = NAMES[head];
        for scenario in [0, 1] {
            let beyond = |drive: &usize| {
                let table = at(*drive, scenario, MIMIC).mean_ms;
                at(*drive, scenario, head).mean_ms > table + NOTHING_MS
            };
            findings.push(count(
                format!(
                    "{name}, {}: drives on which it loses more than the full table",
                    SCENARIOS[scenario].1
                ),
                (0..drives.len()).filter(beyond).collect(),
            ));
        }
        for scenario in [2, 3] {
            let beyond = |drive: &usize| {
                let table = at(*drive, 0, MIMIC).mean_ms;
                at(*drive, scenario, head).mean_ms > 1.1 * table + NOTHING_MS
            };
            findings.push(count(
                format!("{name}, {}: drives on which it loses over 1.1 times what the table lost before", SCENARIOS[scenario].1),
                (0..drives.len()).filter(beyond).collect(),
            ));
        }
    }
    for head in [ONLINE, WITH_TRACKS] {
        let of = |head: usize| mean(drives, |drive| at(drive, 0, head).mean_ms);
        let most = if head == ONLINE { 100.0 } else { 6.0 };
        findings.push(
            Finding::shown(
                format!(
                    "{}, {}: mean loss over all drives, against that of the full table",
                    NAMES[head], SCENARIOS[0].1
                ),
                100.0 * of(head) / of(MIMIC),
                "%",
            )
            .bound(Bound::AtMost(most)),
        );
    }
    let most = (0..drives.len())
        .map(|drive| at(drive, 0, ONLINE).bytes)
        .max()
        .unwrap_or(0);
    findings.push(
        Finding::shown("online: most memory on any drive", most as f64, "bytes")
            .bound(Bound::AtMost(MEMORY as f64)),
    );
    for head in [MIMIC, ONLINE, WITH_TRACKS] {
        for (scenario, (_, title)) in SCENARIOS.iter().enumerate() {
            findings.push(Finding::shown(
                format!("{}: mean loss over all drives, {title}", NAMES[head]),
                mean(drives, |drive| at(drive, scenario, head).mean_ms),
                "ms",
            ));
        }
    }
    findings.push(Finding::shown(
        "online: mean loss of the first writes, knowing nothing, over all drives",
        mean(drives, |drive| at(drive, 0, ONLINE).cold_ms),
        "ms",
    ));
    findings
}

/// Loss against memory: mean over the drives.
fn memory<'a>(drives: &[DriveFile], at: &dyn Fn(usize, usize, usize) -> &'a Lost) -> Figure {
    let mut table = Table::new(&[
        "predictor",
        "memory, bytes",
        "mean response, ms",
        "mean loss, ms",
        "99 %, ms",
    ]);
    let mut lines = Vec::new();
    for (head, name) in NAMES.iter().enumerate() {
        let bytes = mean(drives, |drive| at(drive, 0, head).bytes as f64);
        let loss = mean(drives, |drive| at(drive, 0, head).mean_ms);
        lines.push(Line::new(
            name,
            Style::Dots,
            head,
            vec![(bytes.max(1.0), loss)],
        ));
        table.row(vec![
            (*name).into(),
            number(bytes.round()),
            number(mean(drives, |drive| at(drive, 0, head).times.mean_ms())),
            number(loss),
            number(mean(drives, |drive| {
                at(drive, 0, head).times.quantile_ms(0.99)
            })),
        ]);
    }
    Figure::plot(
        "heads-memory",
        "Loss against memory",
        "Means over the drives, requests of 4 to 200 KB. Below and to the left is better.",
        vec![Panel {
            title: format!("{} drives", drives.len()),
            x: Axis::log("memory of the predictor, bytes"),
            y: Axis::linear("mean loss, ms"),
            lines,
            legend: Legend::Outside,
        }],
    )
    .with(table)
}

fn losses<'a>(
    drives: &[DriveFile],
    at: &dyn Fn(usize, usize) -> &'a Lost,
    scenario: Scenario,
    title: &str,
) -> Figure {
    let mut heads = vec!["drive"];
    heads.extend(NAMES);
    let mut table = Table::new(&heads);
    for (drive, named) in drives.iter().enumerate() {
        let mut row = vec![named.name.clone()];
        row.extend((0..NAMES.len()).map(|head| number(at(drive, head).mean_ms)));
        table.row(row);
    }
    let line = |head: usize| {
        let points =
            (0..drives.len()).map(|drive| ((drive + 1) as f64, at(drive, head).mean_ms.max(0.001)));
        Line::new(NAMES[head], Style::Dots, head, points.collect())
    };
    let slug = match scenario {
        Scenario::Plain => "plain",
        Scenario::Small => "small",
        Scenario::Drift => "drift",
        Scenario::Idle => "idle",
        Scenario::Reads => "reads",
        Scenario::InnerZone => "inner-zone",
    };
    Figure::plot(
        &format!("heads-{slug}"),
        &format!("Mean loss by drive and predictor: {title}"),
        "In milliseconds, against the best place at the moment of each write.",
        vec![Panel {
            title: title.into(),
            x: Axis::of("", drives.iter().map(|drive| drive.name.clone()).collect()),
            y: Axis::log("mean loss, ms"),
            lines: (0..NAMES.len()).map(line).collect(),
            legend: Legend::Outside,
        }],
    )
    .with(table)
}
