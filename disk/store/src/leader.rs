//! The leader: which thread runs the engine.
//!
//! One thread at a time uses the engine, its executor and its ring: the leader. A thread leads only while there is
//! something to compute. A caller that finds no leader leads, runs its job as far as it goes, and gives up the lead
//! before it waits. A caller that finds a leader leaves its job in the queue. Callers that wait make the device's calls
//! (`tonearm_uring::Calls`), so a thread that waits for a commit writes it. Without calls one of them watches the ring,
//! and the others sleep. While no caller waits, the timer thread takes over (`timer_thread.rs`).
//!
//! [`state::State`] decides all of this; its head has the steps and the invariants. This file keeps the state behind
//! one mutex, takes the steps, and wakes the threads that an event names. `explore_test.rs` tests interleavings of this
//! code.
//!
//! - Two atomics copy parts of the state for threads without the lock: which thread leads, and whether the store is
//!   open.
//! - A job's panic is caught where the job is polled, and goes on at its caller. A panic of anything else in the engine
//!   ends the store for all callers.
//! - A job's future is not `Send`: it holds handles of the engine, whose reference counts are not atomic (`Rc`), and
//!   the type system cannot express "by one thread at a time". So [`Leader::run`] is for jobs of this crate, and for
//!   callers that promise what `Store::run_job` asks for.

mod engine;
mod state;
mod sync;
mod timer_thread;

use crate::error::StoreError;
pub(crate) use engine::{Engine, Platform};
use engine::{Job, Outcome, job_of};
use state::{State, Step, Terminal, Thread, WaiterId, Wake};
use std::cell::UnsafeCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex as Slot, PoisonError};
use std::time::Duration;
use sync::{AtomicUsize, Condvar, JoinHandle, Mutex, MutexGuard, locked, mark};
use tonearm_base::Nanos;
use tonearm_uring::forks;

/// Looks for the end of another thread's turn before a caller sleeps. Turns are short, and waking a thread takes
/// longer.
const LOOKS: usize = if cfg!(test) { 2 } else { 400 };

/// No thread leads.
const NOBODY: usize = 0;

/// Values of [`Leader::phase`].
const OPEN: usize = 0;
const CLOSED: usize = 1;
const PANICKED: usize = 2;

type StateOf<P> = State<Job<P>, <P as Platform>::Call, <P as Platform>::CallResult>;
type StepOf<P> = Step<<P as Platform>::Call>;

/// The engine, and the threads that use it.
pub(crate) struct Leader<P: Platform> {
    shared: Mutex<Shared<P>>,
    /// Used by the leader alone, or by the thread that ends the store.
    engine: UnsafeCell<Option<Engine<P>>>,
    /// The mark of the thread that leads; written under the lock.
    leader: AtomicUsize,
    /// Written under the lock.
    phase: AtomicUsize,
    timer: Condvar,
    ender: Condvar,
    /// Forks that had happened when the store was opened.
    forks: u32,
    kind: Kind<P>,
}

/// The state behind the lock.
struct Shared<P: Platform> {
    state: StateOf<P>,
    /// The condition variable of each waiter. (Not `thread::park`: the program may use the thread's own token.)
    parked: Vec<Arc<Condvar>>,
    timer_thread: Option<JoinHandle>,
}

enum Kind<P> {
    /// All threads of the process may use the store.
    Shared(P),
    /// Only the thread with this mark may use the store.
    OfOneThread(usize),
}

// SAFETY: everything but `engine` is Send and Sync by itself. One thread at a time reaches `engine`: the leader
// (`State`, invariant 1), the thread that ends the store once no thread leads, or the only thread that `Kind` allows.
// That thread holds the mutex at the beginning and at the end of this time, so it sees what the threads before it did.
// What the engine holds (reference counts, cells, the ring) is not tied to a thread: no crate below keeps thread-local
// state. No part of it leaves the engine: the results of jobs are Send, and what jobs keep stays in the engine
// (`Store::run_job`). The maker of a store of one thread may hold parts of its engine. All other threads are refused
// there, also when they drop the store.
unsafe impl<P: Platform> Send for Leader<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Leader<P> {}

