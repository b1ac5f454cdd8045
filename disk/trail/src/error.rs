//! Errors of the log.

use tonearm_rt::IoError;

/// An error of the log. Each message names the place and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrailError {
    /// The log device failed.
    #[error("log {device}: {what} at byte {offset} failed: {error}")]
    Device {
        /// Name of the device.
        device: String,
        /// The operation.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// The cause.
        error: IoError,
    },
    /// A record that was durable is missing: the log is damaged, not just cut off by a crash.
    #[error(
        "log {device}: record {seq} (near byte {offset}) is damaged or missing, but {proof}; \
         opening would lose acknowledged writes. Restore the member from a backup, or run \
         `tonearm check --repair` to keep everything before this record and give up the rest"
    )]
    Damaged {
        /// Name of the device.
        device: String,
        /// Number of the missing record.
        seq: u64,
        /// Byte offset where it was expected.
        offset: u64,
        /// Evidence that it was durable.
        proof: String,
    },
    /// The store has failed elsewhere.
    #[error("the store is read-only since a failure: {0}")]
    GivenUp(String),
}
