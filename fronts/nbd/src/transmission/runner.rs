//! Starts requests: one that can end at once costs neither an allocation nor a task.
//!
//! A request is polled where it was received; only what is not ready then becomes a task. Its memory
//! comes back when it ends, for the next request.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_rt::Rt;

/// Places kept for reuse.
const SPARE_MAX: usize = 64;

type Place<F> = Pin<Box<Option<F>>>;

pub(super) struct Runner<F> {
    spare: Rc<RefCell<Vec<Place<F>>>>,
}

impl<F: Future<Output = ()> + 'static> Runner<F> {
    pub fn new() -> Self {
        Self {
            spare: Rc::default(),
        }
    }

    /// Runs `future` as far as it goes, and the rest of it as a task.
    pub fn start(&self, rt: &Rt, future: F) {
        let spare = self.spare.borrow_mut().pop();
        let mut place = spare.unwrap_or_else(|| Box::pin(None));
        place.as_mut().set(Some(future));
        // The executor has no wakers: a leaf notes the task that polls it, and that is updated when
        // the new task polls for the first time.
        if poll(&mut place, &mut Context::from_waker(Waker::noop())).is_ready() {
            return keep(&self.spare, place);
        }
        let spare = self.spare.clone();
        rt.spawn(async move {
            std::future::poll_fn(|context| poll(&mut place, context)).await;
            keep(&spare, place);
        });
    }
}

fn poll<F: Future<Output = ()>>(place: &mut Place<F>, context: &mut Context<'_>) -> Poll<()> {
    place
        .as_mut()
        .as_pin_mut()
        .expect("a started request is polled until it ends")
        .poll(context)
}

fn keep<F>(spare: &RefCell<Vec<Place<F>>>, mut place: Place<F>) {
    place.as_mut().set(None);
    let mut spare = spare.borrow_mut();
    if spare.len() < SPARE_MAX {
        spare.push(place);
    }
}
