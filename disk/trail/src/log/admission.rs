//! Log space is promised before a commit is made, in the order in which it was asked for.
//!
//! Only the first of those who wait looks at each change of the log; the others wait for their turn.

use super::Trail;
use crate::error::TrailError;

impl Trail {
    /// Waits for log space for a commit of `blocks` blocks of data and `ranges` ranges. A commit of data alone leaves one
    /// track to those that make room at home.
    ///
    /// A commit that replaces versions which the log still holds must not wait for space afterwards: it
    /// would wait for the very tracks that it keeps from being freed.
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
            "a commit that the log can never hold"
        );
        self.check()?;
        self.check_given_up()?;
        let spare = match ranges {
            0 => self.0.geometry.spare_sectors(sectors),
            _ => 0,
        };
        let nobody_waits = self.0.state.borrow().space_queue.is_empty();
        let promised = nobody_waits.then(|| self.promise(sectors, spare));
        if let Some(admission) = promised.flatten() {
            return Ok(admission);
        }
        let ticket = Ticket::draw(self);
        let turn = self.0.turn.wait(ticket.number);
        self.want_space();
        turn.await;
        loop {
            self.check()?;
            self.check_given_up()?;
            let progress = self.0.progress.wait();
            if let Some(admission) = self.promise(sectors, spare) {
                return Ok(admission);
            }
            self.want_space();
            progress.await;
        }
    }

    /// Promises `sectors` if `spare` others are left.
    fn promise(&self, sectors: u64, spare: u64) -> Option<Admission> {
        let mut state = self.0.state.borrow_mut();
        let fits = state.space(&self.0.geometry) >= sectors + spare;
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

/// A place in the queue of those who wait for log space.
struct Ticket<'a> {
    trail: &'a Trail,
    number: u64,
}

impl<'a> Ticket<'a> {
    fn draw(trail: &'a Trail) -> Self {
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
        // Nearly always the first place; tickets are in ascending order.
        let at = state.space_queue.binary_search(&self.number);
        state
            .space_queue
            .remove(at.expect("a ticket is queued while it lives"));
        let first = state.space_queue.front().copied();
        inner.turn.raise(first.unwrap_or(state.next_ticket));
    }
}

/// Log space for one commit; given back when it is dropped.
pub struct Admission {
    trail: Trail,
    pub(super) sectors: u64,
}

impl Admission {
    /// True when it was given for a commit of `blocks` blocks of data and `ranges` ranges, or more.
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
            // Of a commit that was given up, or that needs less than was promised.
            inner.progress.notify();
        }
    }
}
