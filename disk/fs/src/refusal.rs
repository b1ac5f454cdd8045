//! A change of the tree that an operation refuses: the tree ends with `Refused`, and the reason is kept beside it.

use crate::error::FsError;
use crate::tree::{TreeError, Wait};
use tonearm_disk::{DiskError, TreeStop};

/// Why an operation has stopped.
pub(crate) enum Stop {
    /// It waits for a page, or for space for pages.
    Tree(TreeStop),
    /// What was looked up before is no longer so: the operation begins again.
    Again,
    /// It is not possible.
    Error(FsError),
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        Self::Error(error)
    }
}

impl From<TreeError> for Stop {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Wait(Wait::Missing(page)) => Self::Tree(TreeStop::Missing(page)),
            TreeError::Wait(Wait::Full) => Self::Tree(TreeStop::Full),
            TreeError::Damaged(text) => Self::Error(FsError::Damaged(text)),
            TreeError::TooLarge => Self::Error(FsError::Invalid("an item is too large")),
        }
    }
}

/// Keeps the reason of a refusal in `failed`.
pub(crate) fn record_refusal<T>(
    result: Result<T, Stop>,
    failed: &mut Option<FsError>,
) -> Result<T, TreeStop> {
    *failed = None;
    result.map_err(|stop| match stop {
        Stop::Tree(stop) => stop,
        Stop::Again => TreeStop::Refused,
        Stop::Error(error) => {
            *failed = Some(error);
            TreeStop::Refused
        }
    })
}

/// The reason of a refusal in place of the refusal.
pub(crate) fn refusal_or<T>(
    result: Result<T, DiskError>,
    failed: Option<FsError>,
) -> Result<T, FsError> {
    match (result, failed) {
        (Err(DiskError::Refused), Some(error)) => Err(error),
        (result, _) => Ok(result?),
    }
}
