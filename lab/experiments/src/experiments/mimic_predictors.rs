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
            compact forms that look at all skips that are good enough; and the linear predictor, which knows no profile. \
            Then the same with a drive whose commands take longer by chance.",
    drives: Drives::One("mimic80"),
    run,
};

/// Samples at each point of the profile, as in the paper, and ten times as many.
const SAMPLES: u8 = 25;
const MANY_SAMPLES: u8 = 250;
/// Writes at each think time that show the responses of a predictor.
const WRITES: u64 = 400;
const TOLERANCE: Nanos = Nanos(500_000);
/// 4 KiB.
const SECTORS: u32 = 8;

/// How close a figure of the paper is met, in percent.
const CLOSE: f64 = 15.0;

/// Noise of the commands, in ms.
const NOISE_MS: [f64; 5] = [0.0, 0.1, 0.2, 0.5, 1.0];

const MIMIC: usize = 0;
const LINE_FIT: usize = 1;
const COARSE: usize = 2;
const BASIC: usize = 3;

/// The predictors that are made from a profile, with the outlier fraction and the mean loss in ms of the paper's table.
const MODELS: [(&str, &str, &str); 6] = [
    ("Disk Mimic", "0", "0"),
    ("Line Fitting", "0.48", "0.57"),
    ("Coarse Segments", "0.20", "0.23"),
    ("Basic Compact", "0", "small"),
    ("Line Compact", "0", "small"),
    ("Plane Compact", "0", "small"),
];

type Model = Box<dyn SkipModel + Sync>;

struct Measured {
    loss: Loss,
    bytes: usize,
    /// Mean response at each think time, of writes after the profile, in ms.
    responses: Vec<f64>,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let learned = learn(context, drive, SAMPLES);
    let after = judges(context, drive);
    let models = models(&learned);
    let ask = |skips: &dyn Fn(usize) -> u64| responses(context, drive, &learned, skips);
    let measured = context.map(&models, |model| Measured {
        loss: Loss::of(&after, model, 0, TOLERANCE),
        bytes: model.stored_bytes(),
        responses: ask(&|think| u64::from(model.skip(0, think))),
    });
    let grid = learned.grid();
    let track = track_sectors(drive, inner_region(drive));
    let linear = Linear::new(least(&learned), turn(drive), track);
    let linear = ask(&|think| linear.skip(Nanos(grid.thinks.at(think))));
    let many = self::models(&learn(context, drive, MANY_SAMPLES));
    let many_responses = ask(&|think| u64::from(many[MIMIC].skip(0, think)));
    let of_many = |model: usize| Loss::of(&after, &many[model], 0, TOLERANCE);
    let thinks: Vec<f64> = (0..grid.thinks.len())
        .map(|think| ms(Nanos(grid.thinks.at(think))))
        .collect();
    let mut findings = of_table(&measured);
    findings.extend(of_many_samples(&of_many(MIMIC), &of_many(BASIC)));
    findings.extend(of_linear(
        &measured[MIMIC].responses,
        &many_responses,
        &linear,
    ));
    Outcome {
        findings,
        figures: vec![
            losses(&measured),
            of_figure_2(drive, &thinks, &linear, &measured),
            of_figures_5_and_7(&thinks, &measured),
            noise(context, drive),
        ],
        notes: notes(drive),
        ..Outcome::default()
    }
}

/// The profile from which predictors are made.
fn learn(context: &Context<'_>, drive: &DriveFile, samples: u8) -> Profile {
    let region = inner_region(drive);
    let grid = one_size(paper_grid(drive, region, samples), 0);
    profile(context, drive, region, grid, 0, &drive.spec.host)
}

/// Profiles of writes after that, at other places and moments, with 400 samples at each point. They judge the
/// predictors: by the profile that it was made from, a form that keeps the tolerance has no outliers.
fn judges(context: &Context<'_>, drive: &DriveFile) -> Vec<Profile> {
    let region = inner_region(drive);
    let grid = one_size(paper_grid(drive, region, 4 * SAMPLES), 0);
    (1..=4)
        .map(|part| profile(context, drive, region, grid, part, &drive.spec.host))
        .collect()
}

fn models(learned: &Profile) -> [Model; 6] {
    let policy = Policy::AverageLimit {
        tolerance: TOLERANCE,
    };
    let choices = Choices::new(learned, policy).expect("the profile is whole");
    [
        Box::new(choices.table()),
        Box::new(LineFit::new(&choices)),
        Box::new(Coarse::new(&choices, learned.grid().thinks.len() / 3)),
        Box::new(BasicCompact::new(&choices)),
        Box::new(LineCompact::new(&choices)),
        Box::new(PlaneCompact::new(&choices)),
    ]
}

