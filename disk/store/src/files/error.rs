//! Why an operation on files failed.

use serde::{Deserialize, Serialize};
use tonearm_disk::{DiskError, ErrorKind};
use tonearm_engine::EngineError;

/// The kind of an error, from which a front end makes its own code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FilesErrorKind {
    /// No such file, or it was deleted.
    NotFound,
    /// There is a file or volume of that name.
    Exists,
    /// The store, or the file system below it, is full.
    NoSpace,
    /// The store was opened for reading, or refuses writes since a failure.
    ReadOnly,
    /// Data failed its checksum.
    Damaged,
    /// Others have changed something that the unit depends on.
    Conflict,
    /// Another process has the store open.
    Busy,
    /// The server of the store has gone away, and did not come back in time. The caller may try again.
    Away,
    /// Any other error: a device failed, the server is gone, a request is invalid.
    Failed,
}

/// An error with its text, which says what, where and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct FilesError {
    /// The kind.
    pub kind: FilesErrorKind,
    /// The text.
    pub text: String,
}

impl FilesError {
    /// An error of `kind`.
    pub fn new(kind: FilesErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}

impl From<DiskError> for FilesError {
    fn from(error: DiskError) -> Self {
        let kind = match error.kind() {
            // The log has no room for it, not the store.
            _ if matches!(error, DiskError::Engine(EngineError::CommitTooLarge { .. })) => {
                FilesErrorKind::NoSpace
            }
            ErrorKind::NotFound | ErrorKind::Deleted => FilesErrorKind::NotFound,
            ErrorKind::Exists => FilesErrorKind::Exists,
            ErrorKind::NoSpace => FilesErrorKind::NoSpace,
            ErrorKind::ReadOnly => FilesErrorKind::ReadOnly,
            ErrorKind::Damaged => FilesErrorKind::Damaged,
            ErrorKind::Conflict => FilesErrorKind::Conflict,
            ErrorKind::OutOfRange | ErrorKind::Failed | ErrorKind::Invalid => {
                FilesErrorKind::Failed
            }
        };
        Self::new(kind, error.to_string())
    }
}
