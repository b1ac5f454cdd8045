//! Locks on ranges of stripes, first come first served.
//!
//! A lock is held from before the first read of an update until after its last write. So no other task reads or changes
//! the parity of a stripe while it does not match the data.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_rt::{Notify, Rt};

/// All locks of an array.
pub(crate) struct RowLocks(Rc<State>);

struct State {
    /// Held and wanted locks, by ticket. A lock is held when no older one overlaps it.
    queue: RefCell<BTreeMap<u64, Range<u64>>>,
    next: Cell<u64>,
    changed: Notify,
}

/// Locked rows. Dropping the guard unlocks them.
pub(crate) struct RowGuard {
    state: Rc<State>,
    ticket: u64,
}

impl RowLocks {
    pub fn new(rt: &Rt) -> Self {
        Self(Rc::new(State {
            queue: RefCell::default(),
            next: Cell::new(0),
            changed: Notify::new(rt),
        }))
    }

    /// Waits until no older lock overlaps `rows`.
    pub async fn lock(&self, rows: Range<u64>) -> RowGuard {
        let ticket = self.0.next.get();
        self.0.next.set(ticket + 1);
        self.0.queue.borrow_mut().insert(ticket, rows.clone());
        // Made before the wait, so that a dropped wait leaves the queue too.
        let guard = RowGuard {
            state: self.0.clone(),
            ticket,
        };
        loop {
            let changed = self.0.changed.wait();
            let overlaps = |other: &Range<u64>| other.start < rows.end && rows.start < other.end;
            let blocked = self
                .0
                .queue
                .borrow()
                .range(..ticket)
                .any(|(_, o)| overlaps(o));
            if !blocked {
                return guard;
            }
            changed.await;
        }
    }
}

impl Drop for RowGuard {
    fn drop(&mut self) {
        self.state.queue.borrow_mut().remove(&self.ticket);
        self.state.changed.notify();
    }
}
