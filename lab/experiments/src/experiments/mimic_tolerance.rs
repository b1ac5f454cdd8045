//! Footprint and loss of the compact forms against their tolerance (Disk Mimic 4.3, Figures 8 and 9).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{inner_region, ms, paper_grid, profile};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Grid, Profile, SkipModel};
use tonearm_head_study::{BasicCompact, Choices, LineCompact, Loss, PlaneCompact, Policy};

pub const EXPERIMENT: Experiment = Experiment {
    name: "mimic-tolerance",
    title: "Memory and loss of the compact forms against their tolerance",
    source: "Disk Mimic 4.3, Figures 8 and 9",
    about: "The more a compact predictor may lose at a think time, the longer the runs of think times that one skip, \
            one line or one plane serves.",
    drives: Drives::One("mimic80"),
    run,
};

/// Tolerances in tenths of a millisecond.
const TOLERANCES: [u64; 10] = [1, 2, 3, 5, 7, 9, 11, 13, 15, 20];
/// Samples at each point of the profile, as in the paper.
const SAMPLES: u8 = 25;
/// How close a figure of the paper is met, in percent.
const CLOSE: f64 = 15.0;
const NAMES: [&str; 3] = ["Basic Compact", "Line Compact", "Plane Compact"];

#[derive(Clone, Copy)]
struct Measured {
    bytes: usize,
    mean_ms: f64,
    most_ms: f64,
    outliers: f64,
}

