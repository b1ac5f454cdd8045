//! Panics of front ends. A task of a front end is contained: when its own code panics, the task ends, and all others go on. A panic in
//! the engine may leave state that contradicts itself, so nothing contains it: it goes on through the caller of the executor.
//!
//! The code of a front end calls the engine within [`Rt::engine`]. So what a contained task does outside of it concerns the task's
//! client alone, and what other tasks share with it must bear that the task has ended at any place.

use crate::executor::Rt;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

/// What the panic of a task ends; clones are handles.
#[derive(Clone)]
pub struct Contained(Rc<What>);

struct What {
    name: &'static str,
    end: Box<dyn Fn()>,
}

impl Contained {
    /// `end` ends it. `name` says what it is, with its article.
    pub fn new(name: &'static str, end: impl Fn() + 'static) -> Self {
        let end = Box::new(end);
        Self(Rc::new(What { name, end }))
    }
}

/// The panics of an executor.
#[derive(Default)]
pub(crate) struct Panics {
    /// One came out of the engine.
    in_engine: Cell<bool>,
    report: RefCell<Option<Report>>,
}

type Report = Box<dyn Fn(&str)>;

impl Panics {
    /// True when a panic came out of the engine.
    pub fn is_in_engine(&self) -> bool {
        self.in_engine.get()
    }

    /// Ends a task that has panicked outside of the engine.
    pub fn end(&self, task: &Contained) {
        let What { name, end } = &*task.0;
        end();
        if let Some(report) = &*self.report.borrow() {
            report(name);
        }
    }
}

/// The engine is being polled. Dropped by a panic, it says so.
struct Inside<'a>(&'a Cell<bool>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl Rt {
    /// Starts a task of a front end. When it panics outside of [`Rt::engine`], it ends, and so does `what`. A panic within goes
    /// on, out of the executor.
    pub fn spawn_contained(&self, what: &Contained, future: impl Future<Output = ()> + 'static) {
        self.spawn_boxed(Box::pin(future), Some(what.clone()));
    }

    /// Runs `future`, which is a call of the engine by a contained task.
    pub async fn engine<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let in_engine = &self.panics().in_engine;
        poll_fn(|context| {
            let inside = Inside(in_engine);
            let polled = future.as_mut().poll(context);
            std::mem::forget(inside);
            polled
        })
        .await
    }

    /// Calls `report` with what has ended, for each contained task that panics.
    pub fn report_panics(&self, report: impl Fn(&str) + 'static) {
        *self.panics().report.borrow_mut() = Some(Box::new(report));
    }
}
