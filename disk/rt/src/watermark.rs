//! A number that only grows, and tasks that wait until it has reached their target.
//!
//! Invariants:
//! 1. Waiting tasks are listed in ascending order of their targets, then in order of arrival. No listed target has
//!    been reached.
//! 2. Raising the number wakes exactly the tasks whose target it reaches.

use crate::executor::{Rt, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A number that only grows, with the tasks that wait for it.
#[derive(Clone)]
pub struct Watermark(Rc<State>);

struct State {
    rt: Rt,
    value: Cell<u64>,
    lifted: Cell<bool>,
    next_ticket: Cell<u64>,
    waiting: RefCell<VecDeque<Waiting>>,
}

struct Waiting {
    target: u64,
    ticket: u64,
    task: TaskId,
}

impl Watermark {
    /// A watermark at `value`, for tasks of `rt`.
    pub fn new(rt: &Rt, value: u64) -> Self {
        Self(Rc::new(State {
            rt: rt.clone(),
            value: Cell::new(value),
            lifted: Cell::new(false),
            next_ticket: Cell::new(0),
            waiting: RefCell::default(),
        }))
    }

    /// Raises the number to `value`, unless it is there already. Returns how many tasks this wakes.
    pub fn raise(&self, value: u64) -> usize {
        let state = &*self.0;
        state.value.set(state.value.get().max(value));
        let mut waiting = state.waiting.borrow_mut();
        let before = waiting.len();
        while waiting
            .front()
            .is_some_and(|first| state.is_over(first.target))
        {
            let first = waiting.pop_front().expect("the list is not empty");
            state.rt.wake(first.task);
        }
        before - waiting.len()
    }

    /// Ends every wait, now and later, so that waiting tasks notice a failure.
    pub fn close(&self) {
        self.0.lifted.set(true);
        self.raise(0);
    }

    /// Waits until the number has reached `target`. [`Watermark::lowest`] counts the wait from this call on.
    ///
    /// # Panics
    /// When called outside of a task.
    pub fn wait(&self, target: u64) -> Reached {
        let state = &self.0;
        let task = state.rt.current_task();
        let ticket = (!state.is_over(target)).then(|| {
            let ticket = state.next_ticket.get();
            state.next_ticket.set(ticket + 1);
            let mut waiting = state.waiting.borrow_mut();
            // Nearly always the last place, because later commits wait later.
            let mut at = waiting.len();
            while at > 0 && waiting[at - 1].target > target {
                at -= 1;
            }
            waiting.insert(
                at,
                Waiting {
                    target,
                    ticket,
                    task,
                },
            );
            ticket
        });
        Reached {
            state: self.0.clone(),
            target,
            task,
            ticket,
        }
    }

    /// The lowest target of all waits.
    pub fn lowest(&self) -> Option<u64> {
        let waiting = self.0.waiting.borrow();
        waiting.front().map(|first| first.target)
    }

    /// Number of waits.
    pub fn waiting(&self) -> usize {
        self.0.waiting.borrow().len()
    }
}

impl State {
    fn is_over(&self, target: u64) -> bool {
        self.lifted.get() || self.value.get() >= target
    }

    fn place_of(&self, target: u64, ticket: u64) -> usize {
        let waiting = self.waiting.borrow();
        let key = |waiting: &Waiting| (waiting.target, waiting.ticket);
        waiting
            .binary_search_by_key(&(target, ticket), key)
            .expect("a wait is listed")
    }
}

/// A wait for a watermark.
pub struct Reached {
    state: Rc<State>,
    target: u64,
    /// The task that the list wakes.
    task: TaskId,
    /// The place in the list, while it may be there.
    ticket: Option<u64>,
}

impl Future for Reached {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(ticket) = self.ticket.filter(|_| !self.state.is_over(self.target)) else {
            self.ticket = None;
            return Poll::Ready(());
        };
        let task = self.state.rt.current_task();
        if task != self.task {
            let at = self.state.place_of(self.target, ticket);
            self.state.waiting.borrow_mut()[at].task = task;
            self.task = task;
        }
        Poll::Pending
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        // A reached target is no longer listed.
        if let Some(ticket) = self.ticket.filter(|_| !self.state.is_over(self.target)) {
            let at = self.state.place_of(self.target, ticket);
            self.state.waiting.borrow_mut().remove(at);
        }
    }
}
