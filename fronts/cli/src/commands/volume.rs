//! `tonearm volume`: through the control socket when the store is served, else in process.

mod format;
mod image;

use crate::cli::{AckMode, Volume, VolumeAction, VolumeStore, WriteCacheMode};
use crate::control::{Answer, Client, Counted, Request, Volumes, change_volumes, check_change};
use crate::opening;
use anyhow::bail;
use std::process::ExitCode;
use tonearm_store::Executor;
use tonearm_terminal::{report, size};

/// Carries out the action and shows the volumes after it.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Volume) -> anyhow::Result<ExitCode> {
    let (place, request, done) = match arguments.action {
        VolumeAction::List { store } => (store, Request::VolumeList, None),
        VolumeAction::Create { store, name, size } => {
            let done = format!("made volume {name} of {}", size::text(size));
            (
                store,
                Request::VolumeCreate {
                    name,
                    size_bytes: size,
                },
                Some(done),
            )
        }
        VolumeAction::Delete { store, name, force } => {
            let done = format!("deleted volume {name}");
            (store, Request::VolumeDelete { name, force }, Some(done))
        }
        VolumeAction::Resize {
            store,
            name,
            size,
            shrink,
            force,
        } => {
            let done = format!("volume {name} has {} now", size::text(size));
            (
                store,
                Request::VolumeResize {
                    name,
                    size_bytes: size,
                    shrink,
                    force,
                },
                Some(done),
            )
        }
        VolumeAction::Put(arguments) => return image::put(&arguments),
        VolumeAction::Get(arguments) => return image::get(&arguments),
        VolumeAction::Set {
            store,
            name,
            read_only,
            ..
        } => {
            let done = format!("volume {name} is {} now", mode(read_only));
            (store, Request::VolumeSet { name, read_only }, Some(done))
        }
    };
    let volumes = ask(&place, request)?;
    if place.store.json {
        report::json(&volumes)?;
        return Ok(ExitCode::SUCCESS);
    }
    match done {
        Some(done) => report::line(format_args!(
            "{done}; {} free",
            size::text(volumes.free_bytes)
        ))?,
        None => show(&volumes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Has `request` carried out, by the server if there is one. Returns the volumes after it.
///
/// # Errors
/// When it cannot be done.
pub fn ask(place: &VolumeStore, request: Request) -> anyhow::Result<Volumes> {
    match Client::find(&place.store.path, place.control.as_deref())? {
        Some(mut client) => match client.ask(request, |_, _| {})? {
            Answer::Volumes(volumes) => Ok(volumes),
            _ => bail!("the server gave another answer than was asked for"),
        },
        None => offline(place, request),
    }
}

fn show(volumes: &Volumes) -> anyhow::Result<()> {
    report::line(table(&volumes.volumes))?;
    let used = volumes.used_bytes.map_or(String::new(), |bytes| {
        format!(
            "; used below the store, with its log: {}",
            size::text(bytes)
        )
    });
    Ok(report::line(format_args!(
        "free: {}{used}",
        size::text(volumes.free_bytes)
    ))?)
}

/// A table of volumes, with what of them holds data where that was counted.
pub fn table(volumes: &[crate::control::VolumeInfo]) -> tonearm_terminal::Table {
    let is_counted = volumes
        .iter()
        .any(|volume| volume.space.used_bytes.is_some());
    let mut heads = vec!["volume", "size", "mode", "made", "uuid"];
    if is_counted {
        heads.insert(2, "used");
    }
    let mut table = report::table(&heads);
    for volume in volumes {
        let mut row = vec![
            volume.name.clone(),
            size::text(volume.size_bytes),
            mode(volume.read_only).to_string(),
            report::date(volume.created_unix_s),
            volume.uuid.clone(),
        ];
        if is_counted {
            let used = volume.space.used_bytes.map_or(String::new(), size::text);
            row.insert(2, used);
        }
        table.add_row(row);
    }
    report::align_right(&mut table, 1..if is_counted { 3 } else { 2 });
    table
}

fn mode(read_only: bool) -> &'static str {
    if read_only { "read-only" } else { "read-write" }
}

fn offline(place: &VolumeStore, request: Request) -> anyhow::Result<Volumes> {
    if request == Request::VolumeList {
        // A listing must not change anything: no recovery, no new epoch.
        let info = super::info::look(&place.store.path, &place.store.members, Counted::No)?;
        return Ok(Volumes {
            volumes: info.volumes,
            free_bytes: info.free_bytes,
            used_bytes: info.used_bytes,
        });
    }
    let executor = Executor::new()?;
    let options = opening::open_options(256 << 20, AckMode::Flush, WriteCacheMode::Volatile);
    let disk = opening::open_disk(&executor, &place.store.path, &place.store.members, options)?;
    let (changing, own) = (disk.clone(), executor.clone());
    let (changed, volumes) = executor.rt.block_on(async move {
        let changed = match check_change(&changing, &request, &[]).await {
            Ok(()) => change_volumes(&changing, &request).await,
            refused => refused,
        };
        (changed, Volumes::of(&changing, &own))
    });
    executor.rt.block_on(async move { disk.close().await })?;
    changed?;
    // The members are released, so that the store can be opened again at once.
    executor.rt.shut_down();
    Ok(volumes)
}
