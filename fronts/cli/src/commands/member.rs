//! `tonearm member`: the members of a store's array. All of it goes through the control socket when the store is served,
//! else it is done in process. A rebuild in process opens the store, so that recovery comes first.

use super::create::warning;
use crate::cli::{AckMode, Member, MemberAction, VolumeStore, WriteCacheMode};
use crate::control::{Answer, ArrayInfo, ArrayMemberInfo, Client, Request};
use crate::opening;
use crate::vacancy::{Vacancy, no_array};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;
use tonearm_device::Redundancy;
use tonearm_device::raid::RebuildRate;
use tonearm_store::{Access, Executor, new_uuid};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_uring::Medium;

/// Memory of a store that is opened for a rebuild.
const MEMORY_BYTES: u64 = 64 << 20;

/// Carries out the action.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Member) -> anyhow::Result<ExitCode> {
    match arguments.action {
        MemberAction::List { store } => list(&store)?,
        MemberAction::Replace { store, new, force } => replace(&store, &new, force)?,
        MemberAction::Rebuild {
            store,
            rate,
            skip_unreadable,
        } => rebuild(&store, rate.unwrap_or(0), skip_unreadable)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A member in a line.
pub fn member_text(member: &ArrayMemberInfo) -> String {
    let state = match member.state.as_str() {
        "rebuilding" => format!("rebuilding, {} % done", member.rebuilt_percent),
        other => other.to_string(),
    };
    match &member.trouble {
        Some(why) => format!("{}: {state}: {why}", member.path),
        None => format!("{}: {state}", member.path),
    }
}

fn list(place: &VolumeStore) -> anyhow::Result<()> {
    let (array, served) = found(place)?;
    if place.store.json {
        return report::json(&array);
    }
    let mut table = report::table(&["member", "state", "path", "why"]);
    for (index, member) in array.members.iter().enumerate() {
        let state = match member.state.as_str() {
            "rebuilding" => format!("rebuilding {} %", member.rebuilt_percent),
            other => other.to_string(),
        };
        let why = member.trouble.as_deref().unwrap_or("");
        table.add_row([&index.to_string(), &state, &member.path, why]);
    }
    report::line(table)?;
    for warning in array.warnings(&place.store.path.display().to_string(), served) {
        report::note(warning);
    }
    Ok(())
}

/// The array as the server sees it, or as a look at the store finds it. The flag says whether a server was asked.
fn found(place: &VolumeStore) -> anyhow::Result<(ArrayInfo, bool)> {
    let path = &place.store.path;
    let (array, served) = match Client::find(path, place.control.as_deref())? {
        Some(mut client) => match client.ask(Request::Info { used: false }, |_, _| {})? {
            Answer::Info(info) => (info.array, true),
            _ => bail!("the server gave another answer than was asked for"),
        },
        None => {
            let executor = Executor::new()?;
            let places = (&place.store.members).into();
            let opened = tonearm_store::open_members(&executor, path, &places, Access::Peek)?;
            let status = opened.array.and_then(|array| array.status());
            (status.as_ref().map(ArrayInfo::of), false)
        }
    };
    Ok((array.with_context(|| no_array(path))?, served))
}

fn replace(place: &VolumeStore, new: &Path, force: bool) -> anyhow::Result<()> {
    let path = &place.store.path;
    let (index, old) = match Client::find(path, place.control.as_deref())? {
        Some(mut client) => {
            let whole = std::path::absolute(new)?;
            let text = whole.to_str();
            let text = text.with_context(|| {
                format!("{}: the path is not UTF-8; choose another", new.display())
            })?;
            let request = Request::MemberReplace {
                path: text.to_string(),
                force,
            };
            match client.ask(request, |_, _| {})? {
                Answer::MemberReplaced { index, old } => (index, old),
                _ => bail!("the server gave another answer than was asked for"),
            }
        }
        None => replace_closed(place, new, force)?,
    };
    if let Some(warning) = warning(new, Medium::of_made(new)) {
        report::note(warning);
    }
    report::line(format_args!(
        "{} takes the place of member {index}, {old}",
        new.display()
    ))?;
    let store = report::shell_word(path);
    Ok(report::line(format_args!(
        "next: tonearm member rebuild {store}"
    ))?)
}

/// Index and old path of the member that was replaced in a store that is not served.
fn replace_closed(place: &VolumeStore, new: &Path, force: bool) -> anyhow::Result<(usize, String)> {
    let path = &place.store.path;
    let executor = Executor::new()?;
    let places = (&place.store.members).into();
    let opened = tonearm_store::open_members(&executor, path, &places, Access::Write)?;
    let array = opened.array.with_context(|| no_array(path))?;
    let status = array.status().context("an array has members")?;
    let vacancy = Vacancy::of(&status, path, new)?;
    let direct = !place.store.members.no_direct;
    let device = tonearm_store::device_of(&executor, vacancy.open(new, force, direct)?);
    let recorded = vacancy.recorded.clone();
    let replacing = async move { array.replace(device.device, recorded, new_uuid()).await };
    let replaced = executor.rt.block_on(replacing);
    replaced.inspect_err(|_| vacancy.undo(new))?;
    Ok((vacancy.index, vacancy.old))
}

fn rebuild(place: &VolumeStore, rate: u64, skip_unreadable: bool) -> anyhow::Result<()> {
    let path = &place.store.path;
    let mut bar = Progress::new("rebuilding", Unit::Count);
    match Client::find(path, place.control.as_deref())? {
        Some(mut client) => {
            let request = Request::MemberRebuild {
                bytes_per_second: rate,
                skip_unreadable,
            };
            match client.ask(request, |done, total| bar.at(done, total))? {
                Answer::MemberRebuilt => {}
                _ => bail!("the server gave another answer than was asked for"),
            }
        }
        None => {
            let executor = Executor::new()?;
            let options =
                opening::open_options(MEMORY_BYTES, AckMode::Flush, WriteCacheMode::Volatile);
            let disk = opening::open_disk(&executor, path, &place.store.members, options)?;
            if disk.engine().array().is_none() {
                bail!(no_array(path));
            }
            executor.rt.block_on(async move {
                let progress = Box::new(move |done, total| bar.at(done, total));
                let mut rate = RebuildRate::new(rate);
                if skip_unreadable {
                    rate = rate.skip_unreadable();
                }
                let rebuilt = disk.engine().rebuild_array(rate, progress).await;
                // What is restored is kept in any case.
                let closed = disk.close().await;
                rebuilt?;
                anyhow::Ok(closed?)
            })?;
        }
    }
    Ok(report::line("all members of the array are in use")?)
}
