//! Opens a store as the command line asks, with bars for its recovery.

use crate::cli::{AckMode, Members, WriteCacheMode};
use crate::control::ArrayInfo;
use anyhow::Context;
use std::path::{Path, PathBuf};
use tonearm_disk::{Ack, Disk, OpenOptions};
use tonearm_store::{Executor, StoreError};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_trail::WriteCache;

impl From<&Members> for tonearm_store::Members {
    fn from(members: &Members) -> Self {
        Self {
            moved: members.members.clone(),
            direct: !members.no_direct,
            degraded: members.degraded,
        }
    }
}

/// Opens the store at `path` for use.
///
/// # Errors
/// When its members cannot be opened, or recovery fails.
pub fn open_disk(
    executor: &Executor,
    path: &Path,
    places: &Members,
    options: OpenOptions,
) -> Result<Disk, StoreError> {
    let written = !options.read_only;
    let mut recovery = Recovery::default();
    let progress = move |progress| recovery.at(progress);
    let disk = tonearm_store::open_disk(executor, path, &places.into(), options, progress)?;
    for slot in disk.recovery().unreadable {
        report::note(format_args!("{slot}; the other copies count"));
    }
    let array = disk.engine().array();
    for warning in array
        .iter()
        .flat_map(|array| ArrayInfo::of(array).warnings(&path.display().to_string(), written))
    {
        report::note(warning);
    }
    Ok(disk)
}

/// Options of an opening, from the arguments of the command line.
pub fn open_options(memory_bytes: u64, ack: AckMode, write_cache: WriteCacheMode) -> OpenOptions {
    OpenOptions {
        memory_bytes,
        ack: match ack {
            AckMode::Flush => Ack::Flush,
            AckMode::Write => Ack::Write,
        },
        write_cache: match write_cache {
            WriteCacheMode::Volatile => WriteCache::Volatile,
            WriteCacheMode::Ordered => WriteCache::Ordered,
        },
        ..OpenOptions::default()
    }
}

/// How the store at `store` records the path of its member at `path`.
///
/// # Errors
/// When the path is not UTF-8.
pub fn recorded_path(store: &Path, path: &Path) -> anyhow::Result<String> {
    let absolute = |path: &Path| -> anyhow::Result<(PathBuf, PathBuf)> {
        let absolute = std::path::absolute(path)?;
        let folder = real(tonearm_store::folder_of(&absolute));
        Ok((folder, absolute))
    };
    let (folder, (own, whole)) = (store_folder(store)?, absolute(path)?);
    let name = whole
        .file_name()
        .with_context(|| format!("{} has no file name", path.display()))?;
    recorded(&folder, &own.join(name))
}

/// The real folder of the store at `store`, which may not exist yet.
///
/// # Errors
/// When there is no present folder.
pub fn store_folder(store: &Path) -> anyhow::Result<PathBuf> {
    let absolute = std::path::absolute(store)?;
    Ok(real(&tonearm_store::store_folder(&absolute)))
}

/// How a store in `folder` records the full path `whole`. A store may move as a folder; what lies elsewhere is found by its
/// full path.
///
/// # Errors
/// When the path is not UTF-8.
pub fn recorded(folder: &Path, whole: &Path) -> anyhow::Result<String> {
    let recorded = whole.strip_prefix(folder).unwrap_or(whole).to_str();
    let recorded = recorded
        .with_context(|| format!("{}: the path is not UTF-8; choose another", whole.display()))?;
    Ok(recorded.to_string())
}

/// `folder` without symbolic links, if it exists.
pub fn real(folder: &Path) -> PathBuf {
    folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf())
}

/// Bars of a recovery.
#[derive(Default)]
struct Recovery {
    replay: Option<Progress>,
    write_back: Option<(Progress, u64)>,
}

impl Recovery {
    fn at(&mut self, progress: tonearm_disk::Progress) {
        match progress {
            tonearm_disk::Progress::Replay { done, total } => self
                .replay
                .get_or_insert_with(|| Progress::new("reading the log", Unit::Count))
                .at(done, total),
            tonearm_disk::Progress::WriteBack { left } => {
                self.replay = None;
                let new = || (Progress::new("writing home", Unit::Count), left);
                let (bar, most) = self.write_back.get_or_insert_with(new);
                *most = left.max(*most);
                bar.at(*most - left, *most);
            }
        }
    }
}
