//! A session's cache of sizes, last short reads and names. At the start of each transaction SQLite asks for a
//! database's size, its change counter and whether there is a write-ahead log. Each entry has the count of the commits
//! that change it. So a session answers from the cache, without the engine, until a commit changes the entry.

use super::FileId;
use super::session::Opened;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tonearm_disk::Changes;

/// Longest read that is kept.
const READ_MAX: usize = 128;
/// Most names that are kept.
const NAMES_MAX: usize = 64;

/// The open files of a session, and names that it has looked for.
pub(super) struct Seen {
    files: Mutex<BTreeMap<FileId, File>>,
    names: Changes,
    known: Mutex<Names>,
}

struct File {
    serial: u64,
    changes: Changes,
    view: View,
}

/// The state of a file when so many commits had changed it.
#[derive(Clone, Default)]
pub(super) struct View {
    pub count: u64,
    pub size: Option<u64>,
    /// The last short read: offset, length, and content.
    pub read: Option<(u64, usize, Vec<u8>)>,
}

/// Which names exist, when so many commits had changed any name.
#[derive(Default)]
struct Names {
    count: u64,
    exist: BTreeMap<String, bool>,
}

impl Seen {
    /// An empty cache; `names` counts changes of the names.
    pub fn new(names: Changes) -> Self {
        Self {
            files: Mutex::default(),
            names,
            known: Mutex::default(),
        }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<FileId, File>> {
        // A panic leaves nothing half done here.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Names> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a file that has been opened.
    pub fn open(&self, opened: Opened) {
        let Opened {
            file,
            serial,
            changes,
        } = opened;
        let view = View::default();
        self.files().insert(
            file,
            File {
                serial,
                changes,
                view,
            },
        );
    }

    /// Removes a file that has been closed.
    pub fn close(&self, file: FileId) {
        self.files().remove(&file);
    }

    /// The serial number of an open file.
    pub fn serial(&self, file: FileId) -> Option<u64> {
        Some(self.files().get(&file)?.serial)
    }

    /// The size of a file, if it is known.
    pub fn size(&self, file: FileId) -> Option<u64> {
        let files = self.files();
        let file = files.get(&file)?;
        file.is_current().then_some(file.view.size)?
    }

    /// Reads from the cache. Returns the number of bytes, or `None` when the cache does not have them.
    pub fn read(&self, file: FileId, offset: u64, buf: &mut [u8]) -> Option<usize> {
        let files = self.files();
        let file = files.get(&file)?;
        let (at, len, bytes) = file.view.read.as_ref()?;
        if (*at, *len) != (offset, buf.len()) || !file.is_current() {
            return None;
        }
        buf[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len())
    }

    /// Offset and length of the last short read of a file.
    pub fn last_read(&self, file: FileId) -> Option<(u64, usize)> {
        let files = self.files();
        let (at, len, _) = files.get(&file)?.view.read.as_ref()?;
        Some((*at, *len))
    }

    /// Adds what was found of a file. What was found before at the same count stays.
    pub fn found(&self, file: FileId, found: View) {
        let mut files = self.files();
        let Some(File { view, .. }) = files.get_mut(&file) else {
            return;
        };
        let found_read = found.read.filter(|(_, len, _)| *len <= READ_MAX);
        if found.count != view.count {
            // The range of the last short read stays, because the same range is read again.
            let (count, size) = (found.count, found.size);
            *view = View {
                count,
                size,
                read: found_read,
            };
            return;
        }
        view.size = found.size.or(view.size);
        if found_read.is_some() {
            view.read = found_read;
        }
    }

    /// Whether there is a file of this name, if it is known.
    pub fn exists(&self, name: &str) -> Option<bool> {
        let known = self.known();
        let exists = *known.exist.get(name)?;
        (known.count == self.names.count()).then_some(exists)
    }

    /// Adds whether a name exists, as found after `count` changes of names.
    pub fn found_name(&self, count: u64, name: String, exists: bool) {
        let mut known = self.known();
        if known.count != count || known.exist.len() >= NAMES_MAX {
            *known = Names {
                count,
                exist: BTreeMap::new(),
            };
        }
        known.exist.insert(name, exists);
    }
}

impl File {
    fn is_current(&self) -> bool {
        self.view.count == self.changes.count()
    }
}
