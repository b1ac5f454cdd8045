//! `tonearm relayout`: another layout for a store, where it is or in a new store.

use super::create::placement;
use crate::cli::{AckMode, LayoutMode, Members, Relayout, StoreArgs, WriteCacheMode};
use crate::control::layout_text;
use crate::opening;
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use tonearm_disk::{Disk, OpenOptions};
use tonearm_format::SYSTEM_BLOCKS;
use tonearm_store::{Executor, new_uuid, now_unix_s};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// Memory of a store that is opened for this.
const MEMORY_BYTES: u64 = 128 << 20;

/// A store with another layout where it is, in JSON.
#[derive(Serialize)]
struct InPlace<'a> {
    store: &'a Path,
    layout: &'static str,
}

/// A copy, in JSON.
#[derive(Serialize)]
struct Copied<'a> {
    store: &'a Path,
    new: &'a Path,
    layout: &'static str,
    copied_bytes: u64,
    /// Bytes that an earlier copy, which was interrupted, had copied already.
    present_bytes: u64,
}

/// Gives the store another layout.
///
/// # Errors
/// When a store cannot be opened, or the layout is not possible.
pub fn run(arguments: &Relayout) -> anyhow::Result<ExitCode> {
    match (arguments.layout, &arguments.to) {
        (Some(layout), _) => in_place(&arguments.store, layout)?,
        (None, Some(new)) => copy(&arguments.store, new)?,
        (None, None) => bail!("name --layout or --to"),
    }
    Ok(ExitCode::SUCCESS)
}

fn options() -> OpenOptions {
    opening::open_options(MEMORY_BYTES, AckMode::Flush, WriteCacheMode::Volatile)
}

fn layout_of(disk: &Disk) -> &'static str {
    layout_text(disk.engine().superblock().layout)
}

fn in_place(store: &StoreArgs, layout: LayoutMode) -> anyhow::Result<()> {
    let path = &store.path;
    let Some(placement) = placement(layout) else {
        bail!(
            "a store becomes one of the layout overwrite only in a new store: `tonearm relayout {} --to NEW`",
            report::shell_word(path)
        );
    };
    let executor = Executor::new()?;
    let placed = OpenOptions {
        placement: Some(placement),
        ..options()
    };
    let disk = opening::open_disk(&executor, path, &store.members, placed)?;
    let layout = layout_of(&disk);
    executor.rt.block_on(async move { disk.close().await })?;
    if store.json {
        return report::json(&InPlace {
            store: path,
            layout,
        });
    }
    Ok(report::line(format_args!(
        "{} has the layout {layout} from now on",
        path.display()
    ))?)
}

fn copy(store: &StoreArgs, new: &Path) -> anyhow::Result<()> {
    let executor = Executor::new()?;
    let source = opening::open_disk(&executor, &store.path, &store.members, options())?;
    if new.symlink_metadata().is_err() {
        bail!("{}", advice(&source, new));
    }
    let members = Members {
        no_direct: store.members.no_direct,
        ..Members::default()
    };
    let target = opening::open_disk(&executor, new, &members, options())
        .with_context(|| format!("{} cannot take a copy", new.display()))?;
    let block = target.engine().block_size() as u64;
    let (from, layout) = (layout_of(&source), layout_of(&target));
    let mut bar = Progress::new("copying", Unit::Bytes);
    let progress = move |done: u64, all: u64| bar.at(done * block, all * block);
    let copied = executor.rt.block_on(async move {
        let copied = source
            .copy_to(&target, new_uuid(), now_unix_s(), progress)
            .await;
        let closed = (target.close().await, source.close().await);
        let copied = copied?;
        closed.0?;
        closed.1?;
        anyhow::Ok(copied)
    })?;
    let done = Copied {
        store: &store.path,
        new,
        layout,
        copied_bytes: copied.blocks * block,
        present_bytes: copied.same * block,
    };
    if store.json {
        return report::json(&done);
    }
    let present = match done.present_bytes {
        0 => String::new(),
        bytes => format!(", {} were there already", size::text(bytes)),
    };
    report::line(format_args!(
        "copied {}{present}: {} ({from}) -> {} ({layout})",
        size::text(done.copied_bytes),
        store.path.display(),
        new.display()
    ))?;
    Ok(report::line(format_args!(
        "next: tonearm serve {}",
        report::shell_word(new)
    ))?)
}

/// The command that makes the new store.
fn advice(source: &Disk, new: &Path) -> String {
    let superblock = source.engine().superblock();
    let block = u64::from(superblock.block_size);
    let bytes = (superblock.size_blocks - SYSTEM_BLOCKS) * block;
    let blocks = match block {
        4096 => String::new(),
        other => format!(" --block-size {other}"),
    };
    let name = report::shell_word(new);
    format!(
        "{name} does not exist; make it first, with the layout that it is to have: tonearm create {name} --size {}{blocks} --no-volume --layout hylog",
        size::argument(bytes),
    )
}
