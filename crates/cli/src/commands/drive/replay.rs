//! `tonearm drive replay`: a trace on a simulated drive, and each request's response time.

use super::run::{Answer, Run};
use super::{Sheet, cpu_seconds, exact_ms, ms};
use crate::cli::Replay;
use crate::progress::{Progress, Unit};
use crate::report;
use anyhow::{Context, bail};
use base::Nanos;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use trace::{Op, Reader, Record};

const HEADER: &str = "arrival_ms,lba,sectors,rw,response_ms";
/// Requests between two looks at the wall clock.
const PART: u64 = 4096;

/// What the answers come to.
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
    /// Of other devices of the trace.
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
/// When the drive or a line of the trace is wrong, a request does not fit, or the answer cannot be
/// written.
pub fn run(arguments: &Replay) -> anyhow::Result<ExitCode> {
    let sheet = Sheet::find(&arguments.drive.drive)?;
    let to_stdout = arguments.out.as_os_str() == "-";
    if to_stdout && arguments.json {
        bail!("--out - and --json both write to standard output; give --out a file");
    }
    let mut output = Output::create(&arguments.out)?;
    let summary = replay(arguments, &sheet, &mut output)?;
    output.keep()?;
    match (to_stdout, arguments.json) {
        (true, _) => {}
        (false, true) => report::json(&summary)?,
        (false, false) => show(&summary)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn replay(arguments: &Replay, sheet: &Sheet, output: &mut Output) -> anyhow::Result<Summary> {
    let mut drive = sheet.switch_on(&arguments.drive);
    let mut fit = Fit {
        trace: arguments.trace.display().to_string(),
        drive: &sheet.name,
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
            output.write(&answer)?;
        }
        if (number as u64).is_multiple_of(PART) {
            position.show();
        }
    }
    run.finish()?;
    while let Some(answer) = run.answer() {
        tally.take(&answer);
        output.write(&answer)?;
    }
    let end = run.now();
    let response = |quantile| tally.histogram.value_at_quantile(quantile) as f64 / 1e6;
    let requests = tally.reads + tally.writes + tally.flushes;
    Ok(Summary {
        drive: sheet.name.clone(),
        scheduler: sheet
            .scheduler(&arguments.drive)
            .map(|scheduler| scheduler.to_string()),
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

/// Where in the file the reading is.
pub struct Position {
    bar: Progress,
    read: Rc<Cell<u64>>,
    bytes: u64,
}

impl Position {
    /// Shows it, once this takes a while.
    pub fn show(&mut self) {
        self.bar.at(self.read.get(), self.bytes);
    }
}

/// Opens a trace, and counts how much of it has been read.
///
/// # Errors
/// When there is no such file.
pub fn open_trace(
    path: &Path,
    format: trace::Format,
) -> anyhow::Result<(Reader<'static>, Position)> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open the trace {name}"))?;
    let about = file
        .metadata()
        .with_context(|| format!("cannot open the trace {name}"))?;
    if about.is_dir() {
        bail!("{name} is a folder, not a trace");
    }
    let read = Rc::new(Cell::new(0));
    let position = Position {
        bar: Progress::new("replaying", Unit::Bytes),
        read: read.clone(),
        bytes: about.len(),
    };
    let counted = Counted { file, read };
    let reader = Reader::new(&name, format, BufReader::with_capacity(1 << 16, counted));
    Ok((reader, position))
}

struct Counted {
    file: File,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// Whether requests fit the drive.
pub struct Fit<'a> {
    pub trace: String,
    pub drive: &'a str,
    pub sectors: u64,
    pub wrap: bool,
    pub wrapped: u64,
}

impl Fit<'_> {
    /// The request, at a place that the drive has.
    ///
    /// # Errors
    /// With file and line, when there is none.
    pub fn place(&mut self, mut record: Record) -> anyhow::Result<Record> {
        let length = u64::from(record.sectors);
        if record.sector + length <= self.sectors {
            return Ok(record);
        }
        let Self {
            trace,
            drive,
            sectors,
            ..
        } = self;
        let (line, first) = (record.line, record.sector);
        if length > *sectors {
            bail!("{trace}:{line}: the request has {length} sectors, {drive} has only {sectors}");
        }
        if !self.wrap {
            bail!(
                "{trace}:{line}: sectors {first} to {} lie beyond the end of {drive}, which has {sectors}; \
                 a larger drive, --device, or --wrap (folds requests onto the drive) may help",
                first + length - 1
            );
        }
        self.wrapped += 1;
        // One that would cross the end is moved down to it.
        record.sector = (first % *sectors).min(*sectors - length);
        Ok(record)
    }
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

/// The answer's file. It gets its name when it is whole, unless the name is a device's or a pipe's.
struct Output {
    file: BufWriter<Box<dyn Write>>,
    path: PathBuf,
    /// The file as it is being written.
    part: Option<PathBuf>,
}

impl Output {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let (file, part): (Box<dyn Write>, _) = if path.as_os_str() == "-" {
            (Box::new(std::io::stdout()), None)
        } else if path.exists() && !path.is_file() {
            let file = File::options().write(true).open(path);
            (Box::new(file.with_context(|| cannot_write(path))?), None)
        } else {
            let mut part = path.as_os_str().to_os_string();
            part.push(".part");
            let part = PathBuf::from(part);
            let file = File::create(&part).with_context(|| cannot_write(path))?;
            (Box::new(file), Some(part))
        };
        let mut output = Self {
            file: BufWriter::with_capacity(1 << 16, file),
            path: path.to_path_buf(),
            part,
        };
        writeln!(output.file, "{HEADER}")?;
        Ok(output)
    }

    fn write(&mut self, answer: &Answer) -> anyhow::Result<()> {
        let Answer {
            record,
            issued,
            response,
        } = answer;
        let letter = match record.op {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Flush => 'F',
        };
        writeln!(
            self.file,
            "{},{},{},{letter},{}",
            exact_ms(*issued),
            record.sector,
            record.sectors,
            exact_ms(*response)
        )
        .with_context(|| cannot_write(&self.path))
    }

    fn keep(mut self) -> anyhow::Result<()> {
        self.file
            .flush()
            .with_context(|| cannot_write(&self.path))?;
        if let Some(part) = &self.part {
            std::fs::rename(part, &self.path).with_context(|| cannot_write(&self.path))?;
            self.part = None;
        }
        Ok(())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // The error that brought us here is the one to tell.
            let _ = std::fs::remove_file(part);
        }
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
