//! `tonearm create`: has a store planned and made as the command line asks, and describes it.

mod log_head;
mod segment_size;

use crate::cli::{Create, LayoutMode, RedundancyMode};
use crate::control::{carries_text, head_text, room_text};
use anyhow::bail;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::process::ExitCode;
use tonearm_disk::{HomeParams, Placement};
use tonearm_format::ArrayLevel;
use tonearm_store::{CreateOptions, CreateStep, CreatedFiles, Executor, StoreError, recorded_path};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};
use tonearm_uring::{Medium, MemberError};

/// Makes the store.
///
/// # Errors
/// When it cannot be made; files made so far are removed.
pub fn run(arguments: Create) -> anyhow::Result<ExitCode> {
    // What is printed names it in text that can be copied.
    recorded_path(&arguments.path, &arguments.path)?;
    let create = tonearm_store::Create::new(&arguments.path, options(&arguments)?)?;
    remove_when_interrupted(create.files())?;
    let executor = Executor::new()?;
    let mut bar = None;
    let progress = move |step, done, total| show(&mut bar, step, done, total);
    let media = create.make(&executor, progress);
    let media = media.map_err(|error| advise(error, &arguments, &create))?;
    for (member, medium) in create.members().iter().zip(media) {
        if let Some(warning) = warning(&member.path, medium) {
            report::note(warning);
        }
    }
    report_made(&arguments, &create)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows how far a step is, on a bar of its own.
fn show(bar: &mut Option<(CreateStep, Progress)>, step: CreateStep, done: u64, total: u64) {
    let (what, unit) = match step {
        CreateStep::Allocate(_) => ("allocating", Unit::Bytes),
        CreateStep::ClearMembers => ("clearing", Unit::Count),
        CreateStep::Clear => ("clearing", Unit::Bytes),
    };
    if bar.as_ref().is_none_or(|(shown, _)| *shown != step) {
        // The earlier bar goes first.
        bar.take();
    }
    let (_, bar) = bar.get_or_insert_with(|| (step, Progress::new(what, unit)));
    bar.at(done, total);
}

fn options(arguments: &Create) -> anyhow::Result<CreateOptions> {
    let Ok(block_size) = u32::try_from(arguments.block_size) else {
        bail!(
            "a block size of {} bytes is not possible; 4096 is a good one",
            arguments.block_size
        );
    };
    let level = match arguments.redundancy {
        RedundancyMode::None => None,
        RedundancyMode::Raid0 => Some(ArrayLevel::Raid0),
        RedundancyMode::Raid5 => Some(ArrayLevel::Raid5),
    };
    Ok(CreateOptions {
        size_bytes: arguments.size,
        log_bytes: arguments.log_size,
        block_size,
        home: home_params(arguments)?,
        log: arguments.log.clone(),
        head: log_head::params(arguments)?,
        data: arguments.data.clone(),
        array: level.map(|level| (level, arguments.stripe)),
        main_volume: !arguments.no_volume,
        preallocate: arguments.preallocate,
        force: arguments.force,
        restored: None,
    })
}

/// The placement of a layout with segments.
pub fn placement(layout: LayoutMode) -> Option<Placement> {
    match layout {
        LayoutMode::Overwrite => None,
        LayoutMode::Segments => Some(Placement::Append),
        LayoutMode::Wolf => Some(Placement::Wolf),
        LayoutMode::Hylog => Some(Placement::Hylog),
    }
}

fn home_params(arguments: &Create) -> anyhow::Result<HomeParams> {
    let Some(placement) = placement(arguments.layout) else {
        return Ok(HomeParams::Overwrite);
    };
    Ok(HomeParams::Segments {
        segment_bytes: segment_size::bytes(arguments)?,
        spare_percent: arguments.spare,
        placement,
    })
}

/// What the user must know of the place of a new file.
pub fn warning(path: &Path, medium: Medium) -> Option<String> {
    let path = path.display();
    match medium {
        Medium::Plain | Medium::Devices => None,
        Medium::Memory => Some(format!(
            "{path} lies in memory (tmpfs): the next start of the machine loses it, whatever was durable"
        )),
        Medium::CopyOnWrite(name) => Some(format!(
            "{path}: {name} writes each overwrite to a new place (copy-on-write), so a full file system stops the log, \
             too; keep some space free there"
        )),
    }
}

/// Names a size that would work where the file system refuses the given one.
fn advise(error: StoreError, arguments: &Create, create: &tonearm_store::Create) -> anyhow::Error {
    let StoreError::Member(MemberError::TooLarge { path, size_bytes }) = &error else {
        return error.into();
    };
    let Some((largest, size_max)) = create.size_limit(&path.0) else {
        return error.into();
    };
    let files = size_bytes / largest + 1;
    let more = (2..=files).map(|number| format!("--data {}.{number}", arguments.path.display()));
    anyhow::anyhow!(
        "{path}: {} is too large for one file: this file system takes files of less than {}; use --size {} or less, or more \
         files: {}",
        size::text(*size_bytes),
        size::text(largest + 4096),
        size::argument(size_max),
        more.collect::<Vec<_>>().join(" "),
    )
}

/// Removes what was made when the user interrupts the command.
fn remove_when_interrupted(made: CreatedFiles) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                made.remove();
                report::note("interrupted; nothing was made");
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}

