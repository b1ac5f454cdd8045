//! Who drives the engine: leader and followers.
//!
//! The engine, its executor and its ring are of one thread at a time: the leader, whoever has put its mark into
//! `leader`. A caller that finds no leader leads until its own job is done; a caller that finds one puts its
//! job into the queue, wakes the leader if that sleeps in the ring, and waits. A leader that leaves offers the lead to
//! one who waits. When nobody leads, the keeper looks in from time to time (`keeper.rs`).
//!
//! Invariants:
//! 1. Only the leader touches the engine. Marks are taken and given back with sequentially consistent
//!    operations, so whoever leads sees all that the leaders before did.
//! 2. Nobody waits for nothing: a follower enters the list of those who wait before it looks for a leader, and a
//!    leader gives its mark back before it looks at that list; so one of the two sees the other. The same holds for
//!    `asleep` and the queue.
//! 3. An offer is not lost: only leaders end jobs, and every leader that leaves makes a new offer while a job is
//!    left.
//! 4. A job's panic is caught where the job is polled and goes on where it was called. A panic of anything else in
//!    the engine ends the store for all.

mod job;
mod keeper;
mod seat;

use crate::error::StoreError;
use crate::store::Context;
use job::{Outcome, outcome_of};
use keeper::Keeper;
use seat::Seat;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uring::EventSender;

/// Looks for the lead before a caller gives its job away: a leader that is at work leaves soon, and to be woken
/// takes longer than that.
const LOOKS: usize = 100;

/// The engine with what jobs are given.
pub(crate) struct Engine {
    context: Context,
}

impl Engine {
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

/// A job on its way to the leader.
type Job = Box<dyn FnOnce(&Engine) + Send>;

const OPEN: u8 = 0;
/// New jobs are refused, those under way may end.
const CLOSING: u8 = 1;
const CLOSED: u8 = 2;
const PANICKED: u8 = 3;

const NOBODY: usize = 0;

/// The seat of the leader, and those who wait.
pub(crate) struct Lead {
    /// Mark of the thread that leads.
    leader: AtomicUsize,
    engine: UnsafeCell<Option<Engine>>,
    state: AtomicU8,
    queue: Mutex<VecDeque<Job>>,
    queued: AtomicUsize,
    /// The leader waits in the ring, or is about to.
    asleep: AtomicBool,
    waiting: Mutex<Vec<Arc<Seat>>>,
    waiters: AtomicUsize,
    /// The process that opened the store.
    process: u32,
    kind: Kind,
}

enum Kind {
    /// Of all threads of the process.
    Shared { bell: EventSender, keeper: Keeper },
    /// Of the thread with this mark.
    OfOneThread(usize),
}

// SAFETY: everything but `engine` is Send and Sync by itself. `engine` is reached by the leader alone (invariant 1), one
// thread at a time, with the necessary ordering; what it holds (reference counts, cells, the ring) is not tied to a
// thread: no crate below keeps thread-local state. Nothing of it gets out, since what jobs return is Send, and what
// they keep they must keep in the engine (`Store::run`). A store of one thread, whose maker may hold parts of the
// engine, is refused to all others, also when it is dropped.
unsafe impl Send for Lead {}
// SAFETY: as above.
unsafe impl Sync for Lead {}

impl Lead {
    /// The lead over a shared engine, and its keeper.
    ///
    /// # Errors
    /// When the system has no thread left; the engine is let go then.
    pub fn start(engine: Engine, bell: EventSender) -> Result<Arc<Self>, StoreError> {
        let kind = Kind::Shared {
            bell,
            keeper: Keeper::default(),
        };
        let lead = Arc::new(Self::new(engine, kind));
        if let Err(error) = keeper::start(&lead) {
            lead.let_go();
            return Err(StoreError::Thread(error));
        }
        Ok(lead)
    }

    /// The lead over an engine that the calling thread alone may use.
    pub fn of_one_thread(engine: Engine) -> Arc<Self> {
        Arc::new(Self::new(engine, Kind::OfOneThread(mark())))
    }

    fn new(engine: Engine, kind: Kind) -> Self {
        Self {
            leader: AtomicUsize::new(NOBODY),
            engine: UnsafeCell::new(Some(engine)),
            state: AtomicU8::new(OPEN),
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            waiting: Mutex::default(),
            waiters: AtomicUsize::new(0),
            process: std::process::id(),
            kind,
        }
    }

    /// `Store::run`.
    pub fn run<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.may_call()?;
        match self.state.load(SeqCst) {
            OPEN => {}
            state => return Err(ended(state)),
        }
        let outcome = match self.look_for_lead() {
            Some(led) => self.run_own(&led, job)?,
            None => self.run_with_others(job)?,
        };
        outcome.map_err(|panic| resume_unwind(panic))
    }