impl<P: Platform> Leader<P> {
    /// A shared engine, with its timer thread.
    ///
    /// # Errors
    /// When the system has no thread left; the engine is taken down then.
    pub fn start(engine: Engine<P>, platform: P) -> Result<Arc<Self>, StoreError> {
        let leader = Arc::new(Self::new(engine, Kind::Shared(platform)));
        match timer_thread::start(&leader) {
            Ok(thread) => locked(&leader.shared).timer_thread = Some(thread),
            Err(error) => {
                leader.end(Terminal::Closed);
                return Err(StoreError::Thread(error));
            }
        }
        Ok(leader)
    }

    /// An engine that the calling thread alone may use.
    pub fn of_one_thread(engine: Engine<P>) -> Arc<Self> {
        Arc::new(Self::new(engine, Kind::OfOneThread(mark())))
    }

    fn new(engine: Engine<P>, kind: Kind<P>) -> Self {
        Self {
            shared: Mutex::new(Shared {
                state: State::new(),
                parked: Vec::new(),
                timer_thread: None,
            }),
            engine: UnsafeCell::new(Some(engine)),
            leader: AtomicUsize::new(NOBODY),
            phase: AtomicUsize::new(OPEN),
            timer: Condvar::new(),
            ender: Condvar::new(),
            forks: forks(),
            kind,
        }
    }

    /// Runs `job` beside those of other threads, and waits for its end. A panic of the job goes on here.
    pub fn run<T, F>(
        &self,
        job: impl FnOnce(P::Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.check()?;
        let outcome = self.outcome(job, false)?;
        outcome.map_err(|panic| resume_unwind(panic))
    }

    fn outcome<T, F>(
        &self,
        job: impl FnOnce(P::Context) -> F + Send + 'static,
        last: bool,
    ) -> Result<Outcome<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let result = Arc::new(Slot::new(None));
        let take = || {
            let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
            result.take()
        };
        let job = job_of(job, result.clone());
        match &self.kind {
            Kind::Shared(platform) => self.run_with_others(platform, job, last)?,
            Kind::OfOneThread(_) => self.run_alone(job, &|| Arc::strong_count(&result) == 1)?,
        }
        take().ok_or(StoreError::Stuck)
    }

    /// Whether the store may be called here and is open.
    pub fn check(&self) -> Result<(), StoreError> {
        self.may_call()?;
        match self.phase.load(Relaxed) {
            OPEN => Ok(()),
            PANICKED => Err(StoreError::Panicked),
            _ => Err(StoreError::Closed),
        }
    }

