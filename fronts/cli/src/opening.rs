//! Opens a store as the command line asks, with bars for its recovery.

use crate::cli::{AckMode, Members, WriteCacheMode};
use crate::control::ArrayInfo;
use std::path::Path;
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
