//! `tonearm-lab drive replay`: runs a trace on a simulated drive, and writes each request's response time.

use super::answer_file;
use super::run::{Answer, Run};
use super::switched::{scheduler, switch_on};
use super::times::{cpu_seconds, ms};
use super::trace_file::{Fit, open_trace};
use crate::cli::Replay;
use crate::commands::output::Output;
use anyhow::bail;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::process::ExitCode;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_terminal::report;
use tonearm_trace::Op;

/// Requests between two looks at the wall clock.
const PART: u64 = 4096;

/// Statistics of the answers.
#[derive(Serialize)]
struct Summary {
    drive: String,
    scheduler: Option<String>,
    requests: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    /// Discards and requests of no bytes.
    skipped: u64,
    /// Requests to other devices of the trace.
    other_devices: u64,
    /// Folded onto the drive.
    wrapped: u64,
    /// Arrivals that lay before the line above.
    moved_up: u64,
    virtual_seconds: f64,
    cpu_seconds: f64,
    mean_response_ms: f64,
    p50_response_ms: f64,
    p90_response_ms: f64,
    p99_response_ms: f64,
    p999_response_ms: f64,
    max_response_ms: f64,
}

/// Replays.
///
/// # Errors
/// When the drive or a line of the trace is wrong, a request does not fit, or the answer cannot be written.
pub fn run(arguments: &Replay) -> anyhow::Result<ExitCode> {
    let file = DriveFile::find(&arguments.drive.drive)?;
    let to_stdout = arguments.out.as_os_str() == "-";
    if to_stdout && arguments.json {
        bail!("--out - and --json both write to standard output; give --out a file");
    }
    let mut output = answer_file::create(&arguments.out)?;
    let summary = replay(arguments, &file, &mut output)?;
    output.keep()?;
    match (to_stdout, arguments.json) {
        (true, _) => {}
        (false, true) => report::json(&summary)?,
        (false, false) => show(&summary)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn replay(arguments: &Replay, file: &DriveFile, output: &mut Output) -> anyhow::Result<Summary> {
    let mut drive = switch_on(file, &arguments.drive);
    let mut fit = Fit {
        trace: arguments.trace.display().to_string(),
        drive: &file.name,
        sectors: drive.sectors(),
        wrap: arguments.wrap,
        wrapped: 0,
    };
    let (mut trace, mut position) = open_trace(&arguments.trace, arguments.format.0)?;
    let mut tally = Tally::new()?;
    let mut other_devices = 0;
    let started = cpu_seconds();
    let mut run = Run::new(&mut drive);
    for (number, record) in (&mut trace).enumerate() {
        let record = record?;
        if arguments
            .device
            .is_some_and(|device| device != record.device)
        {
            other_devices += 1;
            continue;
        }
        run.issue(fit.place(record)?)?;
        while let Some(answer) = run.answer() {
            tally.take(&answer);
            answer_file::write(output, &answer)?;
        }
        if (number as u64).is_multiple_of(PART) {
            position.show();
        }
    }
    run.finish()?;
    while let Some(answer) = run.answer() {
        tally.take(&answer);
        answer_file::write(output, &answer)?;
    }
    let end = run.now();
    let response = |quantile| tally.histogram.value_at_quantile(quantile) as f64 / 1e6;
    let requests = tally.reads + tally.writes + tally.flushes;
    Ok(Summary {
        drive: file.name.clone(),
        scheduler: scheduler(file, &arguments.drive).map(|scheduler| scheduler.to_string()),
        requests,
        reads: tally.reads,
        writes: tally.writes,
        flushes: tally.flushes,
        skipped: trace.skipped(),
        other_devices,
        wrapped: fit.wrapped,
        moved_up: trace.clamped(),
        virtual_seconds: end.0 as f64 / 1e9,
        cpu_seconds: cpu_seconds() - started,
        mean_response_ms: tally.sum_ns as f64 / 1e6 / requests.max(1) as f64,
        p50_response_ms: response(0.5),
        p90_response_ms: response(0.9),
        p99_response_ms: response(0.99),
        p999_response_ms: response(0.999),
        max_response_ms: ms(tally.max),
    })
}

/// Counts and response times.
struct Tally {
    reads: u64,
    writes: u64,
    flushes: u64,
    sum_ns: u128,
    max: Nanos,
    histogram: Histogram<u64>,
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            reads: 0,
            writes: 0,
            flushes: 0,
            sum_ns: 0,
            max: Nanos(0),
            // Up to eleven days.
            histogram: Histogram::new_with_bounds(1, 1_000_000_000_000_000, 3)?,
        })
    }

    fn take(&mut self, answer: &Answer) {
        match answer.record.op {
            Op::Read => self.reads += 1,
            Op::Write => self.writes += 1,
            Op::Flush => self.flushes += 1,
        }
        self.sum_ns += u128::from(answer.response.0);
        self.max = self.max.max(answer.response);
        self.histogram.saturating_record(answer.response.0);
    }
}

fn show(summary: &Summary) -> anyhow::Result<()> {
    let kinds = [
        (summary.reads, "reads"),
        (summary.writes, "writes"),
        (summary.flushes, "flushes"),
    ];
    let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<String> = kinds
        .map(|(number, kind)| format!("{} {kind}", report::count(number)))
        .collect();
    let scheduler = summary.scheduler.as_deref().unwrap_or("no queue");
    let rows = [
        ("drive", format!("{}, {scheduler}", summary.drive)),
        (
            "requests",
            format!("{} ({})", report::count(summary.requests), kinds.join(", ")),
        ),
        (
            "mean response",
            format!("{:.3} ms", summary.mean_response_ms),
        ),
        (
            "50, 90, 99, 99.9 %",
            format!(
                "{:.3}, {:.3}, {:.3}, {:.3} ms",
                summary.p50_response_ms,
                summary.p90_response_ms,
                summary.p99_response_ms,
                summary.p999_response_ms
            ),
        ),
        ("longest", format!("{:.3} ms", summary.max_response_ms)),
        (
            "time",
            format!(
                "{:.1} s of the drive in {:.2} s of the processor",
                summary.virtual_seconds, summary.cpu_seconds
            ),
        ),
    ];
    report::line(report::pairs(rows))?;
    let notes = [
        (
            summary.other_devices,
            "requests of other devices were left out",
        ),
        (
            summary.skipped,
            "discards or requests of no bytes were left out",
        ),
        (summary.wrapped, "requests were folded onto the drive"),
        (
            summary.moved_up,
            "requests arrived before the line above and were taken as simultaneous with it",
        ),
    ];
    for (number, what) in notes {
        if number > 0 {
            report::note(format_args!("{} {what}", report::count(number)));
        }
    }
    Ok(())
}