/// Mean response at each think time, in ms, of writes that leave out `skips` sectors.
fn responses(
    context: &Context<'_>,
    drive: &DriveFile,
    learned: &Profile,
    skips: &dyn Fn(usize) -> u64,
) -> Vec<f64> {
    let thinks = learned.grid().thinks;
    let mean = |think: usize| {
        let seed = context.seed(1_000 + think as u64);
        let mut rig = Rig::new(drive, seed).on(&drive.spec.host, seed);
        let (region, time) = (inner_region(drive), Nanos(thinks.at(think)));
        skip_response(&mut rig, region, SECTORS, time, skips(think), WRITES, seed).mean_ms()
    };
    (0..thinks.len()).map(mean).collect()
}

/// The findings beside the table of Figure 6.
fn of_table(measured: &[Measured]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, ((name, outliers, mean), found)) in MODELS.iter().zip(measured).enumerate() {
        let naive = at == LINE_FIT || at == COARSE;
        let bound = |paper: &str, most| match paper.parse() {
            Ok(value) if naive => Bound::Within {
                value,
                percent: CLOSE,
            },
            // The paper's forms have no outliers, and next to no loss.
            _ => Bound::AtMost(most),
        };
        findings.push(
            Finding::shown(
                format!("{name}: outliers beyond 0.5 ms"),
                found.loss.outliers,
                "",
            )
            .paper(*outliers)
            .bound(bound(outliers, 0.05)),
        );
        if naive || at == MIMIC {
            findings.push(
                Finding::shown(format!("{name}: mean loss"), ms(found.loss.mean), "ms")
                    .paper(*mean)
                    .bound(bound(mean, 0.05)),
            );
        }
    }
    let wrong = |order: &[usize], value: &dyn Fn(&Loss) -> f64| {
        let value = |at: usize| value(&measured[at].loss);
        let pairs = order.windows(2);
        pairs.filter(|pair| value(pair[0]) > value(pair[1])).count() as f64
    };
    for (what, wrong) in [
        (
            "mean losses out of order (Disk Mimic, Coarse Segments, Line Fitting)",
            wrong(&[MIMIC, COARSE, LINE_FIT], &|loss| ms(loss.mean)),
        ),
        (
            "outlier fractions out of order (Disk Mimic, Basic Compact, Coarse Segments, Line Fitting)",
            wrong(&[MIMIC, BASIC, COARSE, LINE_FIT], &|loss| loss.outliers),
        ),
    ] {
        let finding = Finding::shown(what, wrong, "").paper("0");
        findings.push(finding.bound(Bound::AtMost(0.0)));
    }
    findings
}

/// The findings that show what more samples are worth.
fn of_many_samples(mimic: &Loss, basic: &Loss) -> [Finding; 2] {
    [
        Finding::shown(
            "Disk Mimic from ten times the samples: mean loss",
            ms(mimic.mean),
            "ms",
        )
        .bound(Bound::AtMost(0.05)),
        Finding::shown(
            "Basic Compact from ten times the samples: greatest loss",
            ms(basic.most),
            "ms",
        )
        .bound(Bound::AtMost(ms(TOLERANCE) * (1.0 + CLOSE / 100.0))),
    ]
}

