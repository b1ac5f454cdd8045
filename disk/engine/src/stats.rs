//! Counters and gauges of a store, as plain numbers.

use crate::engine::Engine;

/// A snapshot; counters run from the opening of the store.
#[derive(Clone, Debug, Default)]
pub struct StoreStats {
    /// Commits made.
    pub commits: u64,
    /// Bytes of payload in them.
    pub commit_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Reads served wholly from memory.
    pub read_hits: u64,
    /// Flush requests.
    pub flush_requests: u64,
    /// Last commit made.
    pub appended_lsn: u64,
    /// Last commit that the device has said done.
    pub flushed_lsn: u64,
    /// Last durable commit.
    pub durable_lsn: u64,
    /// Device writes of the log.
    pub log_writes: u64,
    /// Of them, FUA writes.
    pub log_durable_writes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Log records.
    pub log_records: u64,
    /// Flushes of the log device.
    pub log_flushes: u64,
    /// Records written only to move the start of the log.
    pub log_markers: u64,
    /// Times a writer waited for log space.
    pub log_full_waits: u64,
    /// Reads of the log drives that find out where their heads are.
    pub log_repositions: u64,
    /// Log bytes in use.
    pub log_used_bytes: u64,
    /// All log bytes.
    pub log_size_bytes: u64,
    /// Payload in memory.
    pub memory_used_bytes: u64,
    /// Bound on it.
    pub memory_limit_bytes: u64,
    /// Writers that wait for memory.
    pub memory_waiting: u64,
    /// Blocks in the log and not yet at home.
    pub pinned_blocks: u64,
    /// Ranges to be zeroed at home.
    pub pending_ranges: u64,
    /// Age of the oldest of them, in nanoseconds, as far as the write-back keeps track.
    pub write_back_lag_ns: u64,
    /// Write-back rounds.
    pub write_back_rounds: u64,
    /// Blocks written home.
    pub written_back_blocks: u64,
    /// Of them, already replaced by a newer version when they arrived.
    pub superseded_blocks: u64,
    /// Home reads.
    pub home_reads: u64,
    /// Bytes of them.
    pub home_read_bytes: u64,
    /// Home writes.
    pub home_writes: u64,
    /// Bytes of them.
    pub home_write_bytes: u64,
    /// Flushes of data devices.
    pub home_flushes: u64,
    /// Checksum tables read.
    pub table_loads: u64,
    /// Look-ups answered by the table cache.
    pub table_hits: u64,
    /// Checksum tables written.
    pub table_writes: u64,
    /// Memory of the table cache.
    pub map_cache_bytes: u64,
    /// Segments of the home; 0 in the overwrite layout, as the next four.
    pub segments: u64,
    /// Of them, free ones.
    pub free_segments: u64,
    /// Bytes that live in them.
    pub segments_live_bytes: u64,
    /// Bytes that all segments can hold.
    pub segments_bytes: u64,
    /// Segments that the cleaner has emptied.
    pub cleaned_segments: u64,
    /// Checksum errors met.
    pub checksum_errors: u64,
    /// The medium below is full; write-back waits.
    pub waiting_for_space: bool,
    /// Nanoseconds that opening the store took.
    pub recovery_ns: u64,
    /// Commits recovered at opening.
    pub recovered_commits: u64,
    /// The failure that made the store read-only.
    pub failure: Option<String>,
}

impl Engine {
    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        let inner = &self.0;
        let (trail, log, home) = (&inner.trail, inner.trail.stats(), inner.home.stats());
        let (pinned, write_back) = (inner.pinned.borrow(), &inner.write_back);
        let (counters, rounds) = (&inner.counters, &write_back.counters);
        let block_size = inner.shape.block_size as u64;
        let log_size_bytes = trail.geometry().bytes();
        StoreStats {
            commits: counters.commits.get(),
            commit_bytes: counters.commit_bytes.get(),
            reads: counters.reads.get(),
            read_bytes: counters.read_bytes.get(),
            read_hits: counters.read_hits.get(),
            flush_requests: counters.flushes.get(),
            appended_lsn: trail.appended().0,
            flushed_lsn: trail.flushed().0,
            durable_lsn: trail.durable().0,
            log_writes: log.writes,
            log_durable_writes: log.durable_writes,
            log_bytes: log.bytes,
            log_records: log.records,
            log_flushes: log.flushes,
            log_markers: log.markers,
            log_full_waits: log.full_waits,
            log_used_bytes: log_size_bytes / log.tracks * log.tracks_used,
            log_size_bytes,
            log_repositions: log.repositions + log.refreshes,
            memory_used_bytes: inner.memory.used(),
            memory_limit_bytes: inner.options.memory_bytes,
            memory_waiting: inner.memory.waiting() as u64,
            pinned_blocks: pinned.block_count() as u64,
            pending_ranges: pinned.range_count() as u64,
            write_back_lag_ns: write_back.lag().0,
            write_back_rounds: rounds.rounds.get(),
            written_back_blocks: rounds.blocks.get(),
            superseded_blocks: rounds.superseded.get(),
            home_reads: home.reads,
            home_read_bytes: home.read_bytes,
            home_writes: home.writes,
            home_write_bytes: home.write_bytes,
            home_flushes: home.flushes,
            table_loads: home.table_loads,
            table_hits: home.table_hits,
            table_writes: home.table_writes,
            map_cache_bytes: home.map_cache_bytes as u64,
            segments: home.segments,
            free_segments: home.free_segments,
            segments_live_bytes: home.live_blocks * block_size,
            segments_bytes: home.segments * home.segment_blocks * block_size,
            cleaned_segments: home.cleaned_segments,
            checksum_errors: home.checksum_errors,
            waiting_for_space: write_back.waits_for_space(),
            recovery_ns: inner.recovery.duration.0,
            recovered_commits: inner.recovery.commits,
            failure: self.failure(),
        }
    }
}
