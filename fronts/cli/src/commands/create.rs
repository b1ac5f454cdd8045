//! `tonearm create`: plans a store, makes its members, and writes it. A store that cannot be completed is removed.

mod log_head;

use crate::cli::{Create, LayoutMode, RedundancyMode};
use crate::control::{carries_text, head_text, room_text};
use crate::opening::{real, recorded, store_folder};
use anyhow::{Context, bail};
use rustix::fs::{FileType, Mode, OFlags};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonearm_disk::{
    CreateParams, CreatePlan, HomeParams, MemberSpace, NewMember, Placement, plan_create,
};
use tonearm_engine::{ArrayParams, ArrayPlan, create_array, plan_array};
use tonearm_format::{ArrayLevel, HEADER_AREA_BYTES, Roles};
use tonearm_store::{Executor, new_uuid, now_unix_s};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};
use tonearm_uring::{Medium, MemberError, MemberKind, MemberOptions, open_member};

/// Makes the store.
///
/// # Errors
/// When it cannot be made; files made so far are removed.
pub fn run(arguments: Create) -> anyhow::Result<ExitCode> {
    let wanted = wanted(&arguments)?;
    let spaces: Vec<MemberSpace> = wanted.iter().map(|member| member.space.clone()).collect();
    let mut params = params(&arguments)?;
    params.head = log_head::params(&arguments)?;
    let Planned { plan, array, sizes } = planned(&arguments, &params, &spaces)?;
    let made = Made::default();
    made.remove_when_interrupted()?;
    let executor = Executor::new()?;
    let (mut members, mut warnings) = (Vec::new(), Vec::new());
    for (index, (member, bytes)) in wanted.iter().zip(&sizes).enumerate() {
        let written = match (arguments.preallocate, &array) {
            (true, _) => 0..*bytes,
            (false, None) => plan.superblock.log_range(index),
            // A full disk must stop neither the log nor the parity records behind it.
            (false, Some(_)) if index == 0 => HEADER_AREA_BYTES..*bytes,
            (false, Some(_)) => 0..0,
        };
        let opened = make(member, *bytes, written, &arguments, &made);
        let opened = opened.map_err(|error| advise(error, &arguments, &params, &spaces))?;
        warnings.extend(warning(&member.path, opened.medium));
        let blank = opened.kind == MemberKind::File;
        members.push(NewMember {
            device: tonearm_store::device_of(&executor, opened).device,
            blank,
            log_written: blank,
        });
    }
    if let Some(array) = array {
        members = make_array(&executor, array, members)?;
    }
    let main_bytes = (!arguments.no_volume).then_some(params.size_bytes);
    write(&executor, &plan, members, main_bytes)?;
    made.keep();
    warnings.iter().for_each(report::note);
    report_made(&arguments, &plan, &wanted, &sizes)?;
    Ok(ExitCode::SUCCESS)
}

/// The plan of a store, and what each of its files or devices needs.
struct Planned {
    plan: CreatePlan,
    array: Option<ArrayPlan>,
    sizes: Vec<u64>,
}

fn planned(
    arguments: &Create,
    params: &CreateParams,
    spaces: &[MemberSpace],
) -> anyhow::Result<Planned> {
    let level = match arguments.redundancy {
        RedundancyMode::None => {
            let plan = plan_create(params, spaces)?;
            return Ok(Planned {
                sizes: plan.member_bytes.clone(),
                plan,
                array: None,
            });
        }
        RedundancyMode::Raid0 => ArrayLevel::Raid0,
        RedundancyMode::Raid5 => ArrayLevel::Raid5,
    };
    if !arguments.log.is_empty() {
        bail!(
            "--redundancy {}: PATH itself has the log, and the --data members have the blocks; leave --log out",
            level.name()
        );
    }
    let array = ArrayParams {
        level,
        stripe_bytes: arguments.stripe,
        uuid: new_uuid(),
    };
    let (plan, array) = plan_array(params, &array, &spaces[0], &spaces[1..])?;
    let mut sizes = vec![array.member_bytes; spaces.len()];
    sizes[0] = array.primary_bytes;
    Ok(Planned {
        plan,
        array: Some(array),
        sizes,
    })
}

/// Makes the array of all members but the first one. The two members of the store: that one, and the array.
fn make_array(
    executor: &Executor,
    array: ArrayPlan,
    mut members: Vec<NewMember>,
) -> anyhow::Result<Vec<NewMember>> {
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let mut bar = Progress::new("clearing", Unit::Count);
    let progress = move |done, total| bar.at(done, total);
    let primary = members.remove(0);
    let made = executor.rt.block_on(async move {
        create_array(&rt, &pool, &array, primary, &members, progress).await
    });
    Ok(made?)
}

/// A member that is to be made.
struct Wanted {
    path: PathBuf,
    space: MemberSpace,
}