#[derive(Serialize)]
struct Report {
    store: String,
    path: String,
    size_bytes: u64,
    block_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment_bytes: Option<u32>,
    log_bytes: u64,
    head: String,
    members: Vec<Member>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<&'static str>,
    volumes: Vec<Volume>,
}

#[derive(Serialize)]
struct Member {
    path: String,
    carries: &'static str,
    bytes: u64,
}

#[derive(Serialize)]
struct Volume {
    name: &'static str,
    size_bytes: u64,
}

fn report_made(arguments: &Create, create: &tonearm_store::Create) -> anyhow::Result<()> {
    let superblock = create.superblock();
    let members = create.members().iter().map(|member| Member {
        path: member.path.display().to_string(),
        carries: carries_text(member.space.roles),
        bytes: member.bytes,
    });
    let report = Report {
        store: report::uuid(superblock.store),
        path: arguments.path.display().to_string(),
        size_bytes: arguments.size,
        block_size: superblock.block_size,
        segment_bytes: superblock.segments().map(|layout| layout.segment_bytes),
        log_bytes: superblock.log_size_bytes(),
        head: head_text(superblock),
        members: members.collect(),
        redundancy: superblock.array.map(ArrayLevel::name),
        volumes: if arguments.no_volume {
            Vec::new()
        } else {
            vec![Volume {
                name: "main",
                size_bytes: arguments.size,
            }]
        },
    };
    if arguments.json {
        return report::json(&report);
    }
    let volume = if arguments.no_volume {
        "none yet"
    } else {
        "main, with all the space: none is left for files"
    };
    let mut rows = vec![
        ("store", report.store.clone()),
        ("size", size::text(report.size_bytes)),
        ("block size", size::text(report.block_size.into())),
        ("log", size::text(report.log_bytes)),
        ("head", report.head.clone()),
        ("volume", volume.to_string()),
    ];
    if let Some(bytes) = report.segment_bytes {
        rows.push(("segment size", size::text(bytes.into())));
    }
    if let Some(level) = report.redundancy {
        let (count, unit) = (report.members.len() - 1, size::text(arguments.stripe));
        let text = format!("{level} over {count} members, stripe units of {unit}");
        rows.push(("redundancy", text));
    }
    for (member, planned) in report.members.iter().zip(create.members()) {
        let bytes = size::text(member.bytes);
        let space = match (planned.space.available_bytes, arguments.preallocate) {
            (Some(_), _) => "a block device",
            (None, true) => "all allocated",
            (None, false) => "allocated as it is written",
        };
        rows.push((
            "member",
            format!("{}: {}, {bytes}, {space}", member.path, member.carries),
        ));
    }
    report::line(report::pairs(rows))?;
    let path = report::shell_word(&arguments.path);
    report::line(format_args!("next: tonearm serve {path}"))?;
    if !arguments.no_volume {
        let mut data = create.members().iter();
        let last = data.rfind(|member| member.space.roles.data);
        let is_file = last.is_some_and(|member| member.space.available_bytes.is_none());
        let can_grow = is_file && superblock.array.is_none() && superblock.segments().is_none();
        report::line(format_args!(
            "for a mount, SQLite or other files, make room first: {}",
            room_text(&path, "main", arguments.size, can_grow)
        ))?;
    }
    Ok(())
}
