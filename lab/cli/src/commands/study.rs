//! `tonearm-lab study`: recommends a layout for a trace.

use super::drive::cpu_seconds;
use crate::cli::{Redundancy, Study as Arguments};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::study::{
    LOAD_HEADS, LOADS, Load, Setup, Source, Study, Summary, guess_format, load_name, page,
    rows_of_character,
};
use tonearm_format::ArrayLevel;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// Least memory of a store.
const MEMORY_MIN: u64 = 4 << 20;

/// What the columns of [`LOAD_HEADS`] are.
const LEGEND: &str = "full: share of the segments with live blocks. log: it has a drive of its own. reads, writes (durable \
     ones and flushes): the median and the time that 99 % do not exceed. cost: bytes written at home for each byte written. \
     MB: all that the drives moved. --report and --json have more.";

/// Longest line on a terminal.
const LINE_CHARS: usize = 100;

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let begun = cpu_seconds();
    let setup = setup(arguments)?;
    // Finds out whether the report can be written before a long run.
    if let Some(folder) = &arguments.report {
        let what = || format!("cannot make the folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
    }
    let source = Source {
        path: arguments.trace.clone(),
        format: match arguments.format {
            Some(format) => format.0,
            None => guess_format(&arguments.trace)?,
        },
        device: arguments.device,
        requests: arguments.requests,
        seconds: arguments.span.map(|span| span.as_secs_f64()),
    };
    let load = Load::read(&source)?;
    let bar = Mutex::new(Progress::new("studying the trace", Unit::Count));
    let study = setup.run(load, move |done, total| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.at(done, total);
    })?;
    if let Some(folder) = &arguments.report {
        write(folder, &study)?;
    }
    if arguments.json {
        report::json(&study)?;
    } else {
        show(&study)?;
        if let Some(folder) = &arguments.report {
            let page = folder.join("index.html");
            report::line(format_args!("report: {}", page.display()))?;
        }
        let requests: u64 = study.cases.iter().map(|case| case.measured.requests).sum();
        let took = cpu_seconds() - begun;
        report::line(format_args!(
            "{} requests measured in {} cases; {took:.0} s of the processor, {:.1} s for 100,000 of them",
            report::count(requests),
            study.cases.len(),
            took * 1e5 / requests as f64
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn setup(arguments: &Arguments) -> anyhow::Result<Setup> {
    let array = match arguments.redundancy {
        Redundancy::None => None,
        Redundancy::Raid0 => Some(ArrayLevel::Raid0),
        Redundancy::Raid5 => Some(ArrayLevel::Raid5),
    };
    if let Some(level) = array
        && usize::from(arguments.disks) < level.members_min()
    {
        bail!(
            "--redundancy {} takes {} drives or more; give --disks",
            level.name(),
            level.members_min()
        );
    }
    if arguments.memory < MEMORY_MIN {
        bail!(
            "--memory {} is too little; the least is {}",
            size::text(arguments.memory),
            size::text(MEMORY_MIN)
        );
    }
    let drive = DriveFile::find(&arguments.drive)?;
    let log_drive = match &arguments.log_drive {
        Some(name) => DriveFile::find(name)?,
        None => drive.clone(),
    };
    let mut utilisations = arguments.utilisation.clone();
    utilisations.sort_unstable();
    utilisations.dedup();
    Ok(Setup {
        drive,
        disks: arguments.disks.into(),
        array,
        log_drive,
        utilisations,
        requests: arguments.requests,
        clients: arguments.clients,
        memory_bytes: arguments.memory,
        seed: arguments.seed,
    })
}

/// Prints the study as text.
fn show(study: &Study) -> std::io::Result<()> {
    let mut drives = format!("{} x {}", study.disks, study.drive);
    if study.redundancy != "none" {
        drives = format!("{drives}, {}", study.redundancy);
    }
    let about = [
        ("trace", study.trace.trace.clone()),
        (
            "drives",
            format!("{drives}; log drive: {}", study.log_drive),
        ),
    ];
    let mut pairs = report::pairs(about.into_iter().chain(rows_of_character(study)));
    report::keep_within(&mut pairs, LINE_CHARS);
    report::line(pairs)?;
    for load in LOADS {
        let mut table = report::table(&LOAD_HEADS);
        for case in study.cases.iter().filter(|case| case.load == load) {
            table.add_row(case.cells_of_load());
        }
        report::align_right(&mut table, 1..LOAD_HEADS.len());
        report::keep_within(&mut table, LINE_CHARS);
        report::line(format_args!("\nAt {}:\n{table}", load_name(load)))?;
    }
    report::line(wrapped("", LEGEND))?;
    listed(&study.notes)?;
    let summary = Summary::of(study);
    let heads: Vec<&str> = summary.heads.iter().map(String::as_str).collect();
    let mut table = report::table(&heads);
    for row in summary.rows {
        table.add_row(row);
    }
    report::align_right(&mut table, 1..heads.len());
    report::keep_within(&mut table, LINE_CHARS);
    report::line(format_args!("\n{}:\n{table}\n", summary.title))?;
    report::line(wrapped("", &study.recommendation.sentence))?;
    report::line(wrapped("", &study.recommendation.log_drive))?;
    listed(&study.warnings)?;
    report::line(format_args!("\n  {}\n", study.create))
}

fn listed(texts: &[String]) -> std::io::Result<()> {
    texts
        .iter()
        .try_for_each(|text| report::line(wrapped("  - ", text)))
}

/// `text` after `head`, in lines that an ordinary terminal shows whole.
fn wrapped(head: &str, text: &str) -> String {
    let mut lines = String::from(head);
    let mut length = head.len();
    for (index, word) in text.split(' ').enumerate() {
        let more = word.chars().count() + usize::from(index > 0);
        if index > 0 && length + more > LINE_CHARS {
            lines += &format!("\n{:1$}{word}", "", head.len());
            length = head.len() + more - 1;
        } else {
            lines += [" ", ""][usize::from(index == 0)];
            lines += word;
            length += more;
        }
    }
    lines
}

/// Writes `index.html` and each plot.
fn write(folder: &Path, study: &Study) -> anyhow::Result<()> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for figure in &study.figures {
        let svg = tonearm_experiments::svg::figure(&figure.title, &figure.panels);
        put(&format!("{}.svg", figure.name), svg)?;
    }
    put("index.html", page(study, &command()))
}

/// The command line of this process.
fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = std::iter::once(OsString::from("tonearm-lab")).chain(words);
    let words = words.map(|word| report::shell_word(Path::new(&word)));
    words.collect::<Vec<_>>().join(" ")
}