/// The roles of the members: PATH has blocks, and the log too unless --log names another place.
fn wanted(arguments: &Create) -> anyhow::Result<Vec<Wanted>> {
    let log_inside = arguments.log.is_empty();
    let with_array = arguments.redundancy != RedundancyMode::None;
    let data = Roles {
        log: false,
        data: true,
    };
    let log = Roles {
        log: true,
        data: false,
    };
    let mut members = vec![(
        &arguments.path,
        Roles {
            log: log_inside,
            data: !with_array,
        },
    )];
    members.extend(arguments.log.iter().map(|path| (path, log)));
    members.extend(arguments.data.iter().map(|path| (path, data)));
    let folder = store_folder(&arguments.path)?;
    let mut seen = Vec::new();
    let mut wanted = Vec::new();
    for (index, (path, roles)) in members.into_iter().enumerate() {
        let absolute = std::path::absolute(path)?;
        let name = absolute
            .file_name()
            .with_context(|| format!("{} has no file name", path.display()))?;
        let whole = real(tonearm_store::folder_of(&absolute)).join(name);
        if seen.contains(&whole) {
            bail!(
                "{} is named twice; each member needs a file or device of its own",
                path.display()
            );
        }
        let recorded = recorded(&folder, &whole)?;
        let space = MemberSpace {
            roles,
            available_bytes: device_bytes(path)?,
            uuid: new_uuid(),
            path: if index == 0 { String::new() } else { recorded },
        };
        seen.push(whole);
        wanted.push(Wanted {
            path: path.clone(),
            space,
        });
    }
    Ok(wanted)
}

/// Size of a block device; `None` for anything else.
fn device_bytes(path: &Path) -> anyhow::Result<Option<u64>> {
    match rustix::fs::stat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice => {
            let size = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|fd| rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0)));
            Ok(Some(size.with_context(|| {
                format!("cannot find the size of {}", path.display())
            })?))
        }
        _ => Ok(None),
    }
}

