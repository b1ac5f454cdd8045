//! The orderly end of a log: nothing is appended any more, all of it is durable, and nothing is left in it.

use super::Trail;
use crate::error::TrailError;
use tonearm_format::LogState;

impl Trail {
    /// Writes what is queued, waits for what is under way, and makes all of it durable. Nothing may be appended from now
    /// on, and those who wait for log space do not get it.
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

    /// Where the log ends now, for the superblock of an orderly end. Everything must be durable and
    /// released.
    pub fn end_state(&self) -> LogState {
        let mut state = self.0.state.borrow_mut();
        state.advance_head();
        assert!(
            state.live.is_empty() && state.queue.is_empty(),
            "an orderly end leaves nothing in the log"
        );
        let end = state.durability.durable();
        assert_eq!(end, state.durability.flushed(), "an orderly end is durable");
        let start_track = state.ring.next_index();
        LogState {
            head_sector: state.prev_sector,
            head_seq: state.next_seq.0,
            tail_sector: state.prev_sector,
            tail_seq: state.next_seq.0 - 1,
            tail_epoch: state.prev_epoch,
            tail_lsn: state.durability.appended().0,
            start_track,
        }
    }

    /// Ends the tasks.
    pub fn stop(&self) {
        self.0.stopped.set(true);
        self.0.work.notify();
        self.0.flush.notify();
    }
}
