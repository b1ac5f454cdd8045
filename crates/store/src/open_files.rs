//! From a path to its files, whoever has the store open.

use crate::error::StoreError;
use crate::files::{Files, FilesError, FilesErrorKind};
use crate::members::beside;
use crate::per_process::PerProcess;
use crate::remote::RemoteFiles;
use crate::store::{Store, StoreOptions, WeakStore};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uring::MemberError;

/// How long a store may be in use before that is an error: a server locks it before it listens, and a store of
/// this process may just be closing.
const PATIENCE: Duration = Duration::from_millis(300);
const PATIENCE_WITH_OURSELVES: Duration = Duration::from_secs(60);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// A store that this process has opened here.
struct Opened {
    /// Device and inode of its primary member, or its number if it is a block device.
    identity: (u64, u64),
    store: WeakStore,
}

static OPENED: PerProcess<Vec<Opened>> = PerProcess::new();

/// Where the server of the store at `path` takes sessions with its files.
pub fn files_socket(path: &Path) -> PathBuf {
    beside(path, "files")
}

/// Begins a session with the files of the store at `path`: through its server when it is served, else with the store
/// itself, which is opened with `options`, unless this process has it open through this function already. The store is
/// closed with its last session.
///
/// # Errors
/// `Busy` when another process has the store open for itself; others as for `Store::open`.
pub fn open_files(path: &Path, options: StoreOptions) -> Result<Arc<dyn Files>, FilesError> {
    let found = std::fs::metadata(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FilesErrorKind::NotFound,
            _ => FilesErrorKind::Failed,
        };
        let why = match kind {
            FilesErrorKind::NotFound => "does not exist".to_string(),
            _ => format!("cannot be looked at: {error}"),
        };
        FilesError::new(kind, format!("{} {why}; check the path", path.display()))
    })?;
    // Of a block device there may be several files.
    let identity = match found.file_type().is_block_device() {
        true => (u64::MAX, found.rdev()),
        false => (found.dev(), found.ino()),
    };
    let mut opened = OPENED.lock();
    let here = opened.iter().position(|known| known.identity == identity);
    if let Some(here) = here {
        if let Some(store) = opened[here].store.upgrade()
            && let Ok(files) = store.files()
        {
            return Ok(Arc::new(files));
        }
        opened.swap_remove(here);
    }
    let patience = match here {
        Some(_) => PATIENCE_WITH_OURSELVES,
        None => PATIENCE,
    };
    let started = Instant::now();
    loop {
        match RemoteFiles::connect(&files_socket(path)) {
            Ok(files) => return Ok(Arc::new(files)),
            Err(error) if error.kind == FilesErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        match Store::open(path, options.clone()) {
            Ok(store) => {
                let files = store.files()?;
                opened.push(Opened {
                    identity,
                    store: store.downgrade(),
                });
                return Ok(Arc::new(files));
            }
            Err(StoreError::Member(MemberError::InUse { holder, .. })) => {
                if started.elapsed() > patience {
                    return Err(in_use(path, holder));
                }
            }
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

fn in_use(path: &Path, holder: Option<u32>) -> FilesError {
    let holder = match holder {
        Some(process) => format!("process {process}"),
        None => "another process".to_string(),
    };
    let path = path.display();
    let text = format!(
        "{path} is in use by {holder}, which has it open for itself; end that, or let several processes share the \
         store: `tonearm serve {path}`"
    );
    FilesError::new(FilesErrorKind::Busy, text)
}
