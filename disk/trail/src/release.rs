//! Which commits the log must still keep.
//!
//! Each pinned block (or pending trim) holds the oldest commit that wrote it since it was last durable at
//! home; a newer version takes over the hold, so the tracks of all versions are freed together
//! (Trail 4.1). The log head is the oldest commit that is held.

use std::collections::VecDeque;
use tonearm_base::Lsn;

/// Number of holds for each commit that the log keeps.
#[derive(Debug)]
pub struct Releases {
    first: Lsn,
    holds: VecDeque<u32>,
}

impl Releases {
    /// Nothing is held; the next commit is `next`.
    pub fn new(next: Lsn) -> Self {
        Self {
            first: next,
            holds: VecDeque::new(),
        }
    }

    /// Commit `lsn`, the next one, is made.
    pub fn add_commit(&mut self, lsn: Lsn) {
        assert_eq!(
            lsn.0,
            self.first.0 + self.holds.len() as u64,
            "commits come in order"
        );
        self.holds.push_back(0);
    }

    /// One more thing needs commit `lsn` to stay in the log.
    pub fn hold(&mut self, lsn: Lsn) {
        self.holds[(lsn - self.first) as usize] += 1;
    }

    /// One thing less needs commit `lsn`.
    pub fn release(&mut self, lsn: Lsn) {
        let holds = &mut self.holds[(lsn - self.first) as usize];
        assert!(*holds > 0, "released more often than held");
        *holds -= 1;
    }

    /// Forgets leading commits that nobody needs, up to `durable`; gives the oldest that stays (or the
    /// next one to come).
    pub fn advance(&mut self, durable: Lsn) -> Lsn {
        while self.first <= durable && self.holds.front() == Some(&0) {
            self.holds.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// Commits in the account.
    pub fn len(&self) -> usize {
        self.holds.len()
    }

    /// True when no commit is in the account.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }
}