impl Measured {
    /// Times smaller than a table of `table_bytes`.
    fn smaller(&self, table_bytes: usize) -> f64 {
        table_bytes as f64 / self.bytes as f64
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    // With fewer samples chance decides which skips are good, and runs of think times get short.
    let region = inner_region(drive);
    let mut grid = paper_grid(drive, region, SAMPLES);
    if !context.is_full() {
        grid.sizes.count = 10;
    }
    let learned = profile(context, drive, region, grid, 0, &drive.spec.host);
    // Writes after the profile judge the forms, as in mimic-predictors.
    let again = Grid {
        samples: 4 * SAMPLES,
        ..grid
    };
    let after = profile(context, drive, region, again, 1, &drive.spec.host);
    let choices = |tolerance| {
        Choices::new(&learned, Policy::AverageLimit { tolerance }).expect("the profile is whole")
    };
    let measured = context.map(&TOLERANCES, |tenths| {
        let tolerance = Nanos(tenths * 100_000);
        let choices = choices(tolerance);
        let models: [Box<dyn SkipModel>; 3] = [
            Box::new(BasicCompact::new(&choices)),
            Box::new(LineCompact::new(&choices)),
            Box::new(PlaneCompact::new(&choices)),
        ];
        models.map(|model| judge(&after, &*model, tolerance))
    });
    // The table is the same with each tolerance.
    let table = judge(&after, &choices(Nanos(0)).table(), Nanos(500_000));
    let mut findings = findings(&measured, table.bytes);
    findings.push(Finding::shown("full table: mean loss", table.mean_ms, "ms"));
    Outcome {
        findings,
        figures: vec![figure(&measured, table)],
        notes: vec![format!(
            "All request sizes of the paper's grid ({} of them), {SAMPLES} samples at each point; losses and \
             outliers are those of a second profile with 100 samples, taken afterwards, averaged over sizes. The paper does \
             not say which form its figures have.",
            grid.sizes.count
        )],
        ..Outcome::default()
    }
}

/// `model` by the writes `after` the profile.
fn judge(after: &Profile, model: &dyn SkipModel, tolerance: Nanos) -> Measured {
    let sizes = after.grid().sizes.len();
    let losses: Vec<Loss> = (0..sizes)
        .map(|size| Loss::of(std::slice::from_ref(after), model, size, tolerance))
        .collect();
    Measured {
        bytes: model.stored_bytes(),
        mean_ms: losses.iter().map(|loss| ms(loss.mean)).sum::<f64>() / sizes as f64,
        most_ms: losses.iter().map(|loss| ms(loss.most)).fold(0.0, f64::max),
        outliers: losses.iter().map(|loss| loss.outliers).sum::<f64>() / sizes as f64,
    }
}

/// What the paper says of two tolerances in tenths of a millisecond: times smaller than the table, mean loss in ms.
const PAPER: [(u64, f64, Option<f64>); 2] = [(5, 3.0, None), (15, 6.0, Some(0.4))];

fn findings(measured: &[[Measured; 3]], table_bytes: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (tenths, smaller, mean_ms) in PAPER {
        let index = TOLERANCES.iter().position(|known| *known == tenths);
        let forms = &measured[index.expect("a tolerance of the list")];
        let tolerance = tenths as f64 / 10.0;
        let close = |value: f64| Bound::Within {
            value,
            percent: CLOSE,
        };
        for (name, found) in NAMES.iter().zip(forms) {
            let what = format!("{name}: times smaller than the table at {tolerance} ms");
            let times = found.smaller(table_bytes);
            let finding = Finding::shown(what, times, "").paper(number(smaller));
            findings.push(finding.bound(close(smaller)));
            if let Some(mean_ms) = mean_ms {
                let what = format!("{name}: mean loss at {tolerance} ms");
                let finding = Finding::shown(what, found.mean_ms, "ms").paper(mean_ms.to_string());
                findings.push(finding.bound(close(mean_ms)));
            }
            let what = format!("{name}: outliers at {tolerance} ms");
            let finding = Finding::shown(what, found.outliers, "").paper("0");
            findings.push(finding.bound(Bound::AtMost(0.05)));
        }
    }
    findings
}

fn figure(measured: &[[Measured; 3]], full: Measured) -> Figure {
    let panel = |y: &str, legend, value: &dyn Fn(&Measured) -> f64, more: Option<Line>| {
        let line = |form: usize| {
            let points = TOLERANCES.iter().zip(measured);
            let points = points.map(|(tenths, found)| (*tenths as f64 / 10.0, value(&found[form])));
            Line::new(NAMES[form], Style::Marked, form, points.collect())
        };
        Panel {
            title: String::new(),
            x: Axis::linear("tolerance, ms"),
            y: Axis::linear(y),
            lines: (0..3).map(line).chain(more).collect(),
            legend,
        }
    };
    let paper = Line::new("paper", Style::Dots, 6, vec![(0.5, 3.0), (1.5, 6.0)]);
    let paper_loss = Line::new("paper", Style::Dots, 6, vec![(1.5, 0.4)]);
    let mut table = Table::new(&[
        "tolerance, ms",
        "form",
        "bytes",
        "times smaller",
        "mean loss, ms",
        "greatest loss, ms",
        "outliers",
    ]);
    let mut row = |tolerance: String, name: &str, found: &Measured| {
        table.row(vec![
            tolerance,
            name.into(),
            found.bytes.to_string(),
            number(found.smaller(full.bytes)),
            number(found.mean_ms),
            number(found.most_ms),
            number(found.outliers),
        ]);
    };
    row("any".into(), "full table, outliers beyond 0.5 ms", &full);
    for (tenths, found) in TOLERANCES.iter().zip(measured) {
        for (name, found) in NAMES.iter().zip(found) {
            row(number(*tenths as f64 / 10.0), name, found);
        }
    }
    Figure::plot(
        "mimic-tolerance",
        "Footprint and loss against tolerance",
        "As Figures 8 and 9: how many times smaller than the full table, and the mean loss against the best skip.",
        vec![
            panel(
                "times smaller than the table",
                Legend::TopLeft,
                &|found| found.smaller(full.bytes),
                Some(paper),
            ),
            panel("mean loss, ms", Legend::TopLeft, &|found| found.mean_ms, Some(paper_loss)),
        ],
    )
    .with(table)
}
