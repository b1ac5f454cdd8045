//! The orderly end of a log: all commits are written and durable, and none is needed any more.

use super::Trail;
use crate::error::TrailError;
use tonearm_format::LogState;

impl Trail {
    /// Writes the queued commits, waits for writes under way, and makes all of them durable. The caller appends
    /// nothing from now on. Commits that wait for log space do not get it.
    ///
    /// # Errors
    /// When the log or the store has failed.
    pub async fn finish(&self) -> Result<(), TrailError> {
        self.0.state.borrow_mut().ending = true;
        loop {
            self.check()?;
            self.check_given_up()?;
            let progress = self.0.progress.wait();
            {
                let mut state = self.0.state.borrow_mut();
                let durability = &state.durability;
                let written = state.queue.is_empty() && durability.writes_in_flight() == 0;
                if written && durability.durable() == durability.flushed() {
                    return Ok(());
                }
                state.force_flush();
            }
            self.0.work.notify();
            self.0.flush.notify();
            progress.await;
        }
    }

    /// Log positions for the superblock of an orderly end. All commits must be durable and released.
    pub fn end_state(&self) -> LogState {
        let mut state = self.0.state.borrow_mut();
        state.advance_log_start();
        assert!(
            state.live.is_empty() && state.queue.is_empty(),
            "at an orderly end the log is empty"
        );
        let end = state.durability.durable();
        assert_eq!(
            end,
            state.durability.flushed(),
            "at an orderly end the log is durable"
        );
        let start_track = state.ring.next_index();
        LogState {
            log_start_sector: state.prev_sector,
            log_start_seq: state.next_seq.0,
            log_end_sector: state.prev_sector,
            log_end_seq: state.next_seq.0 - 1,
            log_end_epoch: state.prev_epoch,
            log_end_lsn: state.durability.appended().0,
            start_track,
        }
    }

    /// Ends the log's tasks.
    pub fn stop(&self) {
        self.0.stopped.set(true);
        self.0.work.notify();
        self.0.flush.notify();
    }
}
