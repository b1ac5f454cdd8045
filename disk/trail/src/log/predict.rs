//! Predicts whether a caller will wait for the next commit.
//!
//! A program that needs a block to be durable writes it, and asks for a flush when the write is answered. When a client of a
//! served volume has done that a few times, the log writes its next commit with FUA at once: the flush finds the write under
//! way, or done. Without that the flush of the drive would begin when the client's flush arrives.
//!
//! Only a client that is alone is predicted. Several share device writes ([`GroupCommit`](super::group_commit::GroupCommit)), and a
//! write with FUA for the first of them would not have the commits of the others.

/// Commits in a row after which the next one is predicted.
const LIKELY: u32 = 8;

/// How many commits in a row a caller has waited for before the next one was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitPredictor {
    in_a_row: u32,
    /// A caller has waited since the last commit.
    waited: bool,
}

impl WaitPredictor {
    /// Notes a commit. `after_others` says whether all commits before are durable.
    pub fn committed(&mut self, after_others: bool) {
        self.in_a_row = match self.waited && after_others {
            true => self.in_a_row.saturating_add(1),
            false => 0,
        };
        self.waited = false;
    }

    /// Notes that a caller waits for the last commit, or finds it durable.
    pub fn waited(&mut self) {
        self.waited = true;
    }

    /// True when a caller will probably wait for the last commit before it makes another.
    pub fn is_likely(self) -> bool {
        self.in_a_row >= LIKELY
    }
}
