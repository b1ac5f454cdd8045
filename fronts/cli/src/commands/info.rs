//! `tonearm info`: asks the server when there is one, otherwise inspects the store without changing it.

use crate::cli::{Info as Arguments, Members};
use crate::control::{
    Answer, ArrayInfo, Client, Counted, HotBlocks, Info, LogInfo, MemberInfo, Request, SpaceInfo,
    VolumeInfo, head_text, layout_text, used_bytes,
};
use anyhow::bail;
use std::path::Path;
use std::process::ExitCode;
use tonearm_device::Redundancy;
use tonearm_disk::{Usage, VolumeKind};
use tonearm_engine::{EngineError, Inspection, LogReport};
use tonearm_format::VolumeEntry;
use tonearm_store::Access;
use tonearm_store::Executor;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// Shows what the store is.
///
/// # Errors
/// When it is no store, or cannot be looked at.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let info = match Client::find(&arguments.path, arguments.control.as_deref())? {
        Some(mut client) => {
            let (used, mut bar) = (arguments.used, counting());
            match client.ask(Request::Info { used }, |done, total| bar.at(done, total))? {
                Answer::Info(info) => *info,
                _ => bail!("the server gave another answer than was asked for"),
            }
        }
        None => look(&arguments.path, &arguments.members, counted(arguments.used))?,
    };
    if arguments.json {
        report::json(&info)?;
    } else {
        show(&info)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(used: bool) -> Counted {
    if used { Counted::Yes } else { Counted::No }
}

fn counting() -> Progress {
    Progress::new("counting blocks", Unit::Count)
}

/// Looks at a store that is not served, and counts what holds data if `counted` says so.
///
/// # Errors
/// When it is no store, or its members do not belong together.
pub fn look(path: &Path, places: &Members, counted: Counted) -> anyhow::Result<Info> {
    let executor = Executor::new()?;
    let pid = tonearm_store::holder(path);
    let opened = tonearm_store::open_members(&executor, path, &places.into(), Access::Peek)?;
    let unreadable = opened.superblocks.iter();
    let unreadable = unreadable.flat_map(|found| found.unreadable_slots.clone());
    let unreadable: Vec<_> = unreadable.collect();
    let array = opened.array.and_then(|array| array.status());
    let array = array.as_ref().map(ArrayInfo::of);
    let used_bytes = used_bytes(&executor, array.as_ref());
    let members = opened.devices;
    let paths: Vec<String> = members.iter().map(|member| member.path.clone()).collect();
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let mut bar = Progress::new("reading the log", Unit::Count);
    executor.rt.block_on(async move {
        let look =
            Inspection::start(&rt, &pool, members, |done, total| bar.at(done, total)).await?;
        let (entries, mut problems) = look.volumes().await;
        let (superblock, log) = (look.superblock(), look.log());
        problems.extend(unreadable.iter().map(ToString::to_string));
        problems.extend(
            log.damage
                .as_ref()
                .map(|damage| format!("the log: {damage}")),
        );
        if let Some(pid) = pid {
            problems.push(format!(
                "process {pid} is using the store; what is told may be half old"
            ));
        }
        let block = u64::from(superblock.block_size);
        let size_bytes = (superblock.size_blocks - tonearm_format::SYSTEM_BLOCKS) * block;
        let (usage, counted) = match counted {
            Counted::Yes if log.damage.is_some() => {
                problems.push("what holds data is not counted, because the log is damaged".into());
                (Usage::reserved(&entries, block), Counted::No)
            }
            Counted::Yes => (count(&look, &entries, block).await?, counted),
            Counted::No => (Usage::reserved(&entries, block), counted),
        };
        let members = MemberInfo::all(superblock, &paths);
        let mut info = Info {
            used_bytes,
            store: report::uuid(superblock.store),
            format_version: tonearm_format::FORMAT_VERSION,
            layout: layout_text(superblock.layout).to_string(),
            state: if log.clean { "clean" } else { "crashed" }.to_string(),
            pid,
            size_bytes,
            free_bytes: size_bytes.saturating_sub(usage.total().reserved_bytes),
            files: SpaceInfo::default(),
            units: SpaceInfo::default(),
            counted: None,
            block_size: superblock.block_size,
            created_unix_s: superblock.created_unix_s,
            epoch: superblock.epoch,
            members,
            log: log_info(superblock, log),
            volumes: entries
                .iter()
                .filter(|entry| entry.kind == VolumeKind::Plain)
                .map(VolumeInfo::of_entry)
                .collect(),
            array,
            hot: None,
            problems,
        };
        info.set_space(&usage, counted);
        Ok(info)
    })
}

/// Counts what will hold data after the next opening.
async fn count(
    look: &Inspection,
    entries: &[VolumeEntry],
    block_bytes: u64,
) -> Result<Usage, EngineError> {
    let mut bar = counting();
    let progress = |done, total| {
        bar.at(done, total);
        true
    };
    let status = async |first, count| look.status(first, count).await;
    let usage = Usage::count(entries, block_bytes, status, progress).await?;
    Ok(usage.expect("nothing ends the count"))
}

fn log_info(superblock: &tonearm_format::Superblock, log: &LogReport) -> LogInfo {
    let state = match (&log.damage, log.clean) {
        (Some(_), _) => "damaged; see `tonearm check`".to_string(),
        (None, true) => "empty: everything is at home".to_string(),
        (None, false) => format!("to be recovered by the next opening; {}", log.end),
    };
    LogInfo {
        size_bytes: superblock.log_size_bytes(),
        track_bytes: superblock.track_bytes,
        head: head_text(superblock),
        used_bytes: None,
        commits: Some(log.commits),
        blocks: Some(log.blocks),
        state,
    }
}

fn show(info: &Info) -> anyhow::Result<()> {
    let state = match (info.state.as_str(), info.pid) {
        ("served", Some(pid)) => format!("served by process {pid}"),
        ("clean", _) => "clean (shut down in order)".to_string(),
        ("crashed", None) => "not shut down in order; the next opening recovers it".to_string(),
        ("crashed", Some(pid)) => format!("in use by process {pid}"),
        (other, _) => other.to_string(),
    };
    let mut log = format!("{}, {}", size::text(info.log.size_bytes), info.log.state);
    for (number, what) in [(info.log.commits, "commits"), (info.log.blocks, "blocks")] {
        if let Some(number) = number.filter(|number| *number > 0) {
            log.push_str(&format!(", {} {what} to write home", report::count(number)));
        }
    }
    let mut rows = vec![
        ("store", info.store.clone()),
        ("state", state),
        (
            "format",
            format!(
                "version {}, opened {} times",
                info.format_version, info.epoch
            ),
        ),
        ("made", report::date(info.created_unix_s)),
        ("size", size_text(info)),
        (
            "used below",
            match info.used_bytes {
                Some(bytes) => format!("{}, with the log", size::text(bytes)),
                None => "all of its devices".to_string(),
            },
        ),
        ("layout", info.layout.clone()),
        ("block size", size::text(info.block_size.into())),
        ("log", log),
        ("head", info.log.head.clone()),
    ];
    if let Some(text) = used_text(info) {
        rows.insert(5, ("used", text));
    }
    rows.extend(info.hot.iter().flat_map(HotBlocks::rows));
    for member in &info.members {
        let mut text = format!("{}: {}", member.path, member.carries);
        if member.data_bytes > 0 {
            text.push_str(&format!(", {} for blocks", size::text(member.data_bytes)));
        }
        rows.push(("member", text));
    }
    if let Some(array) = &info.array {
        rows.push(("redundancy", array_text(array)));
        for member in &array.members {
            rows.push(("", super::member::member_text(member)));
        }
    }
    report::line(report::pairs(rows))?;
    report::line(super::volume::table(&info.volumes))?;
    for warning in info
        .array
        .iter()
        .flat_map(|array| array.warnings(&info.members[0].path, info.state == "served"))
    {
        report::note(warning);
    }
    for problem in &info.problems {
        report::note(problem);
    }
    Ok(())
}

/// The parts of the store's space. They add up to its size.
fn size_text(info: &Info) -> String {
    let volumes = info.volumes.iter();
    let volumes = volumes.map(|volume| volume.space.reserved_bytes).sum();
    let mut parts = vec![format!("{} for volumes", size::text(volumes))];
    for (space, what) in [(info.files, "files"), (info.units, "open units")] {
        if space.reserved_bytes > 0 {
            parts.push(format!("{} for {what}", size::text(space.reserved_bytes)));
        }
    }
    let (all, free) = (size::text(info.size_bytes), size::text(info.free_bytes));
    format!("{all}: {}, {free} free", parts.join(", "))
}

/// What holds data, if it was counted.
fn used_text(info: &Info) -> Option<String> {
    let counted = info.counted?;
    let mut text = size::text(counted.data_bytes);
    let used = |space: SpaceInfo| space.used_bytes.unwrap_or(0);
    let volumes = info.volumes.iter().map(|volume| used(volume.space)).sum();
    let parts = [
        (volumes, "volumes"),
        (used(info.files), "files"),
        (used(info.units), "open units"),
    ];
    let parts = parts.iter().filter(|(bytes, _)| *bytes > 0);
    let parts: Vec<_> = parts
        .map(|(bytes, what)| format!("{} in {what}", size::text(*bytes)))
        .collect();
    if !parts.is_empty() {
        text.push_str(&format!(": {}", parts.join(", ")));
    }
    if counted.commits_meanwhile > 0 {
        let commits = report::count(counted.commits_meanwhile);
        text.push_str(&format!("; not exact: {commits} commits during the count"));
    }
    Some(text)
}

fn array_text(array: &ArrayInfo) -> String {
    let state = match (&array.lost, array.degraded) {
        (Some(_), _) => "LOST",
        (None, true) => "DEGRADED",
        (None, false) => "all members in use",
    };
    let unit = size::text(array.stripe_bytes);
    format!(
        "{} over {} members, stripe units of {unit}: {state}",
        array.level,
        array.members.len()
    )
}
