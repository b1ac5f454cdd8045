//! What commands and a host of uneven length cost each predictor.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Lost, Rig, Writes, formula, one_size, paper_grid, profile, region, tracks_within, write_log,
};
use crate::report::{Bound, Figure, Finding, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::{DriveFile, HostSpec};
use tonearm_head::{Head, Mimic, Online};
use tonearm_head_study::{Choices, LineCompact, Policy};

pub const EXPERIMENT: Experiment = Experiment {
    name: "heads-noise",
    title: "Predictors with uneven commands and a late host",
    source: "beyond the papers: noise, which the paper on the Disk Mimic names against the linear predictor (2.4)",
    about: "Predictors write a log, of 4-KiB requests unless larger ones are named, on drives whose commands take longer \
            by chance, by a host that knows of an end late by chance. Each write is compared with the least time that the \
            drive could have given. Profiles and calibrations are taken with the same noise.",
    drives: Drives::Some(&["atlas10k", "mimic80", "sata2tb", "st41601n", "wd2500jd"]),
    run,
};

/// Noise of the commands at most, and of the host on average, in ms. No source gives either for these drives.
const LEVELS: [(&str, f64, f64); 5] = [
    ("none", 0.0, 0.0),
    ("commands", 0.1, 0.0),
    ("host, 0.01 ms", 0.0, 0.01),
    ("host, 0.05 ms", 0.0, 0.05),
    ("both", 0.1, 0.05),
];

/// Predictors, in order of the columns. The last two write up to 200 KB.
const HEADS: [&str; 7] = [
    "mimic",
    "line-compact",
    "formula",
    "online + tracks",
    "online",
    "online + tracks, to 200 KB",
    "online, to 200 KB",
];
const MIMIC: usize = 0;
const WITH_TRACKS: usize = 3;
const ONLINE: usize = 4;
const LARGE: usize = 5;

/// Samples at each point of a profile, and the tolerance of Line Compact.
const SAMPLES: u8 = 25;
const TOLERANCE: Nanos = Nanos(500_000);
/// A loss that is next to nothing, in ms.
const NOTHING_MS: f64 = 0.005;

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let mut cases = Vec::new();
    for drive in 0..drives.len() {
        cases.extend((0..LEVELS.len()).map(|level| (drive, level)));
    }
    let lost = context.map(&cases, |(drive, level)| {
        measure(context, &drives[*drive], *level)
    });
    let at = |drive: usize, level: usize, head: usize| &lost[drive * LEVELS.len() + level][head];
    let mut findings = Vec::new();
    for head in [ONLINE, WITH_TRACKS] {
        for (level, (noise, _, _)) in LEVELS.iter().enumerate() {
            let beyond = |drive: &usize| {
                let table = at(*drive, level, MIMIC).mean_ms;
                at(*drive, level, head).mean_ms > table + NOTHING_MS
            };
            let beyond: Vec<usize> = (0..drives.len()).filter(beyond).collect();
            let what = format!(
                "{}, noise {noise}: drives on which it loses more than the full table",
                HEADS[head]
            );
            let names: Vec<&str> = beyond.iter().map(|at| drives[*at].name.as_str()).collect();
            let finding = Finding::shown(what, beyond.len() as f64, "drives");
            let finding = finding.bound(Bound::AtMost(0.0));
            findings.push(if names.is_empty() {
                finding
            } else {
                finding.because(names.join(", "))
            });
        }
    }
    let mean = |level, head| {
        let sum: f64 = (0..drives.len())
            .map(|drive| at(drive, level, head).mean_ms)
            .sum();
        sum / drives.len() as f64
    };
    let shown = [MIMIC, WITH_TRACKS, ONLINE, LARGE, LARGE + 1];
    for head in shown.into_iter().filter(|head| *head < heads(context)) {
        for (level, (noise, _, _)) in LEVELS.iter().enumerate() {
            let what = format!("{}, noise {noise}: mean loss over all drives", HEADS[head]);
            findings.push(Finding::shown(what, mean(level, head), "ms"));
        }
    }
    Outcome {
        findings,
        figures: vec![losses(drives, &HEADS[..heads(context)], &at)],
        notes: vec![
            "Noise of commands: each one takes up to 0.1 ms longer, evenly distributed. Noise of the host: it knows of an \
             end late by that time on average, exponentially distributed. Both are guesses. The least time has the same noise."
                .into(),
            format!(
                "Log: the first 500 MB of the drive, or all of it; think times of 0 to 9 ms, by chance. The table has a profile \
                 of {SAMPLES} samples at each point. formula and online + tracks know the tracks of the log."
            ),
        ],
        ..Outcome::default()
    }
}

/// Number of predictors. The large writes take most of the time, so a quick run has none.
fn heads(context: &Context<'_>) -> usize {
    if context.is_full() {
        HEADS.len()
    } else {
        LARGE
    }
}

/// The losses of all predictors on `drive` with the noise of `level`.
fn measure(context: &Context<'_>, drive: &DriveFile, level: usize) -> Vec<Lost> {
    let (_, noise_ms, late_ms) = LEVELS[level];
    let mut drive = drive.clone();
    let disk = drive.spec.disk.as_mut().expect("a drive that turns");
    disk.overhead.noise_ms = noise_ms;
    let host = HostSpec {
        late_ms,
        ..HostSpec::default()
    };
    let region = region(&drive);
    let grid = one_size(paper_grid(&drive, region, SAMPLES), 0);
    let profile = profile(context, &drive, region, grid, level as u64, &host);
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    let choices = Choices::new(&profile, policy).expect("the profile is whole");
    let map = tracks_within(&drive, region);
    let writes = |head| Writes {
        sectors_max: if head < LARGE { 8 } else { 400 },
        think_max: Nanos(9_000_000),
        reads: 0.0,
        // What a predictor learns needs as many writes in a quick run.
        warm_up: 1_000,
        idle: Nanos(0),
        count: context.count(2_000, 300),
    };
    let heads: [Box<dyn Head>; HEADS.len()] = [
        Box::new(Mimic::new(grid, choices.table())),
        Box::new(Mimic::new(grid, LineCompact::new(&choices))),
        formula(&drive, &map),
        Box::new(Online::with_map(map.clone())),
        Box::new(Online::new()),
        Box::new(Online::with_map(map)),
        Box::new(Online::new()),
    ];
    let seed = context.seed(17);
    let heads = heads.into_iter().take(self::heads(context));
    let lost = heads.enumerate().map(|(at, mut head)| {
        let mut rig = Rig::new(&drive, seed).on(&host, seed);
        write_log(&mut rig, &mut *head, region, &writes(at), seed)
    });
    lost.collect()
}

fn losses<'a>(
    drives: &[DriveFile],
    heads: &[&str],
    at: &dyn Fn(usize, usize, usize) -> &'a Lost,
) -> Figure {
    let mut columns = vec!["drive", "noise"];
    columns.extend(heads);
    let mut table = Table::new(&columns);
    for (drive, named) in drives.iter().enumerate() {
        for (level, (noise, _, _)) in LEVELS.iter().enumerate() {
            let mut row = vec![named.name.clone(), (*noise).into()];
            row.extend((0..heads.len()).map(|head| number(at(drive, level, head).mean_ms)));
            table.row(row);
        }
    }
    Figure::table(
        "heads-noise",
        "Mean loss with noise",
        "In milliseconds, against the best place at the moment of each write.",
        table,
    )
}
