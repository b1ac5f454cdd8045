//! `tonearm-lab drive validate`: compares a simulated drive with measurements of the real one.

use super::run::Run;
use super::switched::switch_on;
use super::times::ms;
use super::trace_file::{Fit, open_trace};
use crate::cli::Validate;
use anyhow::{Context, bail};
use serde::Serialize;
use std::process::ExitCode;
use tonearm_base::Nanos;
use tonearm_drive::{Demerit, per_request_rms_ms};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::{Axis, Legend, Line, Panel, Style};
use tonearm_terminal::report;
use tonearm_trace::Op;

/// How the times of some requests agree. None where there are no requests.
#[derive(Serialize)]
struct Figures {
    requests: usize,
    measured_mean_ms: Option<f64>,
    simulated_mean_ms: Option<f64>,
    demerit_ms: Option<f64>,
    demerit_percent: Option<f64>,
    per_request_rms_ms: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    drive: String,
    #[serde(flatten)]
    all: Figures,
    reads: Figures,
    writes: Figures,
}

/// Measured and simulated response times of the same requests.
#[derive(Default)]
struct Times {
    measured: Vec<Nanos>,
    simulated: Vec<Nanos>,
}

impl Times {
    fn push(&mut self, measured: Nanos, simulated: Nanos) {
        self.measured.push(measured);
        self.simulated.push(simulated);
    }

    fn figures(&self) -> Figures {
        let demerit = Demerit::of(&self.measured, &self.simulated);
        Figures {
            requests: self.measured.len(),
            measured_mean_ms: demerit.map(|demerit| demerit.measured_mean_ms),
            simulated_mean_ms: demerit.map(|demerit| demerit.simulated_mean_ms),
            demerit_ms: demerit.map(|demerit| demerit.demerit_ms),
            demerit_percent: demerit.map(|demerit| demerit.demerit_percent),
            per_request_rms_ms: per_request_rms_ms(&self.measured, &self.simulated),
        }
    }
}

/// All requests, and those of either kind.
#[derive(Default)]
struct Comparison {
    all: Times,
    reads: Times,
    writes: Times,
}

/// Compares.
///
/// # Errors
/// When the drive or a line of the trace is wrong, or the trace has no response times.
pub fn run(arguments: &Validate) -> anyhow::Result<ExitCode> {
    let file = DriveFile::find(&arguments.drive.drive)?;
    let comparison = compare(arguments, &file)?;
    let report = Report {
        drive: file.name.clone(),
        all: comparison.all.figures(),
        reads: comparison.reads.figures(),
        writes: comparison.writes.figures(),
    };
    if let Some(path) = &arguments.plot {
        let svg = draw(&report, &comparison);
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        report::json(&report)?;
    } else {
        report::line(table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the measured requests on the simulated drive, which is switched on with the platter at phase 0. Its own
/// response times close the loop, so its clock drifts away from that of the measurement with each request. This does
/// not affect the distributions.
fn compare(arguments: &Validate, file: &DriveFile) -> anyhow::Result<Comparison> {
    let measured = arguments.measured.display().to_string();
    let mut drive = switch_on(file, &arguments.drive);
    let mut fit = Fit {
        trace: measured.clone(),
        drive: &file.name,
        sectors: drive.sectors(),
        wrap: false,
        wrapped: 0,
    };
    let (trace, mut position) = open_trace(&arguments.measured, arguments.format.0)?;
    let mut run = Run::new(&mut drive);
    let mut comparison = Comparison::default();
    let mut take = |run: &mut Run<'_, _>| -> anyhow::Result<()> {
        while let Some(answer) = run.answer() {
            let record = answer.record;
            let Some(response) = record.response else {
                bail!(
                    "{measured}:{}: there is no measured response time",
                    record.line
                );
            };
            comparison.all.push(response, answer.response);
            match record.op {
                Op::Read => comparison.reads.push(response, answer.response),
                Op::Write => comparison.writes.push(response, answer.response),
                Op::Flush => {}
            }
        }
        Ok(())
    };
    for record in trace {
        run.issue(fit.place(record?)?)?;
        take(&mut run)?;
        position.show();
    }
    run.finish()?;
    take(&mut run)?;
    if comparison.all.measured.is_empty() {
        bail!("{measured} has no requests");
    }
    Ok(comparison)
}

fn table(report: &Report) -> tonearm_terminal::Table {
    let mut table = report::table(&[
        "",
        "requests",
        "measured mean ms",
        "simulated mean ms",
        "demerit ms",
        "demerit %",
        "per-request RMS ms",
    ]);
    let figure = |figure: Option<f64>, digits: usize| {
        figure.map_or("-".to_string(), |figure| format!("{figure:.digits$}"))
    };
    for (name, figures) in [
        ("all", &report.all),
        ("reads", &report.reads),
        ("writes", &report.writes),
    ] {
        table.add_row([
            name.to_string(),
            report::count(figures.requests as u64),
            figure(figures.measured_mean_ms, 3),
            figure(figures.simulated_mean_ms, 3),
            figure(figures.demerit_ms, 3),
            figure(figures.demerit_percent, 2),
            figure(figures.per_request_rms_ms, 3),
        ]);
    }
    report::align_right(&mut table, 1..7);
    table
}

fn draw(report: &Report, comparison: &Comparison) -> String {
    let mut panels = Vec::new();
    for (name, times, figures) in [
        ("All requests", &comparison.all, &report.all),
        ("Reads", &comparison.reads, &report.reads),
        ("Writes", &comparison.writes, &report.writes),
    ] {
        if figures.requests == 0 {
            continue;
        }
        panels.push(Panel {
            title: match (figures.demerit_ms, figures.demerit_percent) {
                (Some(ms), Some(percent)) => {
                    format!("{name}: demerit {ms:.3} ms ({percent:.1} %)")
                }
                _ => name.to_string(),
            },
            x: Axis::linear("response time, ms"),
            y: Axis::upto("share of requests, %", 100.0),
            lines: vec![
                Line::new("measured", Style::Solid, 0, distribution(&times.measured)),
                Line::new(
                    "simulated",
                    Style::Dashed,
                    1,
                    distribution(&times.simulated),
                ),
            ],
            legend: Legend::BottomRight,
        });
    }
    let title = format!("{}: response times, measured and simulated", report.drive);
    tonearm_experiments::svg::figure(&title, &panels)
}

/// Points of a cumulative distribution, up to 99.9 %; the last few would flatten the rest.
fn distribution(times: &[Nanos]) -> Vec<(f64, f64)> {
    const POINTS: usize = 999;
    let mut times = times.to_vec();
    times.sort_unstable();
    let point = |index: usize| {
        let rank = index * times.len() / (POINTS + 1);
        let share = 100.0 * index as f64 / (POINTS + 1) as f64;
        (ms(times[rank.min(times.len() - 1)]), share)
    };
    (0..=POINTS).map(point).collect()
}
