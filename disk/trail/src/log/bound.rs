//! The bound on the time from a commit until it is durable (Durable WAL 5.7).
//!
//! A flush is asked for when the oldest commit that is not durable has waited for half of the bound. The other half is
//! for the device. A commit that just misses a flush waits for that one and for its own, so the bound is kept as long as
//! the device makes a commit durable within half of it.
//!
//! [`Bound`] is the policy, without I/O: time comes as an argument.

use super::Trail;
use super::cause::FlushCause;
use super::state::State;
use crate::error::TrailError;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tonearm_base::{Lsn, Nanos};
use tonearm_rt::Notified;

/// Commits that were made at one moment.
struct Made {
    at: Nanos,
    last: Lsn,
    missed: bool,
}

/// How long commits took to become durable, where a bound is set.
pub(crate) struct Bound {
    max: Nanos,
    /// Commits that are not durable, oldest first.
    waiting: VecDeque<Made>,
    durable: Lsn,
    delay_max: Nanos,
    missed: u64,
}

impl Bound {
    /// A bound of `max` for commits after `durable`.
    pub fn new(max: Nanos, durable: Lsn) -> Self {
        Self {
            max,
            waiting: VecDeque::new(),
            durable,
            delay_max: Nanos(0),
            missed: 0,
        }
    }

    /// Notes commit `lsn`.
    pub fn committed(&mut self, now: Nanos, lsn: Lsn) {
        match self.waiting.back_mut() {
            Some(made) if made.at == now => made.last = lsn,
            _ => self.waiting.push_back(Made {
                at: now,
                last: lsn,
                missed: false,
            }),
        }
    }

    /// Notes that the commits up to `durable` are durable.
    pub fn durable(&mut self, now: Nanos, durable: Lsn) {
        self.overdue(now);
        while let Some(made) = self.waiting.pop_front_if(|made| made.last <= durable) {
            self.delay_max = Nanos(self.delay_max.0.max(now.since(made.at).0));
            self.durable = made.last;
        }
    }

    /// Counts the commits that the bound is missed for, each once, also while they are not durable.
    pub fn overdue(&mut self, now: Nanos) {
        let mut before = self.durable;
        for made in &mut self.waiting {
            if now.since(made.at) <= self.max {
                break;
            }
            if !made.missed {
                made.missed = true;
                self.missed += made.last - before;
            }
            before = made.last;
        }
    }

    /// When the log is to be made durable; `None` while everything is durable.
    pub fn flush_at(&self) -> Option<Nanos> {
        let oldest = self.waiting.front()?;
        Some(oldest.at + self.max.0 / 2)
    }

    /// The oldest commit that is not durable, with those that were made at the same moment.
    pub fn oldest(&self) -> Option<Lsn> {
        self.waiting.front().map(|made| made.last)
    }

    /// When the bound is missed for the next commits, if they are not durable by then.
    pub fn missed_at(&self) -> Option<Nanos> {
        let next = self.waiting.iter().find(|made| !made.missed)?;
        Some(next.at + self.max.0 + 1)
    }

    /// The longest time that a commit took, and the number of commits that took longer than the bound.
    pub fn observed(&self, now: Nanos) -> (Nanos, u64) {
        let oldest = self.waiting.front();
        let waits = oldest.map_or(0, |made| now.since(made.at).0);
        (Nanos(self.delay_max.0.max(waits)), self.missed)
    }
}

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
