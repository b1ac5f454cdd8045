//! How a store is opened.

use tonearm_base::Nanos;
use tonearm_format::Placement;
use tonearm_layout::layouts::HomeOptions;
use tonearm_layout::{Plugging, WRITES_WHILE_READING};
use tonearm_trail::WriteCache;

/// When a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When it is in memory and on its way to the log; a flush or FUA makes it durable (NBD's contract).
    Flush,
    /// When it is durable (Trail's contract).
    Write,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bound on payload in memory: queued, in the log and not yet at home.
    pub memory_bytes: u64,
    /// Bound on the home's tables or map pages in memory.
    pub map_cache_bytes: usize,
    /// Time between two decisions which blocks are hot, in the layouts wolf and hylog (HyLog 4.2).
    pub separation_interval: Nanos,
    /// Writes of the write-back under way on a device while clients read (Trail 4.3: reads go before write-back), 1 to 64. With
    /// 64 reads do not go first. The lab's experiment `read-priority` compares values.
    pub writes_while_reading: u64,
    /// When the cleaner of the layouts segments and wolf moves blocks into holes, instead of appending them.
    pub plugging: Plugging,
    /// Used share of a log track, in percent, from which the next write goes to the next track (Trail 4.2), where the log
    /// follows a head. With 0 each write does, as in Trail 5.1.
    pub track_threshold_percent: u64,
    /// When writes are acknowledged.
    pub ack: Ack,
    /// What is known of the storage's cache.
    pub write_cache: WriteCache,
    /// Refuse all changes; needs a store that was shut down in order.
    pub read_only: bool,
    /// Write everything home before the store is served after a crash.
    pub write_back_on_recovery: bool,
    /// Age at which blocks are written home though neither memory nor log are short.
    pub write_back_after: Nanos,
    /// Time between two checkpoints ([`Engine::checkpoint`](crate::Engine::checkpoint)). `None` leaves them to callers: the
    /// write-back brings blocks home in any case.
    pub checkpoint_every: Option<Nanos>,
    /// How long commits that no caller waits for may stay in memory, so that the log takes many at once. If the program
    /// is killed, the commits that are still in its memory are lost, as by a power cut.
    pub commit_delay: Nanos,
    /// Bytes of blocks from which a commit is large. In the layouts with segments, large commits for which no caller waits are written
    /// once: their blocks go to the segments, and the log names their places. With 0 none is.
    pub large_commit_bytes: u64,
    /// For so long after a caller has waited for a commit, they go to the log all the same: the next one would wait for them.
    pub large_commit_quiet: Nanos,
    /// Every commit is durable this long after it was made, without a flush of its caller (Durable WAL 5.7). `None` sets no
    /// bound. A device that takes longer than half of it to make a write durable may miss the bound, which is counted.
    pub max_delay: Option<Nanos>,
    /// The placement that a store with segments is to have from now on. All placements have the same format.
    pub placement: Option<Placement>,
    /// Where the log is damaged, keep what is before the damage (`check --repair`).
    pub give_up_damaged_log: bool,
    /// Open a store that a restore has not completed, to go on with the restore.
    pub incomplete: bool,
}

impl OpenOptions {
    /// Those of the home.
    pub(crate) fn home(&self) -> HomeOptions {
        HomeOptions {
            map_cache_bytes: self.map_cache_bytes,
            separation_interval: self.separation_interval,
            writes_while_reading: self.writes_while_reading,
            plugging: self.plugging,
            read_only: self.read_only,
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            map_cache_bytes: 32 << 20,
            separation_interval: Nanos::from_secs(20 * 60),
            writes_while_reading: WRITES_WHILE_READING,
            plugging: Plugging::default(),
            track_threshold_percent: 30,
            ack: Ack::Flush,
            write_cache: WriteCache::Volatile,
            read_only: false,
            write_back_on_recovery: false,
            write_back_after: Nanos::from_secs(5),
            checkpoint_every: None,
            commit_delay: Nanos(0),
            large_commit_bytes: 64 << 10,
            large_commit_quiet: Nanos::from_secs(1),
            max_delay: None,
            placement: None,
            give_up_damaged_log: false,
            incomplete: false,
        }
    }
}