    /// `Store::close`.
    pub fn close(&self) -> Result<(), StoreError> {
        self.may_call()?;
        let begun = self.state.compare_exchange(OPEN, CLOSING, SeqCst, SeqCst);
        begun.map_err(ended)?;
        let led = self.wait_for_lead()?;
        let closing = |context: Context| async move {
            context.sessions.end_all();
            context.units.clear();
            context.disk.close().await
        };
        let closed = self.run_own(&led, closing);
        if self.state.load(SeqCst) == CLOSING {
            self.end(&led, CLOSED);
        }
        drop(led);
        if let Kind::Shared { keeper, .. } = &self.kind {
            keeper.join();
        }
        let closed = closed?.map_err(|panic| resume_unwind(panic));
        closed.and_then(|closed| Ok(closed?))
    }

    /// The last handle is dropped.
    pub fn abandon(self: &Arc<Self>) {
        match self.may_call() {
            Ok(()) => {}
            // By a job: the leader cannot wait for itself.
            Err(StoreError::Nested) => {
                let lead = self.clone();
                // Without a thread the next opening recovers.
                let _ = std::thread::Builder::new().spawn(move || lead.close());
                return;
            }
            // In a child process, or on the wrong thread: nothing of the engine may be touched.
            Err(_) => return std::mem::forget(self.clone()),
        }
        // Nobody is left to be told.
        let _ = self.close();
    }

    fn may_call(&self) -> Result<(), StoreError> {
        if std::process::id() != self.process {
            return Err(StoreError::Forked);
        }
        let mark = mark();
        match self.kind {
            Kind::OfOneThread(only) if only != mark => Err(StoreError::WrongThread),
            _ if self.leader.load(SeqCst) == mark => Err(StoreError::Nested),
            _ => Ok(()),
        }
    }

    fn try_lead(&self) -> Option<Led<'_>> {
        let taken = self.leader.compare_exchange(NOBODY, mark(), SeqCst, SeqCst);
        // Not made where it is not had: its drop gives the lead back.
        taken.is_ok().then(|| Led { lead: self })
    }

    fn look_for_lead(&self) -> Option<Led<'_>> {
        for _ in 0..LOOKS {
            if self.leader.load(SeqCst) == NOBODY
                && let Some(led) = self.try_lead()
            {
                return Some(led);
            }
            // Who sleeps in the ring is there for long.
            if self.asleep.load(SeqCst) {
                break;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Waits until nobody else leads.
    fn wait_for_lead(&self) -> Result<Led<'_>, StoreError> {
        let waiting = Waiting::enter(self);
        loop {
            if let Some(led) = self.try_lead() {
                return match self.state.load(SeqCst) {
                    OPEN | CLOSING => Ok(led),
                    state => Err(ended(state)),
                };
            }
            waiting.seat.wait();
        }
    }

    fn run_own<T, F>(
        &self,
        led: &Led<'_>,
        job: impl FnOnce(Context) -> F + 'static,
    ) -> Result<Outcome<T>, StoreError>
    where
        T: 'static,
        F: Future<Output = T> + 'static,
    {
        let engine = led.engine()?;
        let context = engine.context.clone();
        let task = engine.context.rt.spawn(outcome_of(job, context));
        let mut outcome = None;
        self.drive(led, || {
            outcome = task.take();
            outcome.is_some()
        })?;
        outcome.ok_or(StoreError::Stuck)
    }

    fn run_with_others<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<Outcome<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let waiting = Waiting::enter(self);
        let (seat, result) = (waiting.seat.clone(), Arc::new(Mutex::new(None)));
        let place = result.clone();
        self.enqueue(Box::new(move |engine| {
            let context = engine.context.clone();
            engine.context.rt.spawn_detached(async move {
                let outcome = outcome_of(job, context).await;
                *locked(&place) = Some(outcome);
                seat.done();
            });
        }));
        loop {
            // The state first: a job that ends does so before the state changes.
            let state = self.state.load(SeqCst);
            if waiting.seat.is_done() {
                let outcome = locked(&result).take();
                return outcome.ok_or(StoreError::Stuck);
            }
            if state == CLOSED || state == PANICKED {
                return Err(ended(state));
            }
            if let Some(led) = self.try_lead() {
                if led.engine().is_ok() {
                    self.drive(&led, || waiting.seat.is_done())?;
                }
                continue;
            }
            waiting.seat.wait();
        }
    }

    fn enqueue(&self, job: Job) {
        let mut queue = locked(&self.queue);
        queue.push_back(job);
        self.queued.store(queue.len(), SeqCst);
        drop(queue);
        if let Kind::Shared { bell, .. } = &self.kind
            && self.asleep.swap(false, SeqCst)
        {
            bell.notify();
        }
    }

    /// Runs the engine until `done`, with all jobs that come meanwhile.
    fn drive(&self, led: &Led<'_>, done: impl FnMut() -> bool) -> Result<(), StoreError> {
        let driven = catch_unwind(AssertUnwindSafe(|| self.drive_on(led.engine()?, done)));
        driven.unwrap_or_else(|_| {
            self.end(led, PANICKED);
            Err(StoreError::Panicked)
        })
    }

    fn drive_on(&self, engine: &Engine, mut done: impl FnMut() -> bool) -> Result<(), StoreError> {
        let rt = &engine.context.rt;
        loop {
            self.take_in(engine);
            rt.run_ready();
            if done() {
                return Ok(());
            }
            self.asleep.store(true, SeqCst);
            if self.queued.load(SeqCst) == 0 {
                let moved = rt.wait(None);
                let alone = matches!(self.kind, Kind::OfOneThread(_));
                if alone && !moved && rt.in_flight() == 0 {
                    return Err(StoreError::Stuck);
                }
            }
            self.asleep.store(false, SeqCst);
        }
    }

    /// What is ready, due or completed, without waiting.
    fn look_in(&self, led: &Led<'_>) -> Result<(), StoreError> {
        let mut looks = 0;
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let engine = led.engine()?;
            while looks < 2 {
                self.take_in(engine);
                engine.context.rt.run_ready();
                engine.context.rt.wait(Some(engine.context.rt.now()));
                looks += 1;
            }
            engine.context.rt.run_ready();
            Ok(())
        }));
        looked.unwrap_or_else(|_| {
            self.end(led, PANICKED);
            Err(StoreError::Panicked)
        })
    }

    fn take_in(&self, engine: &Engine) {
        while self.queued.load(SeqCst) > 0 {
            let mut queue = locked(&self.queue);
            let job = queue.pop_front();
            self.queued.store(queue.len(), SeqCst);
            drop(queue);
            if let Some(job) = job {
                job(engine);
            }
        }
    }

    /// The store is over: lets the engine go and tells all who wait.
    fn end(&self, led: &Led<'_>, state: u8) {
        self.state.store(state, SeqCst);
        // SAFETY: `led` is the lead (invariant 1), and no reference from `Led::engine` is alive: those end with the call
        // that took them.
        let engine = unsafe { &mut *led.lead.engine.get() }.take();
        let mine = matches!(self.kind, Kind::Shared { .. });
        let gone = catch_unwind(AssertUnwindSafe(move || {
            if let Some(engine) = engine {
                let rt = engine.context.rt.clone();
                drop(engine);
                if mine {
                    rt.shut_down();
                }
            }
        }));
        // After a panic the engine may panic once more while it is taken down; what is left of it is leaked.
        drop(gone);
        // Jobs that never began.
        let jobs = std::mem::take(&mut *locked(&self.queue));
        self.queued.store(0, SeqCst);
        drop(jobs);
        for seat in locked(&self.waiting).iter() {
            seat.offer();
        }
        if let Kind::Shared { keeper, .. } = &self.kind {
            keeper.stop();
        }
    }

    /// Gives an engine back that was never used.
    fn let_go(&self) {
        if let Some(led) = self.try_lead() {
            self.end(&led, CLOSED);
        }
    }
}

