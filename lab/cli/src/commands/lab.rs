//! `tonearm-lab lab`: runs experiments, prints their findings, writes reports.

use crate::cli::{Lab, LabAction, LabHow, LabList, LabRun};
use anyhow::Context;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::{Effort, Experiment, Figure, Finding, Report, Run, Verdict};
use tonearm_terminal::report;

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    about: &'static str,
}

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: &Lab) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        LabAction::List(arguments) => list(arguments),
        LabAction::Run(arguments) => run_some(arguments),
        LabAction::All(arguments) => {
            let all: Vec<&Experiment> = tonearm_experiments::EXPERIMENTS.iter().collect();
            run_these(&all, None, &arguments.how)
        }
        LabAction::Cost(arguments) => super::cost::run(arguments),
    }
}

fn list(arguments: &LabList) -> anyhow::Result<ExitCode> {
    if arguments.json {
        let rows = tonearm_experiments::EXPERIMENTS
            .iter()
            .map(|experiment| Listed {
                name: experiment.name,
                title: experiment.title,
                source: experiment.source,
                about: experiment.about,
            });
        report::json(&rows.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = report::table(&["name", "what it shows", "after"]);
    for experiment in tonearm_experiments::EXPERIMENTS {
        table.add_row([experiment.name, experiment.title, experiment.source]);
    }
    report::line(table)?;
    Ok(ExitCode::SUCCESS)
}

fn run_some(arguments: &LabRun) -> anyhow::Result<ExitCode> {
    let found: Result<Vec<_>, _> = arguments
        .names
        .iter()
        .map(|name| tonearm_experiments::find(name))
        .collect();
    let drive = arguments
        .drive
        .as_deref()
        .map(DriveFile::find)
        .transpose()?;
    run_these(&found?, drive.as_ref(), &arguments.how)
}

fn run_these(
    experiments: &[&Experiment],
    drive: Option<&DriveFile>,
    how: &LabHow,
) -> anyhow::Result<ExitCode> {
    for name in &how.in_full {
        tonearm_experiments::find(name)?;
    }
    // Finds out whether the report can be written before a long run.
    if let Some(folder) = &how.report {
        let what = || format!("cannot make the folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
    }
    let bars = Bars::new(experiments.len() as u64);
    let (mut reports, mut took) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let begun = Instant::now();
        let in_full = how.in_full.iter().any(|name| name == experiment.name);
        let found = experiment.run(&Run {
            drive: drive.cloned(),
            seed: how.seed,
            effort: if how.quick && !in_full {
                Effort::Quick
            } else {
                Effort::Full
            },
            progress: &|done, total| bars.at(experiment.name, done, total),
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        bars.done();
        if !how.json {
            bars.aside(|| show(&found, seconds))?;
        }
        reports.push(found);
        took.push(seconds);
    }
    drop(bars);
    if how.json {
        report::json(&reports)?;
    }
    if let Some(folder) = &how.report {
        write(folder, &reports, &took)?;
        if let Some(page) = &how.markdown {
            let relative = page
                .parent()
                .and_then(|above| folder.strip_prefix(above).ok());
            let figures = relative.unwrap_or(folder).display().to_string();
            std::fs::write(
                page,
                tonearm_experiments::markdown::page(&reports, &figures),
            )
            .with_context(|| format!("cannot write {}", page.display()))?;
        }
        if !how.json {
            report::line(format_args!(
                "report: {}",
                folder.join("index.html").display()
            ))?;
        }
    }
    for found in &reports {
        for finding in &found.findings {
            if finding.is_known_miss_no_more() {
                let (experiment, what) = (&found.experiment, &finding.what);
                eprintln!("{experiment}: '{what}' is listed as a known miss, and its bound holds");
            }
        }
    }
    let missed = count(&reports, Verdict::Missed);
    if !how.json {
        report::line(format_args!(
            "{} bounds held, {} known misses, {missed} missed; {:.0} s",
            count(&reports, Verdict::Held),
            count(&reports, Verdict::KnownMiss),
            took.iter().sum::<f64>()
        ))?;
    }
    Ok(if how.check && missed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn count(reports: &[Report], verdict: Verdict) -> usize {
    let findings = reports.iter().flat_map(|report| &report.findings);
    findings.filter(|f| f.verdict == verdict).count()
}

/// Writes `index.html` and each plot.
fn write(folder: &Path, reports: &[Report], took: &[f64]) -> anyhow::Result<()> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for figure in reports.iter().flat_map(|report| &report.figures) {
        if !figure.panels.is_empty() {
            let svg = tonearm_experiments::svg::figure(&figure.title, &figure.panels);
            put(&format!("{}.svg", figure.name), svg)?;
        }
    }
    put("index.html", tonearm_experiments::html::page(reports, took))
}

/// Prints a report as text.
fn show(found: &Report, seconds: f64) -> std::io::Result<()> {
    report::line(format_args!(
        "{}: {}\n{} ({}; {seconds:.1} s)",
        found.experiment,
        found.title,
        found.source,
        drives(&found.drives)
    ))?;
    if !found.findings.is_empty() {
        let mut table = report::table(&["what", "paper", "here", "unit", "demanded", ""]);
        for finding in &found.findings {
            table.add_row(cells(finding));
        }
        report::align_right(&mut table, 1..3);
        report::line(table)?;
        for finding in &found.findings {
            if let Some(why) = &finding.because {
                report::line(format_args!("  {}: {why}", finding.what))?;
            }
            if let Some(miss) = &finding.known_miss {
                report::line(format_args!(
                    "  {}: known miss, limit {}: {}",
                    finding.what, miss.limit, miss.reason
                ))?;
            }
        }
    }
    for Figure { title, table, .. } in &found.figures {
        let Some(rows) = table else { continue };
        let heads: Vec<&str> = rows.heads.iter().map(String::as_str).collect();
        let mut table = report::table(&heads);
        for row in &rows.rows {
            table.add_row(row);
        }
        report::align_right(&mut table, 1..heads.len());
        report::line(format_args!("{title}\n{table}"))?;
    }
    for note in &found.notes {
        report::line(format_args!("  - {note}"))?;
    }
    report::line("")
}

fn cells(finding: &Finding) -> [String; 6] {
    [
        finding.what.clone(),
        finding.paper.clone().unwrap_or_default(),
        tonearm_experiments::number(finding.ours),
        finding.unit.clone(),
        finding
            .bound
            .map_or(String::new(), |bound| bound.to_string()),
        finding.verdict.to_string(),
    ]
}

fn drives(names: &[String]) -> String {
    match names {
        [one] => format!("drive {one}"),
        many => format!("{} drives", many.len()),
    }
}

/// One bar for the experiments, one for the steps of the present one.
struct Bars {
    all: MultiProgress,
    experiments: ProgressBar,
    steps: ProgressBar,
}

impl Bars {
    fn new(experiments: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let all = MultiProgress::with_draw_target(target);
        let style = |text| ProgressStyle::with_template(text).expect("a fixed template");
        let steps = all.add(ProgressBar::no_length());
        steps.set_style(style("{msg:18} [{wide_bar}] {human_pos}/{human_len} {eta}"));
        let whole = all.add(ProgressBar::new(experiments));
        whole.set_style(style(
            "experiments        [{wide_bar}] {human_pos}/{human_len} {elapsed}",
        ));
        whole.enable_steady_tick(Duration::from_secs(1));
        Self {
            all,
            experiments: whole,
            steps,
        }
    }

    fn at(&self, name: &'static str, done: u64, total: u64) {
        self.steps.set_message(name);
        self.steps.set_length(total);
        self.steps.set_position(done);
    }

    fn done(&self) {
        self.experiments.inc(1);
        self.steps.reset();
    }

    /// Does `print` while the bars are away.
    fn aside(&self, print: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
        self.all.suspend(print)
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.steps.finish_and_clear();
        self.experiments.finish_and_clear();
    }
}
