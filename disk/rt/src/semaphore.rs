//! A counting semaphore, first come first served. It bounds memory and queues.

use crate::executor::{Rt, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Units (bytes, slots) that permits take and return.
///
/// A demand above the limit is granted when no unit is taken, so that one large request can proceed. Demands are
/// granted in order, so that small ones do not starve a large one.
#[derive(Clone)]
pub struct Semaphore(Rc<State>);

struct State {
    rt: Rt,
    limit: Cell<u64>,
    used: Cell<u64>,
    next_ticket: Cell<u64>,
    queue: RefCell<VecDeque<Waiting>>,
}

struct Waiting {
    ticket: u64,
    units: u64,
    task: TaskId,
}

impl Semaphore {
    /// A semaphore of `limit` units.
    pub fn new(rt: &Rt, limit: u64) -> Self {
        Self(Rc::new(State {
            rt: rt.clone(),
            limit: Cell::new(limit),
            used: Cell::new(0),
            next_ticket: Cell::new(0),
            queue: RefCell::default(),
        }))
    }

    /// Waits for `units`.
    pub fn acquire(&self, units: u64) -> Acquire {
        Acquire {
            state: self.0.clone(),
            units,
            ticket: None,
        }
    }

    /// Takes `units` at once, even beyond the limit, for something that exists already. Later demands wait longer.
    pub fn take(&self, units: u64) -> Permit {
        self.0.used.set(self.0.used.get() + units);
        Permit {
            state: self.0.clone(),
            units,
        }
    }

    /// Units that are taken.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// All units.
    pub fn limit(&self) -> u64 {
        self.0.limit.get()
    }

    /// Grants every demand from now on, so that waiting tasks notice a failure.
    pub fn close(&self) {
        self.0.limit.set(u64::MAX / 2);
        self.0.wake_first();
    }

    /// Units that must become free before all waiting demands are granted.
    pub fn missing(&self) -> u64 {
        let queue = self.0.queue.borrow();
        let wanted: u64 = queue.iter().map(|waiting| waiting.units).sum();
        wanted.saturating_sub(self.0.limit.get().saturating_sub(self.0.used.get()))
    }

    /// Number of waiting demands.
    pub fn waiting(&self) -> usize {
        self.0.queue.borrow().len()
    }
}

impl State {
    fn fits(&self, units: u64) -> bool {
        self.used.get() == 0 || self.used.get() + units <= self.limit.get()
    }

    fn wake_first(&self) {
        if let Some(first) = self.queue.borrow().front()
            && self.fits(first.units)
        {
            self.rt.wake(first.task);
        }
    }
}

/// A waiting demand.
pub struct Acquire {
    state: Rc<State>,
    units: u64,
    ticket: Option<u64>,
}

impl Future for Acquire {
    type Output = Permit;
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Permit> {
        let state = self.state.clone();
        let task = state.rt.current_task();
        let mut queue = state.queue.borrow_mut();
        let first = match self.ticket {
            None => queue.is_empty(),
            Some(ticket) => queue.front().is_some_and(|front| front.ticket == ticket),
        };
        if !first || !state.fits(self.units) {
            if let Some(ticket) = self.ticket {
                // Tickets are in ascending order.
                let at = queue.binary_search_by_key(&ticket, |waiting| waiting.ticket);
                queue[at.expect("a waiting demand is queued")].task = task;
            } else {
                let ticket = state.next_ticket.get();
                state.next_ticket.set(ticket + 1);
                self.ticket = Some(ticket);
                queue.push_back(Waiting {
                    ticket,
                    units: self.units,
                    task,
                });
            }
            return Poll::Pending;
        }
        drop(queue);
        if self.ticket.take().is_some() {
            state.queue.borrow_mut().pop_front();
        }
        state.used.set(state.used.get() + self.units);
        state.wake_first();
        Poll::Ready(Permit {
            state,
            units: self.units,
        })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut queue = self.state.queue.borrow_mut();
            // Tickets are in ascending order.
            let at = queue.binary_search_by_key(&ticket, |waiting| waiting.ticket);
            queue.remove(at.expect("a waiting demand is queued"));
            drop(queue);
            self.state.wake_first();
        }
    }
}

/// Taken units. Dropping it returns them.
pub struct Permit {
    state: Rc<State>,
    units: u64,
}

impl Permit {
    /// True for a permit of `units` of `semaphore`.
    pub fn is(&self, semaphore: &Semaphore, units: u64) -> bool {
        self.units == units && Rc::ptr_eq(&self.state, &semaphore.0)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.state.used.set(self.state.used.get() - self.units);
        self.state.wake_first();
    }
}
