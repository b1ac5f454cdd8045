//! Why the log is made durable: each flush is counted under one cause (Durable WAL 5.5).

use tonearm_base::{Lsn, RecordSeq};

/// Why written records are made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlushCause {
    /// A caller waits for its commit.
    #[default]
    Commit,
    /// A checkpoint, or the orderly end of the store.
    Checkpoint,
    /// The bound on the delay of durability.
    Bound,
    /// Blocks are to be written home.
    HomeWrite,
    /// Tracks are to be opened or used again.
    LogSpace,
}

/// Flushes of the log, and writes with FUA, by cause. Each is counted once: under the first cause of this list that
/// waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushCounts {
    /// [`FlushCause::Commit`].
    pub commit: u64,
    /// [`FlushCause::Checkpoint`].
    pub checkpoint: u64,
    /// [`FlushCause::Bound`].
    pub bound: u64,
    /// [`FlushCause::HomeWrite`].
    pub home_write: u64,
    /// [`FlushCause::LogSpace`].
    pub log_space: u64,
}

impl FlushCounts {
    /// Counts one more.
    pub(crate) fn count(&mut self, cause: FlushCause) {
        *match cause {
            FlushCause::Commit => &mut self.commit,
            FlushCause::Checkpoint => &mut self.checkpoint,
            FlushCause::Bound => &mut self.bound,
            FlushCause::HomeWrite => &mut self.home_write,
            FlushCause::LogSpace => &mut self.log_space,
        } += 1;
    }
}

/// The callers that wait for the log to be durable, by cause.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    commit: Lsn,
    checkpoint: Lsn,
    bound: Lsn,
    /// The last record that the store itself needs, and why.
    forced: (RecordSeq, FlushCause),
}

impl Asked {
    /// Notes a wait for commit `lsn`.
    pub fn wait(&mut self, lsn: Lsn, cause: FlushCause) {
        let last = match cause {
            FlushCause::Checkpoint => &mut self.checkpoint,
            FlushCause::Bound => &mut self.bound,
            _ => &mut self.commit,
        };
        *last = lsn.max(*last);
    }

    /// Notes that the records up to `seq` are to be durable as soon as they are written.
    pub fn force(&mut self, seq: RecordSeq, cause: FlushCause) {
        self.forced = (self.forced.0.max(seq), cause);
    }

    /// The last record that is to be durable as soon as it is written.
    pub fn forced(&self) -> RecordSeq {
        self.forced.0
    }

    /// The cause of a flush while the log is durable up to commit `durable` and record `durable_seq`.
    pub fn cause(&self, durable: Lsn, durable_seq: RecordSeq) -> FlushCause {
        let waits = [
            (self.commit, FlushCause::Commit),
            (self.checkpoint, FlushCause::Checkpoint),
            (self.bound, FlushCause::Bound),
        ];
        let (seq, forced) = self.forced;
        match waits.into_iter().find(|(lsn, _)| *lsn > durable) {
            Some((_, cause)) => cause,
            None if seq > durable_seq => forced,
            // A write with FUA for which nobody waits yet: a wait is expected, or a head is followed.
            None => FlushCause::Commit,
        }
    }
}
