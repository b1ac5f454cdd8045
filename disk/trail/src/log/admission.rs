//! Log space is reserved before a commit is made, first come first served.
//!
//! Only the first waiter looks at each change of the log; the others wait for their turn.

use super::Trail;
use crate::error::TrailError;

impl Trail {
    /// Waits for log space for a commit of `blocks` blocks of data and `ranges` ranges. A commit without ranges
    /// leaves one track free for commits that free space at home.
    ///
    /// Reserve before the commit replaces versions that the log still holds. A commit that waited afterwards would
    /// wait for tracks that its own blocks keep in use.
    ///
    /// # Errors
    /// When the log has failed.
    ///
    /// # Panics
    /// When the log could never hold the commit ([`LogGeometry::commit_blocks_max`]).
    pub async fn admit(&self, blocks: u64, ranges: u64) -> Result<Admission, TrailError> {
        let sectors = self.0.geometry.commit_sectors(blocks, ranges);
        assert!(
            sectors <= self.0.geometry.commit_sectors_max(),
            "the log can hold the commit"
        );
        self.check()?;
        self.check_given_up()?;
        let spare = match ranges {
            0 => self.0.geometry.spare_sectors(sectors),
            _ => 0,
        };
        let first = self.0.state.borrow().space_queue.is_empty();
        let reserved = first.then(|| self.reserve(sectors, spare));
        if let Some(admission) = reserved.flatten() {
            return Ok(admission);
        }
        let ticket = Ticket::take(self);
        let turn = self.0.turn.wait(ticket.number);
        self.want_space();
        turn.await;
        loop {
            self.check()?;
            self.check_given_up()?;
            let progress = self.0.progress.wait();
            if let Some(admission) = self.reserve(sectors, spare) {
                return Ok(admission);
            }
            self.want_space();
            progress.await;
        }
    }

    /// Reserves `sectors` if `spare` others are left.
    fn reserve(&self, sectors: u64, spare: u64) -> Option<Admission> {
        let mut state = self.0.state.borrow_mut();
        let fits = state.space() >= sectors + spare;
        fits.then(|| {
            state.reserved += sectors;
            Admission {
                trail: self.clone(),
                sectors,
            }
        })
    }

    fn want_space(&self) {
        self.0.work.notify();
        self.0.space_wanted.notify();
    }
}

/// A place in the queue for log space.
struct Ticket<'a> {
    trail: &'a Trail,
    number: u64,
}

impl<'a> Ticket<'a> {
    fn take(trail: &'a Trail) -> Self {
        let mut state = trail.0.state.borrow_mut();
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.space_queue.push_back(number);
        state.stats.full_waits += 1;
        Self { trail, number }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let inner = &self.trail.0;
        let mut state = inner.state.borrow_mut();
        // Tickets are in ascending order.
        let at = state.space_queue.binary_search(&self.number);
        state
            .space_queue
            .remove(at.expect("a ticket is queued while it lives"));
        let first = state.space_queue.front().copied();
        inner.turn.raise(first.unwrap_or(state.next_ticket));
    }
}

/// Log space reserved for one commit. Dropping it returns the space.
pub struct Admission {
    trail: Trail,
    pub(super) sectors: u64,
}

impl Admission {
    /// True when the space is enough for a commit of `blocks` blocks of data and `ranges` ranges.
    pub fn covers(&self, blocks: u64, ranges: u64) -> bool {
        self.trail.0.geometry.commit_sectors(blocks, ranges) <= self.sectors
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let inner = &self.trail.0;
        let mut state = inner.state.borrow_mut();
        state.reserved -= self.sectors;
        if !state.space_queue.is_empty() {
            // The commit was given up, or needs less than was reserved.
            inner.progress.notify();
        }
    }
}
