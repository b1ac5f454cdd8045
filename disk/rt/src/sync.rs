//! Notifications between tasks of one thread.

use crate::executor::{Rt, TaskId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tonearm_base::Nanos;

/// Wakes all waiting tasks. Use it in a loop around a condition: `while !condition() { notify.wait().await }`.
#[derive(Clone)]
pub struct Notify(Rc<NotifyState>);

struct NotifyState {
    rt: Rt,
    rounds: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
    /// For each task slot: the task that was recorded last, and its round. So a look-up takes constant time.
    noted: RefCell<Vec<Option<(TaskId, u64)>>>,
}

impl Notify {
    /// A notifier for tasks of `rt`.
    pub fn new(rt: &Rt) -> Self {
        Self(Rc::new(NotifyState {
            rt: rt.clone(),
            rounds: Cell::new(0),
            waiters: RefCell::default(),
            noted: RefCell::default(),
        }))
    }

    /// Resolves at the first [`Notify::notify`] from now on.
    pub fn wait(&self) -> Notified {
        Notified {
            state: self.0.clone(),
            round: self.0.rounds.get(),
        }
    }

    /// Wakes every waiting task.
    pub fn notify(&self) {
        self.0.rounds.set(self.0.rounds.get() + 1);
        for task in self.0.waiters.borrow_mut().drain(..) {
            self.0.rt.wake(task);
        }
    }
}

/// A wait for a notification. A task that has polled it stays recorded after it is dropped, so that a task may poll
/// a new one each time that it checks its condition.
pub struct Notified {
    state: Rc<NotifyState>,
    round: u64,
}

impl Notified {
    /// Waits at most until the clock has reached `at`.
    pub async fn until(mut self, at: Nanos) {
        let mut sleep = self.state.rt.sleep_until(at);
        std::future::poll_fn(|context| match Pin::new(&mut self).poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Pin::new(&mut sleep).poll(context),
        })
        .await;
    }
}

impl Future for Notified {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.state.rounds.get() != self.round {
            return Poll::Ready(());
        }
        let task = self.state.rt.current_task();
        let mut noted = self.state.noted.borrow_mut();
        if noted.len() <= task.slot() {
            noted.resize(task.slot() + 1, None);
        }
        let note = Some((task, self.round));
        if noted[task.slot()] != note {
            noted[task.slot()] = note;
            self.state.waiters.borrow_mut().push(task);
        }
        Poll::Pending
    }
}
