//! The files that a creation has made so far.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that are removed unless all goes well; clones are handles of the same list. A program that is interrupted removes
/// them, too.
#[derive(Clone, Default)]
pub struct CreatedFiles(Arc<Mutex<Vec<PathBuf>>>);

impl CreatedFiles {
    /// Removes them.
    pub fn remove(&self) {
        for path in self.lock().drain(..) {
            // The file may not exist yet.
            let _ = std::fs::remove_file(path);
        }
    }

    pub(super) fn note(&self, path: &Path) {
        self.lock().push(path.to_path_buf());
    }

    pub(super) fn forget(&self, path: &Path) {
        self.lock().retain(|made| made != path);
    }

    pub(super) fn keep(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
