//! Where a thread waits for its job's end or for the lead.

use super::locked;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

/// The seat of one who waits. (Not `thread::park`: the thread's own token may mean something to its owner.)
#[derive(Default)]
pub(crate) struct Seat {
    done: AtomicBool,
    called: Mutex<bool>,
    changed: Condvar,
}

impl Seat {
    /// The job has ended.
    pub fn done(&self) {
        self.done.store(true, SeqCst);
        self.offer();
    }

    pub fn is_done(&self) -> bool {
        self.done.load(SeqCst)
    }

    /// There is something to look for: the lead is free, or the store has ended.
    pub fn offer(&self) {
        *locked(&self.called) = true;
        self.changed.notify_one();
    }

    /// Until the next call, or the last one if nobody has waited for it.
    pub fn wait(&self) {
        let mut called = locked(&self.called);
        while !*called {
            called = self
                .changed
                .wait(called)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *called = false;
    }
}
