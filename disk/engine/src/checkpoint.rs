//! A checkpoint on request: everything committed so far is written back, and the durable log start passes it (Durable WAL 5.4).
//!
//! The write-back takes the same steps all the time, a part of the blocks in each round. The steps, in this order:
//! 1. The log is durable up to the last commit.
//! 2. Blocks are written home.
//! 3. Each data device that was written is flushed once.
//! 4. A record that names the new log start becomes durable.
//! 5. The tracks before that start may be used again.
//!
//! docs/decisions/0025 puts them beside the steps of the paper.

use crate::engine::{Counters, Engine};
use crate::error::EngineError;
use async_recursion::async_recursion as boxed;
use tonearm_base::{Lsn, Nanos};

impl Engine {
    /// Brings everything that is committed now home, and makes a log start beyond it durable: a recovery from then on
    /// replays nothing of it. Returns the last of these commits. Commits that come meanwhile do not hold it up.
    ///
    /// # Errors
    /// When the store takes no changes, fails meanwhile, or its home is full.
    #[boxed(?Send)]
    pub async fn checkpoint(&self) -> Result<Lsn, EngineError> {
        self.0.check_writable()?;
        let last = self.0.trail.appended();
        // What the last checkpoint has committed itself changes nothing at home.
        if last > self.0.checkpointed.get() {
            let under_way = self.0.write_back.begin_checkpoint();
            if let Some(made) = self.retire_by(last).await? {
                self.0.checkpointed.set(made);
            }
            drop(under_way);
        }
        Counters::add(&self.0.counters.checkpoints, 1);
        Ok(last)
    }

    /// Makes a checkpoint each `interval`, as long as the store takes changes. While the home is full, the next interval
    /// tries again.
    pub(crate) async fn checkpoint_loop(self, interval: Nanos) {
        while self.0.check_writable().is_ok() {
            self.0.rt.sleep(interval).await;
            // A failure has made the store read-only, and is reported there.
            let _ = self.checkpoint().await;
        }
    }
}
