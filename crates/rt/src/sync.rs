//! Waiting for another task of the same thread.

use crate::executor::{Rt, TaskId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Wakes all who wait. Use it in a loop around the condition:
/// `while !condition() { notify.wait().await }`.
#[derive(Clone)]
pub struct Notify(Rc<NotifyState>);

struct NotifyState {
    rt: Rt,
    rounds: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
}

impl Notify {
    /// A notifier for tasks of `rt`.
    pub fn new(rt: &Rt) -> Self {
        Self(Rc::new(NotifyState {
            rt: rt.clone(),
            rounds: Cell::new(0),
            waiters: RefCell::default(),
        }))
    }

    /// Ends at the first [`Notify::notify`] from now on.
    pub fn wait(&self) -> Notified {
        Notified {
            state: self.0.clone(),
            round: self.0.rounds.get(),
            listed: None,
        }
    }

    /// Wakes every task that waits.
    pub fn notify(&self) {
        self.0.rounds.set(self.0.rounds.get() + 1);
        for task in self.0.waiters.borrow_mut().drain(..) {
            self.0.rt.wake(task);
        }
    }
}

/// A wait for a notification.
pub struct Notified {
    state: Rc<NotifyState>,
    round: u64,
    /// The task that is listed for this wait.
    listed: Option<TaskId>,
}

impl Notified {
    fn is_over(&self) -> bool {
        self.state.rounds.get() != self.round
    }

    fn unlist(&mut self) {
        // A notification has emptied the list.
        if let Some(task) = self.listed.take().filter(|_| !self.is_over()) {
            let mut waiters = self.state.waiters.borrow_mut();
            let at = waiters.iter().rposition(|waiter| *waiter == task);
            waiters.remove(at.expect("who waits is listed"));
        }
    }
}

impl Future for Notified {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        let task = self.state.rt.current_task();
        if self.listed != Some(task) {
            self.unlist();
            self.listed = Some(task);
            self.state.waiters.borrow_mut().push(task);
        }
        Poll::Pending
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        self.unlist();
    }
}
