//! Which commits the log must still keep.
//!
//! Each pinned block (or pending trim) holds the oldest commit that wrote it since it was last durable at home.
//! A newer version takes over the hold, so that the tracks of all versions are freed together (Trail 4.1). The
//! log starts with the oldest commit that is held.

use std::collections::VecDeque;
use tonearm_base::Lsn;

/// The commits that the log keeps, each with its number of holds.
#[derive(Debug)]
pub struct RetainedCommits {
    first: Lsn,
    holds: VecDeque<u32>,
}

impl RetainedCommits {
    /// An account without commits. The next commit is `next`.
    pub fn new(next: Lsn) -> Self {
        Self {
            first: next,
            holds: VecDeque::new(),
        }
    }

    /// Adds commit `lsn`, the next one, without holds.
    pub fn add_commit(&mut self, lsn: Lsn) {
        assert_eq!(
            lsn.0,
            self.first.0 + self.holds.len() as u64,
            "commits are added in order"
        );
        self.holds.push_back(0);
    }

    /// Adds a hold to commit `lsn`.
    pub fn hold(&mut self, lsn: Lsn) {
        self.holds[(lsn - self.first) as usize] += 1;
    }

    /// Removes a hold from commit `lsn`.
    pub fn release(&mut self, lsn: Lsn) {
        let holds = &mut self.holds[(lsn - self.first) as usize];
        assert!(*holds > 0, "released more often than held");
        *holds -= 1;
    }

    /// Removes commits without holds from the front, up to `durable`. The oldest commit that stays, or the next one
    /// to come.
    pub fn advance(&mut self, durable: Lsn) -> Lsn {
        while self.first <= durable && self.holds.front() == Some(&0) {
            self.holds.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// Number of commits in the account.
    pub fn len(&self) -> usize {
        self.holds.len()
    }
}
