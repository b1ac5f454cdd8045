//! A change of the tree that an operation refuses: the tree ends with `Refused`, and the reason is kept beside it.

use crate::error::FsError;
use crate::meta::Stop;
use tonearm_disk::{DiskError, TreeStop};

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
