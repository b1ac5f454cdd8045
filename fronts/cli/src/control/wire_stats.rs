//! The counters of a server, as they go over the control socket and into metrics.

use serde::{Deserialize, Serialize};

/// All counters of a server.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ServerStats {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_s: f64,
    /// The store.
    #[serde(with = "StoreNumbers")]
    pub store: tonearm_disk::StoreStats,
    /// Its clients.
    pub nbd: NbdStats,
}

/// What NBD clients have asked for.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct NbdStats {
    /// Connections open now.
    pub connections_open: u64,
    /// Connections ever served.
    pub connections_opened: u64,
    /// Connections closed because too many were open.
    pub connections_over_limit: u64,
    /// Handshakes that failed.
    pub handshakes_refused: u64,
    /// Connections cut because the client stalled.
    pub connections_stalled: u64,
    /// Connections ended because the client broke the protocol.
    pub connections_violated: u64,
    /// Send operations.
    pub sends: u64,
    /// Receive operations.
    pub receives: u64,
    /// Each command.
    pub commands: Vec<CommandStats>,
    /// Latencies of reads, writes and flushes.
    pub latencies: Vec<LatencyStats>,
}

/// Counters of one command.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct CommandStats {
    /// Its name.
    pub command: String,
    /// Requests answered.
    pub requests: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Those that did not.
    pub errors: u64,
}

/// Latencies of one command, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct LatencyStats {
    /// Its name.
    pub command: String,
    /// Requests.
    pub count: u64,
    /// Sum over all of them.
    pub sum_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Upper bounds in nanoseconds, each with the number of requests up to it.
    pub buckets: Vec<(u64, u64)>,
}

/// The fields of `tonearm_disk::StoreStats`, which knows nothing of JSON; the compiler keeps both in step.
#[derive(Serialize, Deserialize)]
#[serde(remote = "tonearm_disk::StoreStats")]
struct StoreNumbers {
    commits: u64,
    commit_bytes: u64,
    reads: u64,
    read_bytes: u64,
    read_hits: u64,
    flush_requests: u64,
    appended_lsn: u64,
    flushed_lsn: u64,
    durable_lsn: u64,
    log_writes: u64,
    log_durable_writes: u64,
    log_bytes: u64,
    log_records: u64,
    log_flushes: u64,
    log_markers: u64,
    log_full_waits: u64,
    log_repositions: u64,
    log_used_bytes: u64,
    log_size_bytes: u64,
    memory_used_bytes: u64,
    memory_limit_bytes: u64,
    memory_waiting: u64,
    pinned_blocks: u64,
    pending_ranges: u64,
    write_back_lag_ns: u64,
    write_back_rounds: u64,
    written_back_blocks: u64,
    superseded_blocks: u64,
    home_reads: u64,
    home_read_bytes: u64,
    home_writes: u64,
    home_write_bytes: u64,
    home_flushes: u64,
    table_loads: u64,
    table_hits: u64,
    table_writes: u64,
    map_cache_bytes: u64,
    segments: u64,
    free_segments: u64,
    segments_live_bytes: u64,
    segments_bytes: u64,
    cleaned_segments: u64,
    checksum_errors: u64,
    waiting_for_space: bool,
    recovery_ns: u64,
    recovered_commits: u64,
    failure: Option<String>,
}