/// The lead, as long as it is held.
struct Led<'a> {
    lead: &'a Lead,
}

impl Led<'_> {
    fn engine(&self) -> Result<&Engine, StoreError> {
        // SAFETY: this is the leader (invariant 1).
        let engine = unsafe { &*self.lead.engine.get() };
        let state = &self.lead.state;
        engine.as_ref().ok_or_else(|| ended(state.load(SeqCst)))
    }
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let lead = self.lead;
        if let (Kind::Shared { keeper, .. }, Ok(engine)) = (&lead.kind, self.engine()) {
            let rt = &engine.context.rt;
            keeper.note(rt.in_flight() > 0, rt.next_timer());
        }
        lead.asleep.store(false, SeqCst);
        lead.leader.store(NOBODY, SeqCst);
        if lead.waiters.load(SeqCst) > 0 {
            let waiting = locked(&lead.waiting);
            if let Some(seat) = waiting.iter().find(|seat| !seat.is_done()) {
                seat.offer();
            }
        }
    }
}

/// A place in the list of those who wait, as long as it is held.
struct Waiting<'a> {
    lead: &'a Lead,
    seat: Arc<Seat>,
}

impl<'a> Waiting<'a> {
    fn enter(lead: &'a Lead) -> Self {
        let seat = Arc::new(Seat::default());
        locked(&lead.waiting).push(seat.clone());
        lead.waiters.fetch_add(1, SeqCst);
        Self { lead, seat }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.lead.waiting);
        waiting.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        self.lead.waiters.fetch_sub(1, SeqCst);
    }
}

fn ended(state: u8) -> StoreError {
    match state {
        PANICKED => StoreError::Panicked,
        _ => StoreError::Closed,
    }
}

/// What tells the running threads apart: the address of something that each has.
fn mark() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// Nothing that these locks guard is left half done by a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
