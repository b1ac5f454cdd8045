//! Opens the files of a store by its path, whether this process, a server or no process has the store open.

use super::remote::RemoteFiles;
use crate::error::StoreError;
use crate::files::{Files, FilesError, FilesErrorKind};
use crate::per_process::PerProcess;
use crate::place::socket_of;
use crate::store::{Store, StoreOptions, WeakStore};
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tonearm_uring::MemberError;

/// How long a store may be in use before that is an error. A server locks the store before it listens, and this process
/// may be about to close it.
const PATIENCE: Duration = Duration::from_millis(300);
const PATIENCE_WITH_OURSELVES: Duration = Duration::from_secs(60);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The identity of the store that a path leads to, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// Device and inode of the primary member. A file system gives the inode of a file that was removed to a new one:
    /// the time of its creation, where it is known, distinguishes them.
    File(u64, u64, Option<SystemTime>),
    /// The number of a block device, which may have several names.
    Device(u64),
}

/// The stores that this process has used through [`open_files`].
#[derive(Default)]
struct Known {
    opened: Vec<Opened>,
    /// Stores that this process has reached through a server.
    served: BTreeSet<Identity>,
}

/// A store that this process has opened here.
struct Opened {
    identity: Identity,
    /// [`Files::in_process`] of its sessions.
    number: usize,
    store: WeakStore,
}

static KNOWN: PerProcess<Known> = PerProcess::new();

/// Where the server of the store at `path` takes sessions with its files.
pub fn files_socket(path: &Path) -> PathBuf {
    socket_of(path, "files")
}

/// Begins a session with the files of the store at `path`: through its server when it is served, otherwise with the
/// store itself. The store is opened with `options`, unless this process has it open through this function already, and
/// is closed with its last session.
///
/// A server that has gone away is expected to come back, and a process that opens the store meanwhile would prevent
/// that. So a process that a server has served never opens that store itself. If a server was killed and has left its
/// socket, any process waits before it opens the store. Both wait for [`StoreOptions::server_wait`].
///
/// # Errors
/// `Busy` when another process has the store open for itself; `Away` when the server has not come back; others as for
/// `Store::open`.
pub fn open_files(path: &Path, options: StoreOptions) -> Result<Arc<dyn Files>, FilesError> {
    let identity = identity_of(path)?;
    let (socket, wait) = (files_socket(path), options.server_wait);
    let mut patience = PATIENCE;
    let started = Instant::now();
    loop {
        // The lock is not held between the tries, because other threads want other stores.
        let mut known = KNOWN.lock();
        let here = known
            .opened
            .iter()
            .position(|known| known.identity == identity);
        if let Some(here) = here {
            if let Some(store) = known.opened[here].store.upgrade()
                && let Ok(files) = store.files()
            {
                return Ok(Arc::new(files));
            }
            known.opened.swap_remove(here);
            patience = PATIENCE_WITH_OURSELVES;
        }
        match RemoteFiles::connect(&socket) {
            Ok(files) => {
                known.served.insert(identity);
                return Ok(Arc::new(files));
            }
            Err(error) if error.kind == FilesErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let waited = started.elapsed();
        let was_served = known.served.contains(&identity) && !wait.is_zero();
        let is_expected = was_served || socket.symlink_metadata().is_ok();
        if !is_expected || (waited >= wait && !was_served) {
            match Store::open(path, options.clone()) {
                Ok(store) => {
                    let files = store.files()?;
                    known.opened.push(Opened {
                        identity,
                        number: store.number(),
                        store: store.downgrade(),
                    });
                    return Ok(Arc::new(files));
                }
                Err(StoreError::Member(MemberError::InUse { holder, .. })) => {
                    if waited > patience {
                        return Err(in_use(path, holder));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        } else if waited >= wait {
            return Err(away(path, wait));
        }
        drop(known);
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// The store of `files`, if [`open_files`] has opened it in this process.
pub fn store_of(files: &dyn Files) -> Option<Store> {
    let number = files.in_process()?;
    let known = KNOWN.lock();
    let mut here = known.opened.iter().filter(|one| one.number == number);
    here.find_map(|one| one.store.upgrade())
}

fn identity_of(path: &Path) -> Result<Identity, FilesError> {
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
    Ok(if found.file_type().is_block_device() {
        Identity::Device(found.rdev())
    } else {
        Identity::File(found.dev(), found.ino(), found.created().ok())
    })
}

fn away(path: &Path, wait: Duration) -> FilesError {
    let path = path.display();
    let text = format!(
        "the server of {path} has gone away and has not come back for {} s; start it again: `tonearm serve {path}` (a \
         process that it has served does not open the store itself, unless it is told to wait for 0 s)",
        wait.as_secs_f64()
    );
    FilesError::new(FilesErrorKind::Away, text)
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
