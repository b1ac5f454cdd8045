//! A monitor around an executor (C. A. R. Hoare, "Monitors", 1974): a thread that brings work runs the tasks itself while the
//! executor's own thread waits. So the work does not wait until that thread has woken up.
//!
//! The executor's thread is inside the monitor except while it waits for the ring. Another thread that enters runs what is
//! ready, as far as it goes without waiting. The operations that its tasks begin are left to the executor's thread.
//!
//! Stores in a program have a leader instead (`leader.rs`): their callers wait for results, and there is no other thread.
//!
//! Invariants:
//! 1. A thread uses the executor, its tasks, and what they hold only while it has the lock. The executor's thread has it from
//!    [`Monitor::enter`] on; what it makes of the executor is dropped before the [`ExecutorGuard`].
//! 2. The executor's thread alone uses the driver.
//! 3. No lost wake-ups: a thread ends the wait if it leaves operations behind, or a timer that is due before the end of the
//!    wait, or if what the executor's thread runs has ended. An interruption that comes before the wait ends it too.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonearm_base::Nanos;
use tonearm_rt::{Notify, Rt};
use tonearm_uring::RingWatch;

/// The monitor of an executor; clones are handles.
#[derive(Clone)]
pub struct Monitor(Arc<Shared>);

struct Shared {
    inside: Mutex<Inside>,
    watch: RingWatch,
}

#[derive(Default)]
struct Inside {
    /// Not there before the executor's thread runs, and after it has ended.
    running: Option<Running>,
    /// Until when the executor's thread waits, at most.
    until: Option<Nanos>,
    /// The wait has been interrupted.
    interrupted: bool,
    /// A task has panicked on a thread that has entered.
    panicked: bool,
}

struct Running {
    rt: Rt,
    /// What the executor's thread runs has ended.
    ended: Rc<Cell<bool>>,
}

// SAFETY: `running` is used and dropped by the thread that has the lock (invariant 1). Neither it nor the tasks are tied to a thread:
// no crate below keeps thread-local state.
unsafe impl Send for Inside {}

impl Monitor {
    /// The monitor of the executor with this watch.
    pub fn new(watch: RingWatch) -> Self {
        let inside = Mutex::default();
        Self(Arc::new(Shared { inside, watch }))
    }

    /// Enters on the executor's thread, for as long as the result lives. What the thread makes of the executor must be dropped
    /// before. It must not wait for a thread that has a [`RemoteWaker`] meanwhile.
    pub fn enter(&self) -> ExecutorGuard<'_> {
        ExecutorGuard {
            monitor: self,
            inside: Some(self.lock()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A panic inside is noted there.
        let inside = self.0.inside.lock();
        inside.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The executor's thread, which is inside.
pub struct ExecutorGuard<'a> {
    monitor: &'a Monitor,
    /// `None` only while it waits.
    inside: Option<MutexGuard<'a, Inside>>,
}

impl ExecutorGuard<'_> {
    /// A waker for other threads, and what they notify with it: tasks of `rt` wait for it.
    pub fn remote_waker(&self, rt: &Rt) -> (RemoteWaker, Notify) {
        let notify = Notify::new(rt);
        let waker = RemoteWaker {
            monitor: self.monitor.clone(),
            notify: ManuallyDrop::new(notify.clone()),
        };
        (waker, notify)
    }

    /// Runs `future` and all tasks of `rt` until `future` ends, and lets other threads in while this one waits.
    ///
    /// # Panics
    /// When a task has panicked on another thread.
    pub fn block_on<T: 'static>(
        &mut self,
        rt: &Rt,
        future: impl Future<Output = T> + 'static,
    ) -> T {
        let ended = Rc::new(Cell::new(false));
        let end = ended.clone();
        let handle = rt.spawn(async move {
            let result = future.await;
            end.set(true);
            result
        });
        let rt = rt.clone();
        self.inside().running = Some(Running {
            rt: rt.clone(),
            ended,
        });
        loop {
            rt.run_ready();
            if let Some(result) = handle.take() {
                self.inside().running = None;
                return result;
            }
            // Submits new operations, and takes completed ones.
            rt.wait(Some(Nanos(0)));
            if !rt.has_ready() {
                self.wait(&rt);
            }
        }
    }

    fn inside(&mut self) -> &mut Inside {
        self.inside
            .as_mut()
            .expect("it is inside while it does not wait")
    }

    /// Waits outside for a completion, a timer or another thread.
    fn wait(&mut self, rt: &Rt) {
        let until = rt.next_timer();
        let left = until.map(|until| Duration::from_nanos(until.since(rt.now()).0));
        let inside = self.inside();
        (inside.until, inside.interrupted) = (until, false);
        self.inside = None;
        self.monitor.0.watch.wait(left);
        let inside = self.inside.insert(self.monitor.lock());
        assert!(
            !inside.panicked,
            "a task has panicked on a thread that has entered"
        );
    }
}

impl Drop for ExecutorGuard<'_> {
    fn drop(&mut self) {
        let mut inside = self.inside.take().unwrap_or_else(|| self.monitor.lock());
        inside.running = None;
    }
}

/// Wakes tasks of the executor from threads other than its own.
pub struct RemoteWaker {
    monitor: Monitor,
    /// Used and dropped inside.
    notify: ManuallyDrop<Notify>,
}

// SAFETY: `notify` is used and dropped by the thread that has the lock, as are all parts of the executor (invariant 1).
unsafe impl Send for RemoteWaker {}
// SAFETY: as above.
unsafe impl Sync for RemoteWaker {}

impl RemoteWaker {
    /// Enters, wakes the tasks that wait, and runs what is ready then, as far as it goes. Does nothing once the executor's
    /// thread has ended or a task has panicked. That thread must not call it.
    pub fn notify(&self) {
        let mut inside = self.monitor.lock();
        if inside.take_turn(&self.notify) {
            // Outside, so that the thread that wakes up can enter.
            drop(inside);
            self.monitor.0.watch.interrupt();
        }
    }
}

impl Inside {
    /// Notifies, and runs what is ready. True when the wait of the executor's thread is to be interrupted.
    fn take_turn(&mut self, notify: &Notify) -> bool {
        let Some(Running { rt, ended }) = self.running.as_ref().filter(|_| !self.panicked) else {
            return false;
        };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            notify.notify();
            rt.run_without_driver();
        }));
        self.panicked |= ran.is_err();
        let timer = rt.next_timer();
        let is_earlier = timer.is_some_and(|at| self.until.is_none_or(|until| at < until));
        let is_left = rt.has_waiting_operations() || is_earlier;
        let interrupts = is_left || ended.get() || self.panicked;
        interrupts && !std::mem::replace(&mut self.interrupted, true)
    }
}

impl Drop for RemoteWaker {
    fn drop(&mut self) {
        let _inside = self.monitor.lock();
        // SAFETY: nothing uses it any more.
        unsafe { ManuallyDrop::drop(&mut self.notify) };
    }
}

#[cfg(test)]
#[path = "monitor_test.rs"]
mod monitor_test;
