//! How the log is opened, and what it counts.

use super::cause::FlushCounts;
use crate::pack::RecordPlace;
use tonearm_base::Nanos;
use tonearm_format::LogState;
use tonearm_head::Head;

/// What is known of the cache of the log's devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCache {
    /// A power cut may lose and reorder unflushed writes. The log flushes where a rule needs it.
    Volatile,
    /// The administrator vouches that the storage keeps every completed write, in order. The log never flushes
    /// (Durable WAL 3, battery-backed caches).
    Ordered,
}

/// Options of the log.
#[derive(Clone, Copy, Debug)]
pub struct TrailOptions {
    /// Cache of the log's devices.
    pub write_cache: WriteCache,
    /// Most device writes under way at once.
    pub writes_in_flight_max: usize,
    /// Queued bytes from which another device write starts in addition to those under way.
    pub pipeline_bytes: u64,
    /// Used share of a track, in percent, from which the next write goes to the next track (Trail 3.1).
    pub threshold_percent: u64,
    /// How long commits for which no caller waits may stay in memory, so that one device write takes many.
    pub commit_delay: Nanos,
    /// Bytes of blocks from which a commit is large: when several are queued and no caller waits, their blocks are written outside
    /// the log ([`IndirectSink`](crate::IndirectSink)).
    pub large_commit_bytes: u64,
    /// For so long after a caller has waited for a commit, no blocks are written outside the log.
    pub large_commit_quiet: Nanos,
    /// A commit is durable this long after it was made, also when no caller waits for it. `None` sets no bound.
    pub delay_max: Option<Nanos>,
}

impl Default for TrailOptions {
    fn default() -> Self {
        Self {
            write_cache: WriteCache::Volatile,
            writes_in_flight_max: 4,
            pipeline_bytes: 256 << 10,
            threshold_percent: 30,
            commit_delay: Nanos(0),
            large_commit_bytes: 64 << 10,
            large_commit_quiet: Nanos::from_secs(1),
            delay_max: None,
        }
    }
}

/// Where the log continues.
#[derive(Default)]
pub struct TrailStart {
    /// Number of this opening of the store.
    pub epoch: u64,
    /// Positions as in the superblock of this epoch.
    pub state: LogState,
    /// Records that are still needed, oldest first (after a recovery without write-back).
    pub live: Vec<RecordPlace>,
    /// Predictor of the head of each log drive; empty when the log simply uses the next free sector.
    pub heads: Vec<Box<dyn Head>>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailStats {
    /// Device writes.
    pub writes: u64,
    /// Device writes with FUA; `writes` includes them.
    pub durable_writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Records written.
    pub records: u64,
    /// Commits written.
    pub commits: u64,
    /// Bytes of blocks that were written outside the log.
    pub indirect_bytes: u64,
    /// Flushes of the log devices.
    pub flushes: u64,
    /// Flushes, and writes with FUA, by cause.
    pub by_cause: FlushCounts,
    /// Records without entries, written to make a new log start durable.
    pub markers: u64,
    /// Reads that moved a head to the next track.
    pub repositions: u64,
    /// Reads that measured where an idle drive's head is.
    pub refreshes: u64,
    /// Tracks that readers of the history have read from drives whose heads are followed.
    pub tracks_read: u64,
    /// Commits that waited for log space.
    pub full_waits: u64,
    /// The longest time from a commit until it was durable, where a bound is set.
    pub delay_max: Nanos,
    /// Commits that were not durable within the bound.
    pub delays_missed: u64,
    /// Tracks in use.
    pub tracks_used: u64,
    /// All tracks.
    pub tracks: u64,
}
