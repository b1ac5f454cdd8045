//! Where a thread waits for its job's end, or for something to do.

use super::{locked, now};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tonearm_base::Nanos;
use tonearm_uring::Aside;

/// The seat of one who waits. (Not `thread::park`: the thread's own token may mean something to its owner.)
#[derive(Default)]
pub(crate) struct Seat {
    begun: AtomicBool,
    done: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Not answered yet.
    called: bool,
    rest: Rest,
}

/// What its owner does.
#[derive(Default)]
enum Rest {
    /// Is awake.
    #[default]
    None,
    /// Sleeps on the seat.
    Sleeps,
    /// Watches the ring.
    Watches(Aside),
}

impl Seat {
    /// A leader has taken the job, and goes as far with it as it can.
    pub fn begin(&self) {
        self.begun.store(true, SeqCst);
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(SeqCst)
    }

    /// The job has ended; its caller is called later.
    pub fn end(&self) {
        self.done.store(true, SeqCst);
    }

    pub fn is_done(&self) -> bool {
        self.done.load(SeqCst)
    }

    /// Whether its owner sleeps or watches, and comes as soon as it is called.
    pub fn rests(&self) -> bool {
        !matches!(locked(&self.state).rest, Rest::None)
    }

    /// There is something to look for.
    pub fn call(&self) {
        let mut state = locked(&self.state);
        if std::mem::replace(&mut state.called, true) {
            return;
        }
        let rest = std::mem::take(&mut state.rest);
        // Who wakes up finds the seat unlocked.
        drop(state);
        match rest {
            Rest::None => {}
            Rest::Sleeps => self.changed.notify_one(),
            Rest::Watches(aside) => aside.ring_bell(),
        }
    }

    /// Until the next call, or the last one if nobody has waited for it.
    pub fn wait(&self) {
        let mut state = locked(&self.state);
        state.rest = Rest::Sleeps;
        while !state.called {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *state = State::default();
    }

    /// As [`Seat::wait`], but no longer than until the clock has reached `due`: false then.
    pub fn wait_until(&self, due: Option<Nanos>) -> bool {
        let Some(due) = due else {
            self.wait();
            return true;
        };
        let mut state = locked(&self.state);
        state.rest = Rest::Sleeps;
        while !state.called {
            let left = Duration::from_nanos(due.since(now()).0);
            if left.is_zero() {
                state.rest = Rest::None;
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *state = State::default();
        true
    }

    /// Until the ring has completed something, the clock has reached `due`, or a call that is still to be answered. Not
    /// at all, and false, where one was, which counts as answered then.
    pub fn watch(&self, aside: &Aside, due: Option<Nanos>) -> bool {
        let mut state = locked(&self.state);
        if std::mem::take(&mut state.called) {
            return false;
        }
        state.rest = Rest::Watches(aside.clone());
        drop(state);
        aside.watch(due.map(|due| Duration::from_nanos(due.since(now()).0)));
        locked(&self.state).rest = Rest::None;
        true
    }
}

/// Who is to be called next, of those in the list but `own`: one who rests, and not for its job to be looked at.
/// Otherwise anybody who is not done, who looks when it is done with what it does.
pub(super) fn next(waiting: &[Arc<Seat>], own: Option<&Seat>) -> Option<Arc<Seat>> {
    let is_other = |seat: &&Arc<Seat>| {
        !seat.is_done() && own.is_none_or(|own| !std::ptr::eq(own, Arc::as_ptr(seat)))
    };
    let others = || waiting.iter().filter(is_other);
    let mut ready = others().filter(|seat| seat.has_begun() && seat.rests());
    ready.next().or_else(|| others().next()).cloned()
}

#[cfg(test)]
#[path = "seat_test.rs"]
mod seat_test;