    /// Runs the last `job`, and ends the store. Returns the result of the job. A panic of the job goes on here.
    pub fn close<T, F>(
        &self,
        job: impl FnOnce(P::Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.may_call()?;
        let mut shared = locked(&self.shared);
        shared.state.close()?;
        self.publish_phase(&shared);
        drop(shared);
        let closed = self.outcome(job, true);
        self.end(Terminal::Closed);
        self.join_timer_thread();
        closed?.map_err(|panic| resume_unwind(panic))
    }

    /// As [`Leader::close`], for the last handle of a store, on whatever thread it is dropped. `before` may call the store
    /// a last time.
    pub fn abandon<F>(
        self: &Arc<Self>,
        before: impl FnOnce(&Arc<Self>) + Send + 'static,
        job: impl FnOnce(P::Context) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        match self.may_call() {
            Ok(()) => {}
            // A job has dropped the handle. The leader cannot wait for itself.
            Err(StoreError::Nested) => {
                let leader = self.clone();
                // If no thread can be started, the next opening recovers the store.
                let _ = sync::spawn("tonearm-close", move || {
                    before(&leader);
                    let _ = leader.close(job);
                });
                return;
            }
            // In a child process, or on the wrong thread: no part of the engine may be touched.
            Err(_) => {
                std::mem::forget(before);
                return std::mem::forget(self.clone());
            }
        }
        before(self);
        // No caller is left to get the error.
        let _ = self.close(job);
    }

    /// Whether all threads of the process may use the store.
    pub fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Shared(_))
    }

    fn may_call(&self) -> Result<(), StoreError> {
        if forks() != self.forks {
            return Err(StoreError::Forked);
        }
        let mark = mark();
        match self.kind {
            Kind::OfOneThread(only) if only != mark => Err(StoreError::WrongThread),
            // Exact: no other thread writes this thread's mark.
            _ if self.leader.load(Relaxed) == mark => Err(StoreError::Nested),
            _ => Ok(()),
        }
    }

    fn run_with_others(&self, platform: &P, job: Job<P>, last: bool) -> Result<(), StoreError> {
        self.look_for_lead();
        let mut shared = locked(&self.shared);
        let (id, step) = shared.state.begin(job, last)?;
        if shared.parked.len() <= id.0 {
            shared.parked.push(Arc::default());
        }
        let mut step = self.unlock(shared, step);
        let thread = Thread::Waiter(id);
        loop {
            step = match step {
                Step::Lead => self.lead(thread),
                Step::Call(call) => {
                    let made = platform.make(call);
                    self.apply(|state| state.called(thread, made))
                }
                Step::Watch(until) => {
                    platform.watch(until);
                    let now = platform.now();
                    self.apply(|state| state.woken(id, now))
                }
                Step::Park { until, briefly } => self.park(platform, id, until, briefly),
                Step::TimerWait => unreachable!("the timer thread alone waits so"),
                Step::Done => return Ok(()),
                Step::Terminal(over) => return Err(over.into()),
            }
        }
    }

    /// Runs `job` on the only thread that may use the store.
    fn run_alone(&self, job: Job<P>, is_done: &dyn Fn() -> bool) -> Result<(), StoreError> {
        // SAFETY: this is the only thread, and no other reference is alive: a job that calls the store is refused.
        let engine = unsafe { &mut *self.engine.get() };
        let Some(engine) = engine else {
            return Err(StoreError::Closed);
        };
        self.leader.store(mark(), Relaxed);
        let ran = catch_unwind(AssertUnwindSafe(|| engine.run_alone(job, is_done)));
        self.leader.store(NOBODY, Relaxed);
        match ran {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Stuck),
            Err(_) => {
                self.end(Terminal::Panicked);
                Err(StoreError::Panicked)
            }
        }
    }

    /// Runs the engine as far as it goes without waiting, on the calling thread, which leads.
    fn lead(&self, thread: Thread) -> StepOf<P> {
        // SAFETY: this thread leads, and gives up the lead below, where `engine` is used last.
        let engine = unsafe { &mut *self.engine.get() };
        let engine = engine
            .as_mut()
            .expect("the engine is there as long as there are leaders");
        match catch_unwind(AssertUnwindSafe(|| engine.run())) {
            Ok(()) => self.apply(|state| {
                let step = state.turned(thread, &mut engine.turn);
                if !state.is_led() {
                    self.leader.store(NOBODY, Relaxed);
                }
                step
            }),
            Err(_) => self.panicked(thread, engine),
        }
    }

    /// Handles a panic of the engine under the calling thread, which leads.
    fn panicked(&self, thread: Thread, engine: &mut Engine<P>) -> StepOf<P> {
        engine.note_done();
        let mut shared = locked(&self.shared);
        let jobs = shared.state.end(Terminal::Panicked);
        self.publish_phase(&shared);
        shared.state.give_up(&mut engine.turn);
        self.leader.store(NOBODY, Relaxed);
        self.wake(shared);
        if let Some(jobs) = jobs {
            drop(jobs);
            self.shut_down();
        }
        self.apply(|state| state.next(thread))
    }

    /// Ends the store, unless another thread does or has done so.
    fn end(&self, over: Terminal) {
        let mut shared = locked(&self.shared);
        let Some(jobs) = shared.state.end(over) else {
            return;
        };
        self.publish_phase(&shared);
        self.wake(shared);
        // Dropped outside of the lock, because a job may hold a value that calls the store when it is dropped.
        drop(jobs);
        self.shut_down();
    }

    /// Takes the engine down once no thread uses it, and wakes all waiters.
    fn shut_down(&self) {
        let mut shared = locked(&self.shared);
        while !shared.state.may_end() {
            shared = sync::wait(&self.ender, shared);
        }
        self.leader.store(mark(), Relaxed);
        drop(shared);
        // SAFETY: no thread leads any more (`State`, invariant 1), and this thread alone ends the store.
        let engine = unsafe { &mut *self.engine.get() }.take();
        let mine = matches!(self.kind, Kind::Shared(_));
        let gone = catch_unwind(AssertUnwindSafe(move || {
            if let Some(engine) = engine {
                engine.shut_down(mine);
            }
        }));
        // After a panic the engine may panic again while it is dropped. The rest of it is leaked then.
        drop(gone);
        let mut shared = locked(&self.shared);
        self.leader.store(NOBODY, Relaxed);
        shared.state.gone();
        self.wake(shared);
    }

    fn join_timer_thread(&self) {
        let thread = locked(&self.shared).timer_thread.take();
        if let Some(thread) = thread {
            sync::join(thread);
        }
    }

    /// Waits a short time for the end of another thread's turn.
    fn look_for_lead(&self) {
        for _ in 0..LOOKS {
            if self.leader.load(Relaxed) == NOBODY {
                return;
            }
            sync::spin_loop();
        }
    }

    /// Sleeps until the waiter is woken, or `until`.
    fn park(&self, platform: &P, id: WaiterId, until: Option<Nanos>, briefly: bool) -> StepOf<P> {
        if briefly {
            self.look_for_lead();
        }
        let mut shared = locked(&self.shared);
        if !briefly || shared.state.is_led() {
            let condvar = shared.parked[id.0].clone();
            while !shared.state.is_woken(id) {
                let left = until.map(|until| until.since(platform.now()));
                shared = match left {
                    Some(Nanos(0)) => break,
                    left => rest(&self.shared, &condvar, shared, left),
                };
            }
        }
        let now = platform.now();
        let step = shared.state.woken(id, now);
        self.unlock(shared, step)
    }

    /// Reports an event to the state. Returns the next step.
    fn apply(&self, event: impl FnOnce(&mut StateOf<P>) -> StepOf<P>) -> StepOf<P> {
        let mut shared = locked(&self.shared);
        let step = event(&mut shared.state);
        self.unlock(shared, step)
    }

    /// Begins a step.
    fn unlock(&self, mut shared: MutexGuard<'_, Shared<P>>, step: StepOf<P>) -> StepOf<P> {
        if matches!(step, Step::Lead) {
            self.leader.store(mark(), Relaxed);
            // SAFETY: this thread leads from now on.
            let engine = unsafe { &mut *self.engine.get() };
            if let Some(engine) = engine {
                shared.state.take_work(&mut engine.turn);
            }
        }
        self.wake(shared);
        step
    }

    /// Wakes the threads that events have named, after releasing the lock, so that they find it free.
    fn wake(&self, mut shared: MutexGuard<'_, Shared<P>>) {
        let wakes = shared.state.take_wakes();
        if wakes.is_empty() {
            return;
        }
        let condvar = |wake: &Wake| match wake {
            Wake::Parked(id) => Some(shared.parked[id.0].clone()),
            _ => None,
        };
        let condvars: Vec<_> = wakes.iter().map(condvar).collect();
        drop(shared);
        for (wake, condvar) in wakes.into_iter().zip(condvars) {
            match (wake, &self.kind) {
                (Wake::Watcher, Kind::Shared(platform)) => platform.interrupt_watch(),
                (Wake::Timer, _) => self.timer.notify_one(),
                (Wake::Ender, _) => self.ender.notify_one(),
                _ => condvar.iter().for_each(|condvar| condvar.notify_one()),
            }
        }
    }

    fn publish_phase(&self, shared: &Shared<P>) {
        let phase = match shared.state.over() {
            None => OPEN,
            Some(Terminal::Closed) => CLOSED,
            Some(Terminal::Panicked) => PANICKED,
        };
        self.phase.store(phase, Relaxed);
    }
}

/// Waits for `condvar` without the lock, no longer than for `left`.
fn rest<'a, T>(
    mutex: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    left: Option<Nanos>,
) -> MutexGuard<'a, T> {
    match left {
        None => sync::wait(condvar, guard),
        Some(left) => sync::wait_for(mutex, condvar, guard, Duration::from_nanos(left.0)),
    }
}

impl From<Terminal> for StoreError {
    fn from(over: Terminal) -> Self {
        match over {
            Terminal::Closed => Self::Closed,
            Terminal::Panicked => Self::Panicked,
        }
    }
}

#[cfg(test)]
mod explore_test;
