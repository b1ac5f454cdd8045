//! What is said about archives.

use serde::{Deserialize, Serialize};

/// How to archive.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ArchiveStart {
    /// The address.
    pub url: String,
    /// Longest time for which commits wait, in milliseconds.
    pub interval_ms: u64,
    /// For how long old states are kept, in milliseconds; 0 for ever.
    #[serde(default)]
    pub keep_ms: u64,
    /// For how long the state of every commit is kept, in milliseconds; 0 for ever.
    #[serde(default)]
    pub keep_every_commit_ms: u64,
    /// Most bytes of a base in a second; 0 for no limit.
    #[serde(default)]
    pub base_bytes_per_second: u64,
    /// Public keys for which it is encrypted; none when it is not.
    #[serde(default)]
    pub recipients: Vec<String>,
}
