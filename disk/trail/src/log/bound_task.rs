//! The task that keeps the bound on the time until a commit is durable (`bound.rs`).

use super::Trail;
use super::bound::Bound;
use super::cause::FlushCause;
use super::state::State;
use crate::error::TrailError;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tonearm_base::{Lsn, Nanos};
use tonearm_rt::Notified;

impl Trail {
    /// Keeps the bound until the log ends.
    pub(super) async fn bound_loop(self) {
        let inner = &*self.0;
        while !inner.stopped.get() && self.check().is_ok() {
            let begun = inner.bound.wait();
            let due = {
                let state = inner.state.borrow();
                let bound = state.bound.as_ref().expect("the loop has a bound");
                bound.flush_at().zip(bound.oldest())
            };
            match due {
                None => begun.await,
                Some((at, _)) if inner.rt.now() < at => inner.rt.sleep_until(at).await,
                Some((_, oldest)) => {
                    if self.wait_in_bound(oldest).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Makes commit `lsn` durable. Notes a missed bound at once, also when the device does not answer.
    async fn wait_in_bound(&self, lsn: Lsn) -> Result<(), TrailError> {
        let mut durable = pin!(self.wait_durable(lsn, FlushCause::Bound));
        loop {
            let missed_at = {
                let state = self.0.state.borrow();
                state.bound.as_ref().and_then(Bound::missed_at)
            };
            let Some(missed_at) = missed_at else {
                return durable.await;
            };
            let mut missed = pin!(self.0.rt.sleep_until(missed_at));
            let ended = poll_fn(|context| match durable.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => missed.as_mut().poll(context).map(|()| None),
            });
            if let Some(ended) = ended.await {
                return ended;
            }
            self.note_bound(|bound, now| bound.overdue(now));
        }
    }

    /// Runs `note` on the bound, if there is one, and notifies those that wait for a missed bound.
    pub(super) fn note_bound(&self, note: impl FnOnce(&mut Bound, Nanos)) {
        let now = self.0.rt.now();
        let mut state = self.0.state.borrow_mut();
        if state.note_bound(now, note) {
            drop(state);
            self.0.bound_missed.notify();
        }
    }

    /// Resolves when the bound is missed for further commits ([`TrailOptions::delay_max`]).
    pub fn bound_missed(&self) -> Notified {
        self.0.bound_missed.wait()
    }
}

impl State {
    /// True when the bound is missed for further commits.
    pub fn note_bound(&mut self, now: Nanos, note: impl FnOnce(&mut Bound, Nanos)) -> bool {
        let Some(bound) = &mut self.bound else {
            return false;
        };
        let before = bound.missed;
        note(bound, now);
        bound.missed > before
    }
}
