//! The numbers of a store. Each is declared once, here: its help, its name as a metric, its unit, and where it comes
//! from.

use crate::engine::Engine;
use serde::{Deserialize, Serialize};
use tonearm_device::EventClass;
use tonearm_device::raid::{ArrayStatus, MemberState, RaidStats};

/// How a number changes over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberKind {
    /// It only grows, from 0 at the opening of the store.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberUnit {
    /// Things, as its help says.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// A number of [`StoreStats`].
#[derive(Debug)]
pub struct StoreNumber {
    /// Its name as a metric, without unit.
    pub metric: &'static str,
    /// One sentence, with its full stop.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: NumberKind,
    /// What it counts.
    pub unit: NumberUnit,
    /// Takes it out of a snapshot.
    pub value: fn(&StoreStats) -> u64,
}

/// The numbers of the array, all 0 without one.
#[derive(Default)]
struct ArrayNumbers {
    members: u64,
    degraded: u64,
    lost: u64,
    rebuilt_bytes: u64,
    rebuild_bytes: u64,
    stats: RaidStats,
}

impl ArrayNumbers {
    fn of(status: Option<ArrayStatus>) -> Self {
        let Some(status) = status else {
            return Self::default();
        };
        let mut numbers = Self {
            members: status.members.len() as u64,
            lost: u64::from(status.lost.is_some()),
            stats: status.stats,
            ..Self::default()
        };
        for member in &status.members {
            numbers.degraded += u64::from(member.state != MemberState::InUse);
            if let MemberState::Rebuilding { rebuilt_rows } = member.state {
                numbers.rebuilt_bytes = rebuilt_rows * status.stripes.unit;
                numbers.rebuild_bytes = status.stripes.rows * status.stripes.unit;
            }
        }
        numbers
    }
}

macro_rules! kind {
    (counter) => {
        NumberKind::Counter
    };
    (gauge) => {
        NumberKind::Gauge
    };
}

macro_rules! unit {
    () => {
        NumberUnit::Count
    };
    (bytes) => {
        NumberUnit::Bytes
    };
    (nanoseconds) => {
        NumberUnit::Nanoseconds
    };
}

