//! Predictors that are smaller than the full table, and their losses (Disk Mimic 2.4 and 4.2, Figures 2, 5, 6, 7).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Rig, inner_region, ms, one_size, paper_grid, profile, skip_response, track_sectors, turn,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Cell, Profile, SkipModel};
use tonearm_head_study::{
    BasicCompact, Choices, Coarse, LineCompact, LineFit, Linear, Loss, PlaneCompact, Policy,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "mimic-predictors",
    title: "What smaller predictors lose against the full table",
    source: "Disk Mimic 2.4 and 4.2, Figures 2, 5 and 7, table of Figure 6",
    about: "From one profile, the full Disk Mimic table, lines fitted through its best skips, a thinned table, and the \
            compact forms that look at all skips that are good enough; and the linear predictor, which knows no profile.",
    drives: Drives::One("mimic80"),
    run,
};

const OUT_OF_ORDER: &str =
    "outlier fractions out of order (Disk Mimic, Basic Compact, Coarse Segments, Line Fitting)";

/// Place in the table of predictors, and what is found.
const OUTLIERS: [(usize, &str); 6] = [
    (0, "Disk Mimic: outliers beyond 0.5 ms"),
    (1, "Line Fitting: outliers beyond 0.5 ms"),
    (2, "Coarse Segments: outliers beyond 0.5 ms"),
    (3, "Basic Compact: outliers beyond 0.5 ms"),
    (4, "Line Compact: outliers beyond 0.5 ms"),
    (5, "Plane Compact: outliers beyond 0.5 ms"),
];

/// Samples at each point of the profile, as in the paper.
const SAMPLES: u8 = 25;
const TOLERANCE: Nanos = Nanos(500_000);
/// 4 KiB.
const SECTORS: u32 = 8;

/// Outlier fraction and mean loss in ms, as the paper's table has them.
const PAPER: [(&str, &str, &str); 6] = [
    ("mimic", "0", "0"),
    ("line-fit", "0.48", "0.57"),
    ("coarse", "0.20", "0.23"),
    ("basic-compact", "0", "small"),
    ("line-compact", "0", "small"),
    ("plane-compact", "0", "small"),
];