fn params(arguments: &Create) -> anyhow::Result<CreateParams> {
    let Ok(block_size) = u32::try_from(arguments.block_size) else {
        bail!(
            "a block size of {} bytes is not possible; 4096 is a good one",
            arguments.block_size
        );
    };
    Ok(CreateParams {
        size_bytes: arguments.size,
        log_bytes: arguments.log_size,
        track_bytes: None,
        head: None,
        home: home_params(arguments)?,
        block_size,
        store: new_uuid(),
        created_unix_s: now_unix_s(),
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
    let Ok(segment_bytes) = u32::try_from(arguments.segment_size) else {
        bail!(
            "a segment of {} bytes is not possible; 1MiB is a good one",
            arguments.segment_size
        );
    };
    Ok(HomeParams::Segments {
        segment_bytes,
        spare_percent: arguments.spare,
        placement,
    })
}

fn make(
    member: &Wanted,
    size_bytes: u64,
    written: Range<u64>,
    arguments: &Create,
    made: &Made,
) -> Result<tonearm_uring::Member, MemberError> {
    let mut bar = Progress::new("allocating", Unit::Bytes);
    let mut progress = |done, total| bar.at(done, total);
    let is_file = member.space.available_bytes.is_none();
    let new = is_file && member.path.symlink_metadata().is_err();
    if new {
        // Noted before the file is made, because an interruption may come at any time.
        made.note(&member.path);
    }
    let create = tonearm_uring::Create {
        size_bytes,
        written,
        force: arguments.force,
        progress: Some(&mut progress),
    };
    let options = MemberOptions {
        create: Some(create),
        ..MemberOptions::default()
    };
    let opened = open_member(&member.path, options);
    match &opened {
        // A file that could not be opened is not this command's, or was removed already.
        Err(_) => made.forget(&member.path),
        Ok(_) if is_file && !new => made.note(&member.path),
        Ok(_) => {}
    }
    opened
}

fn write(
    executor: &Executor,
    plan: &CreatePlan,
    members: Vec<NewMember>,
    main_bytes: Option<u64>,
) -> anyhow::Result<()> {
    let (rt, pool, plan) = (executor.rt.clone(), executor.pool.clone(), plan.clone());
    let main_uuid = new_uuid();
    let mut bar = Progress::new("clearing", Unit::Bytes);
    let progress = move |done, total| bar.at(done, total);
    let making = async move {
        match main_bytes {
            Some(bytes) => {
                tonearm_disk::create(&rt, &pool, &plan, members, bytes, main_uuid, progress)
                    .await?;
            }
            None => tonearm_engine::create(&rt, &pool, &plan, &members, progress).await?,
        }
        anyhow::Ok(())
    };
    executor.rt.block_on(making)
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
fn advise(
    error: MemberError,
    arguments: &Create,
    params: &CreateParams,
    spaces: &[MemberSpace],
) -> anyhow::Error {
    let MemberError::TooLarge { path, size_bytes } = &error else {
        return error.into();
    };
    if arguments.redundancy != RedundancyMode::None {
        return error.into();
    }
    let advice = largest_file(tonearm_store::folder_of(&path.0)).and_then(|largest| {
        let fits = |size_bytes: u64| {
            plan_create(
                &CreateParams {
                    size_bytes,
                    ..params.clone()
                },
                spaces,
            )
            .is_ok_and(|plan| plan.member_bytes.iter().all(|bytes| *bytes <= largest))
        };
        let gib = largest_true(params.size_bytes >> 30, |gib| fits(gib << 30))?;
        let files = size_bytes / largest + 1;
        let more =
            (2..=files).map(|number| format!("--data {}.{number}", arguments.path.display()));
        Some(format!(
            "this file system takes files of less than {}; use --size {} or less, or more files: {}",
            size::text(largest + 4096),
            size::argument(gib << 30),
            more.collect::<Vec<_>>().join(" "),
        ))
    });
    match advice {
        Some(advice) => anyhow::anyhow!(
            "{path}: {} is too large for one file: {advice}",
            size::text(*size_bytes)
        ),
        None => error.into(),
    }
}

/// Largest file that the file system of `folder` takes, found by trying with a file without a name.
fn largest_file(folder: &Path) -> Option<u64> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let blocks = largest_true(i64::MAX as u64 >> 12, |blocks| {
        rustix::fs::ftruncate(&fd, blocks << 12).is_ok()
    })?;
    Some(blocks << 12)
}

/// Largest number from 1 to `most` for which `holds`, if it holds for all smaller ones.
fn largest_true(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    (good > 0).then_some(good)
}

/// Files made so far; they are removed unless all goes well.
#[derive(Default)]
struct Made(Arc<Mutex<Vec<PathBuf>>>);

impl Made {
    fn note(&self, path: &Path) {
        lock(&self.0).push(path.to_path_buf());
    }

    fn forget(&self, path: &Path) {
        lock(&self.0).retain(|made| made != path);
    }

    fn keep(&self) {
        lock(&self.0).clear();
    }

    fn remove_when_interrupted(&self) -> anyhow::Result<()> {
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let made = self.0.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    remove(&made);
                    report::note("interrupted; nothing was made");
                    std::process::exit(128 + signal);
                }
            })?;
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn lock(paths: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    paths.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(paths: &Mutex<Vec<PathBuf>>) {
    for path in lock(paths).drain(..) {
        // The file may not exist yet.
        let _ = std::fs::remove_file(path);
    }
}

#[derive(Serialize)]
struct Report {
    store: String,
    path: String,
    size_bytes: u64,
    block_size: u32,
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

fn report_made(
    arguments: &Create,
    plan: &CreatePlan,
    wanted: &[Wanted],
    sizes: &[u64],
) -> anyhow::Result<()> {
    let superblock = &plan.superblock;
    let members = wanted.iter().zip(sizes).map(|(member, bytes)| Member {
        path: member.path.display().to_string(),
        carries: carries_text(member.space.roles),
        bytes: *bytes,
    });
    let report = Report {
        store: report::uuid(superblock.store),
        path: arguments.path.display().to_string(),
        size_bytes: arguments.size,
        block_size: superblock.block_size,
        log_bytes: superblock.log_size_bytes(),
        head: head_text(superblock),
        members: members.collect(),
        redundancy: superblock.array.map(ArrayLevel::name),
        volumes: match arguments.no_volume {
            true => Vec::new(),
            false => vec![Volume {
                name: "main",
                size_bytes: arguments.size,
            }],
        },
    };
    if arguments.json {
        return report::json(&report);
    }
    let volume = match arguments.no_volume {
        true => "none yet",
        false => "main, with all the space: none is left for files",
    };
    let mut rows = vec![
        ("store", report.store.clone()),
        ("size", size::text(report.size_bytes)),
        ("block size", size::text(report.block_size.into())),
        ("log", size::text(report.log_bytes)),
        ("head", report.head.clone()),
        ("volume", volume.to_string()),
    ];
    if let Some(level) = report.redundancy {
        let (count, unit) = (report.members.len() - 1, size::text(arguments.stripe));
        let text = format!("{level} over {count} members, stripe units of {unit}");
        rows.push(("redundancy", text));
    }
    for (member, wanted) in report.members.iter().zip(wanted) {
        let bytes = size::text(member.bytes);
        let space = match (wanted.space.available_bytes, arguments.preallocate) {
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
        report::line(format_args!(
            "for a mount, SQLite or other files, make room first: {}",
            room_text(&path, "main", arguments.size)
        ))?;
    }
    Ok(())
}
