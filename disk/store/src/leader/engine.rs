//! The engine and its jobs, as a leader runs them, over a ring whose calls are made by threads.

use super::state::{Turn, WaiterId};
use std::any::Any;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tonearm_base::Nanos;
use tonearm_rt::Rt;

/// The environment of an engine and its threads: the ring and the clock of a store, or those of a test.
pub(crate) trait Platform: Send + Sync + Sized + 'static {
    /// What jobs get.
    type Context: Clone + 'static;
    /// The driver's calls; used by the leader.
    type Calls: 'static;
    /// A system call to make.
    type Call: Send + 'static;
    /// The result of one.
    type CallResult: Send + 'static;

    /// The executor.
    fn rt(context: &Self::Context) -> &Rt;
    /// A call that the driver leaves to a thread.
    fn take_call(calls: &Self::Calls) -> Option<Self::Call>;
    /// Tells the driver the end of a call.
    fn end_call(calls: &Self::Calls, made: Self::CallResult);
    /// Calls whose ends the driver has not completed.
    fn calls_under_way(calls: &Self::Calls) -> usize;
    /// Makes a call. Any thread may do this.
    fn make(&self, call: Self::Call) -> Self::CallResult;
    /// Waits until the ring has completed something, the watch is interrupted, or `until`. Any thread may do this.
    fn watch(&self, until: Option<Nanos>);
    /// Ends the present watch, or the next one if there is none.
    fn interrupt_watch(&self);
    /// The executor's clock.
    fn now(&self) -> Nanos;
}

/// Begins a job for its waiter. All jobs have one type, so that the code that runs them is compiled once.
pub(crate) type Job<P> = Box<dyn FnOnce(&Core<P>, WaiterId) + Send>;

/// What a job has returned, or the panic that ended it.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// The engine. One thread at a time uses it.
pub(crate) struct Engine<P: Platform> {
    core: Core<P>,
    /// `None`: the driver makes its calls itself.
    calls: Option<P::Calls>,
    /// The work that the leader has taken, and what its turn leaves.
    pub turn: Turn<Job<P>, P::Call, P::CallResult>,
}

/// The handles with which jobs begin.
pub(crate) struct Core<P: Platform> {
    context: P::Context,
    /// Waiters whose jobs have ended in this turn.
    done: Rc<RefCell<Vec<WaiterId>>>,
}

impl<P: Platform> Engine<P> {
    pub fn new(context: P::Context, calls: Option<P::Calls>) -> Self {
        let core = Core {
            context,
            done: Rc::default(),
        };
        Self {
            core,
            calls,
            turn: Turn::default(),
        }
    }

    /// Begins the jobs of the turn, and runs the engine as far as it goes without waiting.
    pub fn run(&mut self) {
        let rt = P::rt(&self.core.context);
        if let Some(calls) = &self.calls {
            for made in self.turn.made.drain(..) {
                P::end_call(calls, made);
            }
        }
        for (id, job) in self.turn.jobs.drain(..) {
            job(&self.core, id);
        }
        loop {
            rt.run_ready();
            // Submits new operations, and takes completed ones.
            if rt.in_flight() > 0 || rt.next_timer().is_some_and(|timer| timer <= rt.now()) {
                rt.wait(Some(Nanos(0)));
            }
            if !rt.has_ready() {
                break;
            }
        }
        let mut calls_under_way = 0;
        if let Some(calls) = &self.calls {
            self.turn
                .calls
                .extend(std::iter::from_fn(|| P::take_call(calls)));
            calls_under_way = P::calls_under_way(calls);
        }
        self.turn.ring_busy = rt.in_flight() > calls_under_way;
        self.turn.timer = rt.next_timer();
        if self.turn.timer.is_some() {
            self.turn.now = rt.now();
        }
        self.note_done();
    }

    /// Notes in the turn which jobs have ended.
    pub fn note_done(&mut self) {
        self.turn.done.append(&mut self.core.done.borrow_mut());
    }

    /// Begins `job` and waits in the driver until `is_done`. False when nothing is left that could complete it.
    pub fn run_alone(&mut self, job: Job<P>, is_done: &dyn Fn() -> bool) -> bool {
        let rt = P::rt(&self.core.context);
        job(&self.core, WaiterId(0));
        loop {
            rt.run_ready();
            self.core.done.borrow_mut().clear();
            if is_done() {
                return true;
            }
            if !rt.wait(None) && rt.in_flight() == 0 {
                return false;
            }
        }
    }

    /// Drops the engine, and its executor unless that belongs to the caller.
    pub fn shut_down(self, with_executor: bool) {
        let rt = P::rt(&self.core.context).clone();
        drop(self);
        if with_executor {
            rt.shut_down();
        }
    }
}

/// A job that puts its outcome into `place`.
pub(crate) fn job_of<P: Platform, T, F>(
    job: impl FnOnce(P::Context) -> F + Send + 'static,
    place: Arc<Mutex<Option<Outcome<T>>>>,
) -> Job<P>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    Box::new(move |core, id| {
        let (context, done) = (core.context.clone(), core.done.clone());
        let rt = P::rt(&core.context);
        rt.spawn_detached(async move {
            let outcome = outcome_of(job, context).await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            drop(place);
            done.borrow_mut().push(id);
        });
    })
}

/// Runs `job` and catches its panics, which go on at its caller.
async fn outcome_of<C, T, F>(job: impl FnOnce(C) -> F, context: C) -> Outcome<T>
where
    F: Future<Output = T>,
{
    let future = catch_unwind(AssertUnwindSafe(|| job(context)))?;
    let mut future = pin!(future);
    poll_fn(|task| {
        // A future that has panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}