struct Measured {
    loss: Loss,
    bytes: usize,
    /// Mean response at each think time, of writes after the profile, in ms.
    responses: Vec<f64>,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let region = inner_region(drive);
    let learned = profile(
        context,
        drive,
        region,
        one_size(paper_grid(drive, region, SAMPLES), 0),
        0,
        &drive.spec.host,
    );
    // Writes after the profile, at other places and moments. They judge the predictors: by the profile that it was made
    // from, a form that keeps the tolerance has no outliers.
    let after = profile(
        context,
        drive,
        region,
        one_size(paper_grid(drive, region, 4 * SAMPLES), 0),
        1,
        &drive.spec.host,
    );
    let grid = *learned.grid();
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    let choices = Choices::new(&learned, policy).expect("the profile is whole");
    let models: [Box<dyn SkipModel + Sync>; 6] = [
        Box::new(choices.table()),
        Box::new(LineFit::new(&choices)),
        Box::new(Coarse::new(&choices, grid.thinks.len() / 3)),
        Box::new(BasicCompact::new(&choices)),
        Box::new(LineCompact::new(&choices)),
        Box::new(PlaneCompact::new(&choices)),
    ];
    let thinks: Vec<Nanos> = (0..grid.thinks.len())
        .map(|think| Nanos(grid.thinks.at(think)))
        .collect();
    let writes = context.count(200, 20);
    let ask = |skips: &dyn Fn(usize) -> u64| -> Vec<f64> {
        let asked = thinks.iter().zip(0..);
        asked
            .map(|(think, at)| {
                let seed = context.seed(1_000 + at as u64);
                let mut rig = Rig::new(drive, seed).on(&drive.spec.host, seed);
                skip_response(&mut rig, region, SECTORS, *think, skips(at), writes, seed).mean_ms()
            })
            .collect()
    };
    let measured = context.map(&models, |model| Measured {
        loss: Loss::of(&after, model, 0, TOLERANCE),
        bytes: model.stored_bytes(),
        responses: ask(&|think| u64::from(model.skip(0, think))),
    });
    let linear = Linear::new(least(&learned), turn(drive), track_sectors(drive, region));
    let linear = ask(&|think| linear.skip(thinks[think]));
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "predictor",
        "outliers, paper",
        "outliers, here",
        "mean loss, paper, ms",
        "mean loss, here, ms",
        "greatest loss, ms",
        "mean response afterwards, ms",
        "bytes stored",
    ]);
    for ((name, outliers, mean), found) in PAPER.iter().zip(&measured) {
        table.row(vec![
            (*name).into(),
            (*outliers).into(),
            number(found.loss.outliers),
            (*mean).into(),
            number(ms(found.loss.mean)),
            number(ms(found.loss.most)),
            number(average(&found.responses)),
            found.bytes.to_string(),
        ]);
    }
    let mean = |at: usize| ms(measured[at].loss.mean);
    let outliers = |at: usize| measured[at].loss.outliers;
    let wrong = |order: &[usize], value: &dyn Fn(usize) -> f64| {
        order
            .windows(2)
            .filter(|pair| value(pair[0]) > value(pair[1]))
            .count() as f64
    };
    for (at, what) in OUTLIERS {
        let finding = Finding::shown(what, outliers(at), "").paper(PAPER[at].1);
        // The paper's forms have none.
        outcome.findings.push(match at {
            1 | 2 => finding,
            _ => finding.bound(Bound::AtMost(0.05)),
        });
    }
    outcome.findings.extend([
        Finding::shown("Line Fitting: mean loss", mean(1), "ms").paper("0.57"),
        Finding::shown("Coarse Segments: mean loss", mean(2), "ms").paper("0.23"),
        Finding::shown(
            "mean losses out of order (Disk Mimic, Coarse Segments, Line Fitting)",
            wrong(&[0, 2, 1], &mean),
            "",
        )
        .paper("0")
        .bound(Bound::AtMost(0.0)),
        Finding::shown(OUT_OF_ORDER, wrong(&[0, 3, 2, 1], &outliers), "")
            .paper("0")
            .bound(Bound::AtMost(0.0)),
        Finding::shown(
            "Disk Mimic: mean response at all think times",
            average(&measured[0].responses),
            "ms",
        ),
        Finding::shown("linear: the same", average(&linear), "ms"),
    ]);
    let line = |name, style, color, values: &[f64]| {
        let points = thinks
            .iter()
            .zip(values)
            .map(|(think, value)| (ms(*think), *value));
        Line::new(name, style, color, points.collect())
    };
    let panel = |title: &str, lines| Panel {
        title: title.into(),
        x: Axis::linear("think time, ms"),
        y: Axis::linear("mean response time, ms"),
        lines,
        legend: Legend::TopLeft,
    };
    let mimic = || line("Disk Mimic", Style::Solid, 0, &measured[0].responses);
    outcome.figures = vec![
        Figure::table(
            "mimic-table",
            "Outliers and losses, 4 KiB",
            "By writes after the profile: the share of think times at which a predictor's skip is more than 0.5 ms \
             slower on average than the best one, and the mean of what it loses.",
            table,
        ),
        Figure::plot(
            "mimic-linear",
            "Disk Mimic and the linear predictor, 4 KiB",
            "As Figure 2. The linear predictor takes the least response as the time until a transfer begins, which is \
             too long by the transfer, and knows of no revolution.",
            vec![panel(
                &drive.name,
                vec![line("linear", Style::Solid, 1, &linear), mimic()],
            )],
        ),
        Figure::plot(
            "mimic-compact",
            "Naive and compact predictors, 4 KiB",
            "As Figures 5 and 7: interpolation falls short of the place here and there and waits for a revolution; the \
             compact forms stay within about 0.5 ms.",
            vec![
                panel(
                    "Naive",
                    vec![
                        line("Line Fitting", Style::Solid, 1, &measured[1].responses),
                        line("Coarse Segments", Style::Solid, 2, &measured[2].responses),
                        mimic(),
                    ],
                ),
                panel(
                    "Compact, tolerance 0.5 ms",
                    vec![
                        line("Basic Compact", Style::Solid, 1, &measured[3].responses),
                        line("Line Compact", Style::Solid, 2, &measured[4].responses),
                        mimic(),
                    ],
                ),
            ],
        ),
    ];
    outcome.notes = vec![
        format!(
            "The profile has {SAMPLES} samples at each point, as the paper's. Outliers and losses are those of a second one \
             with {} samples, taken afterwards at other places: the least mean of a think time in it counts as the best.",
            4 * SAMPLES
        ),
        format!(
            "Plots: {writes} writes at each think time, after the profile and at other places of the log. Coarse \
             Segments stores a third of the table, as in the paper."
        ),
        format!(
            "The program knows of the end of a request {} ms late on average, exponentially distributed: a guess. \
             Without it the best skip at no think time is 18 KiB, not the paper's 32.",
            drive.spec.host.late_ms
        ),
        "How much Line Fitting and Coarse Segments lose depends on how straight the best skips of a drive lie; the \
         paper's drive is known by its model number only, and the simulated one is made after that."
            .into(),
    ];
    outcome
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The least mean response of the profile.
fn least(profile: &Profile) -> Nanos {
    let grid = profile.grid();
    let means = (0..grid.skips.len()).filter_map(|skip| {
        profile.mean(Cell {
            size: 0,
            think: 0,
            skip,
        })
    });
    means.min().expect("the profile is whole")
}
