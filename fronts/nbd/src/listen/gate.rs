//! The bound on open connections.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts open connections.
#[derive(Debug)]
pub(super) struct Gate {
    max: usize,
    open: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn new(max: usize) -> Arc<Gate> {
        Arc::new(Gate {
            max,
            open: Mutex::new(0),
            changed: Condvar::new(),
        })
    }

    /// Counts one more connection, unless the gate is full.
    pub(super) fn enter(self: &Arc<Gate>) -> Option<ConnectionGuard> {
        let mut open = self.lock();
        if *open >= self.max {
            return None;
        }
        *open += 1;
        Some(ConnectionGuard(Arc::new(Entry(Arc::clone(self)))))
    }

    pub(super) fn open(&self) -> usize {
        *self.lock()
    }

    /// Waits until no connection is open; false when the time is over first.
    pub(super) fn wait_empty(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut open = self.lock();
        while *open > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            open = self
                .changed
                .wait_timeout(open, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the open connections. Dropping it gives the place back.
pub struct ConnectionGuard(Arc<Entry>);

impl ConnectionGuard {
    /// A second holder of the same place: it is given back when both are gone.
    pub(super) fn share(&self) -> ConnectionGuard {
        ConnectionGuard(Arc::clone(&self.0))
    }
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ConnectionGuard")
    }
}

struct Entry(Arc<Gate>);

impl Drop for Entry {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.changed.notify_all();
    }
}