/// The findings beside Figure 2: mean responses by think time.
fn of_linear(mimic: &[f64], many: &[f64], linear: &[f64]) -> Vec<Finding> {
    let slower = |mimic: &[f64]| {
        let pairs = mimic.iter().zip(linear);
        pairs.filter(|(mimic, linear)| mimic > linear).count() as f64
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    vec![
        Finding::shown(
            "think times of 91 at which Disk Mimic is slower than the linear predictor",
            slower(mimic),
            "",
        )
        .paper("0")
        .bound(Bound::AtMost(0.0)),
        Finding::shown("the same from ten times the samples", slower(many), "")
            .bound(Bound::AtMost(0.0)),
        Finding::shown(
            "Disk Mimic: mean response at all think times",
            mean(mimic),
            "ms",
        ),
        Finding::shown("linear: the same", mean(linear), "ms"),
    ]
}

fn losses(measured: &[Measured]) -> Figure {
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
    for ((name, outliers, mean), found) in MODELS.iter().zip(measured) {
        let responses = &found.responses;
        table.row(vec![
            (*name).into(),
            (*outliers).into(),
            number(found.loss.outliers),
            (*mean).into(),
            number(ms(found.loss.mean)),
            number(ms(found.loss.most)),
            number(responses.iter().sum::<f64>() / responses.len() as f64),
            found.bytes.to_string(),
        ]);
    }
    Figure::table(
        "mimic-table",
        "Outliers and losses, 4 KiB",
        "By writes after the profile: the share of think times at which a predictor's skip is more than 0.5 ms \
         slower on average than the best one, and the mean of what it loses.",
        table,
    )
}

fn panel(title: &str, lines: Vec<Line>) -> Panel {
    Panel {
        title: title.into(),
        x: Axis::linear("think time, ms"),
        y: Axis::linear("mean response time, ms"),
        lines,
        legend: Legend::TopLeft,
    }
}

fn line(name: &str, color: usize, thinks: &[f64], values: &[f64]) -> Line {
    let points = thinks.iter().copied().zip(values.iter().copied());
    Line::new(name, Style::Solid, color, points.collect())
}

fn of_figure_2(drive: &DriveFile, thinks: &[f64], linear: &[f64], measured: &[Measured]) -> Figure {
    let lines = vec![
        line("linear", 1, thinks, linear),
        line("Disk Mimic", 0, thinks, &measured[MIMIC].responses),
    ];
    Figure::plot(
        "mimic-linear",
        "Disk Mimic and the linear predictor, 4 KiB",
        "As Figure 2. The linear predictor takes the least response as the time until a transfer begins, which is \
         too long by the transfer, and knows of no revolution.",
        vec![panel(&drive.name, lines)],
    )
}

fn of_figures_5_and_7(thinks: &[f64], measured: &[Measured]) -> Figure {
    let lines = |models: [usize; 2]| {
        let mut lines = Vec::new();
        for (color, model) in [(1, models[0]), (2, models[1]), (0, MIMIC)] {
            lines.push(line(
                MODELS[model].0,
                color,
                thinks,
                &measured[model].responses,
            ));
        }
        lines
    };
    Figure::plot(
        "mimic-compact",
        "Naive and compact predictors, 4 KiB",
        "As Figures 5 and 7: interpolation falls short of the place here and there and waits for a revolution; the \
         compact forms stay within about 0.5 ms.",
        vec![
            panel("Naive", lines([LINE_FIT, COARSE])),
            panel("Compact, tolerance 0.5 ms", lines([BASIC, BASIC + 1])),
        ],
    )
}

/// The same predictors on drives whose commands take longer by chance.
fn noise(context: &Context<'_>, drive: &DriveFile) -> Figure {
    let mut table = Table::new(&[
        "commands longer by up to, ms",
        "predictor",
        "outliers",
        "mean loss, ms",
        "greatest loss, ms",
    ]);
    let levels = if context.is_full() {
        &NOISE_MS[..]
    } else {
        &NOISE_MS[1..2]
    };
    for noise_ms in levels {
        let mut drive = drive.clone();
        let disk = drive.spec.disk.as_mut().expect("a drive that turns");
        disk.overhead.noise_ms = *noise_ms;
        let models = models(&learn(context, &drive, SAMPLES));
        let after = judges(context, &drive);
        let losses = context.map(&models, |model| Loss::of(&after, model, 0, TOLERANCE));
        for ((name, _, _), loss) in MODELS.iter().zip(losses) {
            table.row(vec![
                number(*noise_ms),
                (*name).into(),
                number(loss.outliers),
                number(ms(loss.mean)),
                number(ms(loss.most)),
            ]);
        }
    }
    Figure::table(
        "mimic-noise",
        "Outliers and losses with noise, 4 KiB",
        "The same measures on drives whose commands take longer by another time each, evenly distributed up to the \
         first column.",
        table,
    )
}

fn notes(drive: &DriveFile) -> Vec<String> {
    let host = &drive.spec.host;
    vec![
        format!(
            "The profile has {SAMPLES} samples at each point, as the paper's. Outliers and losses are those of writes \
             afterwards at other places, 400 at each point: the least mean of a think time among them counts as the best."
        ),
        format!(
            "Plots: {WRITES} writes at each think time, after the profile and at other places of the log. Coarse \
             Segments stores a third of the table, as in the paper."
        ),
        format!(
            "The host takes {} ms for a request, and the program knows of its end {} ms late on average, exponentially \
             distributed.",
            host.request_ms, host.late_ms
        ),
    ]
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