/// Rows: help, field, kind, metric, unit, source.
macro_rules! store_stats {
    (
        |$engine:ident| { $($prelude:tt)* }
        $(#[doc = $help:literal] $field:ident: $kind:ident $metric:ident $(in $unit:ident)? = $value:expr;)*
    ) => {
        /// A snapshot of a store.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        pub struct StoreStats {
            $(#[doc = $help] pub $field: u64,)*
            /// Write-back or the log waits, because the medium below the store or the home is full.
            pub waiting_for_space: bool,
            /// The failure that made the store read-only.
            pub failure: Option<String>,
        }

        impl StoreStats {
            /// All of its numbers.
            pub const NUMBERS: &[StoreNumber] = &[$(StoreNumber {
                metric: stringify!($metric),
                help: $help.trim_ascii(),
                kind: kind!($kind),
                unit: unit!($($unit)?),
                value: |stats| stats.$field,
            }),*];
        }

        impl Engine {
            /// Counters and gauges.
            pub fn stats(&self) -> StoreStats {
                let $engine = &self.0;
                $($prelude)*
                StoreStats {
                    $($field: $value,)*
                    waiting_for_space: self.waits_for_space(),
                    failure: self.failure(),
                }
            }
        }
    };
}

store_stats! {
    |inner| {
        let (trail, log, home) = (&inner.trail, inner.trail.stats(), inner.home.stats());
        let (pinned, write_back) = (inner.pinned.borrow(), &inner.write_back);
        let (counters, rounds) = (&inner.counters, &write_back.counters);
        let block_size = inner.shape.get().block_size as u64;
        let log_size_bytes = trail.geometry().bytes();
        let array = ArrayNumbers::of(inner.array());
        let archive = inner.archived.info(trail.durable());
        let archive_state = archive.as_ref().map_or(0, |archive| archive.state.number());
        let archive = archive.unwrap_or_default();
    }
    /// Commits made: writes, trims and zeroings.
    commits: counter commits = counters.commits.get();
    /// Payload of commits.
    commit_bytes: counter commit in bytes = counters.commit_bytes.get();
    /// Reads of blocks.
    reads: counter reads = counters.reads.get();
    /// Bytes read.
    read_bytes: counter read in bytes = counters.read_bytes.get();
    /// Reads served wholly from memory.
    read_hits: counter read_hits = counters.read_hits.get();
    /// Flushes that clients asked for.
    flush_requests: counter flush_requests = counters.flushes.get();
    /// Last commit made.
    appended_lsn: gauge appended_lsn = trail.appended().0;
    /// Last commit that the log device has said done.
    flushed_lsn: gauge flushed_lsn = trail.flushed().0;
    /// Last durable commit.
    durable_lsn: gauge durable_lsn = trail.durable().0;
    /// Last archived commit; 0 without an archive.
    archived_lsn: gauge archived_lsn = inner.archived.lsn.get().0;
    /// What the archive is doing: 0 there is none, 1 starting, 2 running, 3 waiting for its bucket, 4 ended.
    archive_state: gauge archive_state = archive_state;
    /// Durable commits that are not archived; 0 without an archive.
    archive_lag_commits: gauge archive_lag_commits = archive.lag_commits;
    /// Times that commits were lost for the archive.
    archive_gaps: counter archive_gaps = archive.gaps;
    /// Times that the clock of the machine was set while the archive ran.
    archive_clock_jumps: counter archive_clock_jumps = archive.clock_jumps;
    /// Objects put into the archive.
    archive_objects: counter archive_objects = archive.objects;
    /// Bytes put into the archive.
    archive_stored_bytes: counter archive_stored in bytes = archive.stored_bytes;
    /// 1 when the store can be restored from its archive.
    archive_restorable: gauge archive_restorable = u64::from(archive.restorable);
    /// Percent of the base of the archive that has been read, while one is made; else 0.
    archive_base_percent: gauge archive_base_percent = archive.base_percent.unwrap_or(0);
    /// Bound on the time until a commit is durable; 0 without one.
    max_delay_ns: gauge max_delay in nanoseconds = inner.options.max_delay.unwrap_or_default().0;
    /// Longest time until a commit was durable, where a bound is set.
    delay_max_ns: gauge delay_observed in nanoseconds = log.delay_max.0;
    /// Commits that were not durable within the bound.
    delays_missed: counter delays_missed = log.delays_missed;
    /// Device writes of the log, one for each batch.
    log_writes: counter log_writes = log.writes;
    /// Device writes of the log with FUA.
    log_durable_writes: counter log_durable_writes = log.durable_writes;
    /// Bytes written to the log.
    log_bytes: counter log_written in bytes = log.bytes;
    /// Log records written.
    log_records: counter log_records = log.records;
    /// Flushes of the log device.
    log_flushes: counter log_flushes = log.flushes;
    /// Flushes and FUA writes of the log because a caller waited for a commit.
    commit_flushes: counter log_flushes_commit = log.by_cause.commit;
    /// Flushes and FUA writes of the log before blocks were written home.
    home_write_flushes: counter log_flushes_home_write = log.by_cause.home_write;
    /// Flushes and FUA writes of the log for checkpoints and the orderly end.
    checkpoint_flushes: counter log_flushes_checkpoint = log.by_cause.checkpoint;
    /// Flushes and FUA writes of the log for the bound on the delay of durability.
    bound_flushes: counter log_flushes_bound = log.by_cause.bound;
    /// Flushes and FUA writes of the log to open tracks or to use them again.
    log_space_flushes: counter log_flushes_space = log.by_cause.log_space;
    /// Log records written only to free log space.
    log_markers: counter log_markers = log.markers;
    /// Times a writer waited for log space.
    log_full_waits: counter log_full_waits = log.full_waits;
    /// Reads of the log drives for the sake of their heads.
    log_repositions: counter log_repositions = log.repositions + log.refreshes;
    /// Log space in use.
    log_used_bytes: gauge log_used in bytes = log_size_bytes / log.tracks * log.tracks_used;
    /// Size of the log.
    log_size_bytes: gauge log_size in bytes = log_size_bytes;
    /// Written data in memory.
    memory_used_bytes: gauge memory_used in bytes = inner.memory.used();
    /// Bound on written data in memory.
    memory_limit_bytes: gauge memory_limit in bytes = inner.options.memory_bytes;
    /// Writers that wait for memory.
    memory_waiting: gauge memory_waiting_writers = inner.memory.waiting() as u64;
    /// Blocks in the log and not yet at home.
    pinned_blocks: gauge pinned_blocks = pinned.block_count() as u64;
    /// Ranges to be zeroed at home.
    pending_ranges: gauge pending_ranges = pinned.range_count() as u64;
    /// Age of the oldest block that is not yet at home.
    write_back_lag_ns: gauge write_back_lag in nanoseconds = write_back.lag().0;
    /// Rounds of write-back.
    write_back_rounds: counter write_back_rounds = rounds.rounds.get();
    /// Blocks written home.
    written_back_blocks: counter written_back_blocks = rounds.blocks.get();
    /// Blocks of large commits that were written once, before the log named their places (layouts with segments).
    indirect_blocks: counter indirect_blocks = home.segments.indirect_blocks;
    /// Blocks replaced by a newer version while they were written home.
    superseded_blocks: counter superseded_blocks = rounds.superseded.get();
    /// Device reads at home.
    home_reads: counter home_reads = home.reads;
    /// Bytes read at home.
    home_read_bytes: counter home_read in bytes = home.read_bytes;
    /// Device writes at home.
    home_writes: counter home_writes = home.writes;
    /// Bytes written at home.
    home_write_bytes: counter home_written in bytes = home.write_bytes;
    /// Flushes of data devices.
    home_flushes: counter home_flushes = home.flushes;
    /// Flushes of data devices in rounds that a checkpoint waited for.
    home_checkpoint_flushes: counter home_flushes_checkpoint = rounds.checkpoint_flushes.get();
    /// Checkpoints on request or by the interval.
    checkpoints: counter checkpoints = counters.checkpoints.get();
    /// First commit that a recovery would replay.
    replayed_from_lsn: gauge replayed_from_lsn = trail.replayed_from().0;
    /// Checksum tables read.
    table_loads: counter table_loads = home.table_loads;
    /// Checksum tables found in memory.
    table_hits: counter table_hits = home.overwrite.table_hits;
    /// Checksum tables written.
    table_writes: counter table_writes = home.table_writes;
    /// Checksum tables in memory.
    map_cache_bytes: gauge map_cache in bytes = home.map_cache_bytes as u64;
    /// Segments of the home.
    segments: gauge segments = home.segments.count;
    /// Segments that can be written.
    free_segments: gauge segments_free = home.segments.free_segments;
    /// Live blocks and map pages in segments.
    segments_live_bytes: gauge segments_live in bytes = home.segments.live_blocks * block_size;
    /// Bytes that all segments can hold.
    segments_bytes: gauge segments_size in bytes = home.segments.count * home.segments.segment_blocks * block_size;
    /// Segments that the cleaner has emptied.
    cleaned_segments: counter segments_cleaned = home.segments.cleaned_segments;
    /// Blocks that were overwritten in place (layout hylog).
    overwritten_blocks: counter segments_overwritten_blocks = home.segments.overwritten_blocks;
    /// Hot blocks, in thousandths of the live ones (layout hylog).
    hot_share_permille: gauge hot_share_permille = home.segments.hot.share_permille;
    /// Writes of hot blocks, in thousandths of all.
    hot_writes_permille: gauge hot_writes_permille = home.segments.hot.writes_permille;
    /// Recent writes from which on a block is hot.
    hot_threshold: gauge hot_threshold = home.segments.hot.threshold;
    /// Measured time of a block that is overwritten, in thousandths of that of an appended one.
    efficiency_milli: gauge segment_efficiency_milli = home.segments.hot.efficiency_milli;
    /// Expected cost of a write, in thousandths of an appended one without cleaning.
    write_cost_milli: gauge write_cost_milli = home.segments.hot.write_cost_milli;
    /// Live blocks that the cleaner has copied.
    cleaned_blocks: counter segments_cleaned_blocks = home.segments.cleaned_blocks;
    /// Live blocks that the cleaner has moved into holes of other segments.
    plugged_blocks: counter segments_plugged_blocks = home.segments.plugged_blocks;
    /// Passes of the cleaner that moved blocks into holes.
    plug_passes: counter cleaner_plug_passes = home.segments.plug_passes;
    /// Passes of the cleaner that chose segments by cost and age.
    age_passes: counter cleaner_age_passes = home.segments.age_passes;
    /// Passes of the cleaner that chose the emptiest segments, because free ones were short.
    greedy_passes: counter cleaner_greedy_passes = home.segments.greedy_passes;
    /// Blocks of segment summaries written.
    summary_blocks: counter segments_summary_blocks = home.segments.summary_blocks;
    /// Members of the array.
    array_members: gauge array_members = array.members;
    /// Members of the array that do not have all of its data; a failure of another one loses data.
    array_degraded: gauge array_degraded_members = array.degraded;
    /// 1 since more members of the array have failed than it can do without.
    array_lost: gauge array_lost = array.lost;
    /// Bytes of the replaced member that a rebuild has restored.
    array_rebuilt_bytes: gauge array_rebuilt in bytes = array.rebuilt_bytes;
    /// Bytes of the replaced member.
    array_rebuild_bytes: gauge array_rebuild in bytes = array.rebuild_bytes;
    /// Ranges computed from the other members, because a member was missing or unreadable.
    array_reconstructed: counter array_reconstructed = array.stats.reconstructed;
    /// Unreadable or rotten ranges of members that were rewritten.
    array_repaired: counter array_repaired = array.stats.repaired;
    /// Ranges whose parity was corrected.
    array_parity_fixed: counter array_parity_fixed = array.stats.parity_fixed;
    /// Blocks that failed their checksum.
    checksum_errors: counter checksum_errors = home.checksum_errors;
    /// Failures of drives and of the store since the opening: members that are not used any more, a store that is read-only.
    failures: counter failures = inner.events.count(EventClass::State);
    /// Reads that have failed, and sectors of an array that were given up.
    failed_reads: counter failed_reads = inner.events.count(EventClass::Damage);
    /// Unreadable sectors of members that the array could not compute either, and overwrote with zeroes.
    array_given_up: counter array_given_up = array.stats.given_up;
    /// Time that opening the store took.
    recovery_ns: gauge recovery in nanoseconds = inner.recovery.duration.0;
    /// Commits recovered from the log at the start.
    recovered_commits: counter recovered_commits = inner.recovery.commits;
}
