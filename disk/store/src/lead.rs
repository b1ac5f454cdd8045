//! Who drives the engine: leaders by turns.
//!
//! The engine, its executor and its ring are of one thread at a time: the leader, whoever has put its mark into
//! `leader`. Nobody leads for longer than there is something to compute: a caller takes the lead, runs its job as far
//! as it goes, and gives the lead back before it waits. A caller that finds another one leading puts its job into the
//! queue. Who waits makes the device's calls (`tonearm_uring::Aside`): a commit is written by a thread that waits for it.
//! Without calls one of them watches the ring, the others sleep on their seats. When nobody waits, the keeper looks in
//! from time to time (`keeper.rs`).
//!
//! Invariants:
//! 1. Only the leader touches the engine. Marks are taken and given back with sequentially consistent
//!    operations, so whoever leads sees all that the leaders before did.
//! 2. No news is lost: who has some (a job, the end of a call) tells so in `news` before it looks for the
//!    lead, and a leader gives its mark back before it looks there; so one of the two sees the other.
//! 3. Nobody waits for nothing: who waits enters the list before it looks for something to do, and who stops, having
//!    made a call, watched or led, looks for what it leaves (`pass_on`: calls, the ring, a timer) and calls one of the
//!    list for that. Who has led tells those whose jobs have ended (`tell`).
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
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonearm_base::Nanos;
use tonearm_uring::Aside;

/// Looks for the lead before a caller gives its job away: a leader leaves soon, and to be woken takes longer than that.
const LOOKS: usize = 400;

/// A timer of the engine that is due within this time is seen to by those who wait.
const SOON: Nanos = Nanos::from_millis(1);
/// No such timer.
const NEVER: u64 = u64::MAX;

/// The engine with what jobs are given.
pub(crate) struct Engine {
    context: Context,
}

impl Engine {
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

/// Starts a job. One type for all of them: what drives them is compiled once, and not for each.
type Start = Box<dyn FnOnce(&Engine, End) + Send>;

/// A job on its way to the leader.
struct Job {
    start: Start,
    end: End,
}

impl Job {
    fn begin(self, engine: &Engine) {
        self.end.seat.begin();
        (self.start)(engine, self.end);
    }
}

/// Where the end of a job is told.
struct End {
    seat: Arc<Seat>,
    ended: Arc<Mutex<Vec<Arc<Seat>>>>,
}

impl End {
    fn reach(self) {
        self.seat.end();
        locked(&self.ended).push(self.seat);
    }
}

const OPEN: u8 = 0;
/// New jobs are refused, those under way may end.
const CLOSING: u8 = 1;
const CLOSED: u8 = 2;
const PANICKED: u8 = 3;

const NOBODY: usize = 0;

/// The mark of the leader, and those who wait.
pub(crate) struct Lead {
    /// Mark of the thread that leads.
    leader: AtomicUsize,
    engine: UnsafeCell<Option<Engine>>,
    state: AtomicU8,
    queue: Mutex<VecDeque<Job>>,
    /// There is a job in the queue, or a call has ended, since a leader has last looked.
    news: AtomicBool,
    /// Whose jobs have ended, and who are to be told.
    ended: Arc<Mutex<Vec<Arc<Seat>>>>,
    /// As the last leader left it: operations that the ring has under way.
    in_ring: AtomicBool,
    /// Somebody watches the ring.
    watched: AtomicBool,
    waiting: Mutex<Vec<Arc<Seat>>>,
    waiters: AtomicUsize,
    /// When a timer of the engine is due, as the last leader left it to those who wait.
    due: AtomicU64,
    /// One of them wakes until then; the others need not.
    guarded: AtomicU64,
    /// The process that opened the store.
    process: u32,
    kind: Kind,
}

enum Kind {
    /// Of all threads of the process.
    Shared { aside: Aside, keeper: Keeper },
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
    pub fn start(engine: Engine, aside: Aside) -> Result<Arc<Self>, StoreError> {
        let kind = Kind::Shared {
            aside,
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
            ended: Arc::default(),
            news: AtomicBool::new(false),
            in_ring: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            waiting: Mutex::default(),
            waiters: AtomicUsize::new(0),
            due: AtomicU64::new(NEVER),
            guarded: AtomicU64::new(NEVER),
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
        self.check()?;
        let outcome = self.outcome(job)?;
        outcome.map_err(|panic| resume_unwind(panic))
    }

    fn outcome<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<Outcome<T>, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let place = result.clone();
        let start = Box::new(move |engine: &Engine, end: End| {
            let context = engine.context.clone();
            engine.context.rt.spawn_detached(async move {
                let outcome = outcome_of(job, context).await;
                *locked(&place) = Some(outcome);
                end.reach();
            });
        });
        let seat = Arc::new(Seat::default());
        let end = End {
            seat: seat.clone(),
            ended: self.ended.clone(),
        };
        self.drive(Job { start, end }, &seat)?;
        let outcome = locked(&result).take();
        outcome.ok_or(StoreError::Stuck)
    }

    /// Runs `job`, whose end is told to `seat`.
    fn drive(&self, job: Job, seat: &Arc<Seat>) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Shared { aside, .. } => self.run_with_others(aside, job, seat),
            Kind::OfOneThread(_) => self.run_alone(job, seat),
        }
    }

    /// `Store::check`.
    pub fn check(&self) -> Result<(), StoreError> {
        self.may_call()?;
        match self.state.load(SeqCst) {
            OPEN => Ok(()),
            state => Err(over(state)),
        }
    }

    /// `Store::close`.
    pub fn close(&self) -> Result<(), StoreError> {
        self.may_call()?;
        let begun = self.state.compare_exchange(OPEN, CLOSING, SeqCst, SeqCst);
        begun.map_err(over)?;
        let closed = self.outcome(|context: Context| async move {
            context.sessions.end_all();
            context.units.close();
            context.disk.close().await
        });
        let led = self.wait_for_lead();
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
            std::hint::spin_loop();
        }
        None
    }

    /// For an end alone: leaders leave soon.
    fn wait_for_lead(&self) -> Led<'_> {
        loop {
            if let Some(led) = self.try_lead() {
                return led;
            }
            std::thread::yield_now();
        }
    }

    fn run_alone(&self, job: Job, seat: &Seat) -> Result<(), StoreError> {
        let led = self.wait_for_lead();
        let driven = self.guarded(&led, |engine| {
            let rt = &engine.context.rt;
            job.begin(engine);
            loop {
                rt.run_ready();
                if seat.is_done() {
                    return Ok(());
                }
                if !rt.wait(None) && rt.in_flight() == 0 {
                    return Err(StoreError::Stuck);
                }
            }
        });
        // Nobody waits for any of them.
        locked(&self.ended).clear();
        driven?
    }

    fn run_with_others(&self, aside: &Aside, job: Job, seat: &Arc<Seat>) -> Result<(), StoreError> {
        let waiting = match self.look_for_lead() {
            Some(led) => {
                self.guarded(&led, |engine| job.begin(engine))?;
                self.turn(&led)?;
                // Before the lead is given back: the keeper has nothing to do as long as somebody waits.
                (!seat.is_done()).then(|| Waiting::enter(self, seat))
            }
            None => {
                let waiting = Waiting::enter(self, seat);
                locked(&self.queue).push_back(job);
                self.news.store(true, SeqCst);
                Some(waiting)
            }
        };
        self.catch_up()?;
        let ended = loop {
            // The state first: a job that ends does so before the state changes.
            let state = self.state.load(SeqCst);
            if seat.is_done() {
                break Ok(());
            }
            if state == CLOSED || state == PANICKED {
                break Err(over(state));
            }
            self.tell();
            self.wait(aside, seat)?;
        };
        drop(waiting);
        self.pass_on(aside, None);
        self.tell();
        ended
    }

    /// Tells the callers of jobs that have ended. After the next call is on its way: to wake somebody takes its time.
    fn tell(&self) {
        let ended = std::mem::take(&mut *locked(&self.ended));
        ended.iter().for_each(|seat| seat.call());
    }

    /// Makes a call, or watches the ring, or sleeps.
    fn wait(&self, aside: &Aside, seat: &Seat) -> Result<(), StoreError> {
        if !seat.has_begun() {
            // The job may be done as soon as a leader has looked at it: its caller should not be in a call then, which
            // takes as long as the device.
            seat.wait();
            return Ok(());
        }
        if let Some(call) = aside.take() {
            if self.is_unguarded() {
                self.pass_on(aside, Some(seat));
            }
            call.make();
        } else if !aside.is_calling()
            && self.in_ring.load(SeqCst)
            && !self.watched.swap(true, SeqCst)
        {
            let (watched, _) = self.guard(|due| (seat.watch(aside, due), false));
            self.watched.store(false, SeqCst);
            if !watched {
                return Ok(());
            }
            self.news.store(true, SeqCst);
            if self.leader.load(SeqCst) != NOBODY {
                // It takes what the ring has, and sees to who watches next.
                seat.wait();
                return Ok(());
            }
        } else {
            // Who makes a call looks after the ring next.
            let (_, due) = self.guard(|due| ((), !seat.wait_until(due)));
            if !due {
                return Ok(());
            }
        }
        self.news.store(true, SeqCst);
        self.catch_up()
    }

    /// Rests no longer than until the engine's timer is due; whether the caller is the one to see to that. `rest` tells
    /// whether the time is over.
    fn guard<T>(&self, rest: impl FnOnce(Option<Nanos>) -> (T, bool)) -> (T, bool) {
        let due = self.due.load(SeqCst);
        // One alone sees to it: to wake for it and find that another one has been there takes its time.
        if due == NEVER || !self.is_unguarded() {
            return rest(None);
        }
        self.guarded.fetch_min(due, SeqCst);
        let (rested, over) = rest(Some(Nanos(due)));
        // Should others guard it too, one of them is called in vain.
        let _ = self.guarded.compare_exchange(due, NEVER, SeqCst, SeqCst);
        // One alone, and not if the timer has been seen to or put off: a leader goes on as long as it is told of news.
        let taken = || self.due.compare_exchange(due, NEVER, SeqCst, SeqCst);
        (rested, over && taken().is_ok())
    }

    /// A timer is due soon, and none of those who wait knows.
    fn is_unguarded(&self) -> bool {
        self.due.load(SeqCst) < self.guarded.load(SeqCst)
    }

    /// A turn of the keeper, with the calls that nobody waits for.
    fn look_in(&self) -> Result<(), StoreError> {
        let Kind::Shared { aside, .. } = &self.kind else {
            return Ok(());
        };
        self.news.store(true, SeqCst);
        self.catch_up()?;
        while self.waiters.load(SeqCst) == 0
            && let Some(call) = aside.take()
        {
            call.make();
            self.news.store(true, SeqCst);
            self.catch_up()?;
        }
        self.pass_on(aside, None);
        self.tell();
        Ok(())
    }

    /// Sees to it that somebody looks after all news: itself if the lead is soon free, which is cheaper than to be woken.
    fn catch_up(&self) -> Result<(), StoreError> {
        let mut looks = 0;
        while self.news.load(SeqCst) {
            match self.try_lead() {
                Some(led) if led.engine().is_ok() => self.turn(&led)?,
                // The leader sees it before it is done.
                None if looks < LOOKS => {
                    looks += 1;
                    std::hint::spin_loop();
                }
                // Or the store is over.
                _ => break,
            }
        }
        Ok(())
    }

    /// Leaves what there is to do to another one who waits, or to the keeper; `own` is the caller's seat, if it waits.
    fn pass_on(&self, aside: &Aside, own: Option<&Seat>) {
        let in_ring = self.in_ring.load(SeqCst) && !aside.is_calling();
        let unwatched = in_ring && !self.watched.load(SeqCst);
        let unguarded = self.is_unguarded();
        if !aside.has_calls() && !unwatched && !unguarded {
            return;
        }
        let waiting = locked(&self.waiting);
        let next = seat::next(&waiting, own);
        let nobody = waiting.is_empty();
        // To wake somebody takes its time, and others enter the list and leave it.
        drop(waiting);
        let rests = next.as_ref().is_some_and(|seat| seat.rests());
        if let Some(seat) = next {
            seat.call();
        }
        // Who makes a call may come back too late for a timer.
        if let Kind::Shared { keeper, .. } = &self.kind
            && (nobody || unguarded && !rests)
        {
            keeper.note_under_way();
        }
    }

    /// Uses the engine; its panic ends the store.
    fn guarded<T>(&self, led: &Led<'_>, work: impl FnOnce(&Engine) -> T) -> Result<T, StoreError> {
        let worked = catch_unwind(AssertUnwindSafe(|| Ok(work(led.engine()?))));
        worked.unwrap_or_else(|_| {
            self.end(led, PANICKED);
            Err(StoreError::Panicked)
        })
    }

    /// Runs the engine as far as it goes without waiting.
    fn turn(&self, led: &Led<'_>) -> Result<(), StoreError> {
        self.guarded(led, |engine| {
            let rt = &engine.context.rt;
            loop {
                if self.news.swap(false, SeqCst) {
                    let jobs = std::mem::take(&mut *locked(&self.queue));
                    jobs.into_iter().for_each(|job| job.begin(engine));
                }
                rt.run_ready();
                // Hands over what was begun, and takes what has ended.
                if rt.in_flight() > 0 || rt.next_timer().is_some_and(|timer| timer <= rt.now()) {
                    rt.wait(Some(Nanos(0)));
                }
                if !rt.has_ready() && !self.news.load(SeqCst) {
                    return;
                }
            }
        })
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
        drop(jobs);
        for seat in locked(&self.waiting).iter() {
            seat.call();
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
        engine.as_ref().ok_or_else(|| over(state.load(SeqCst)))
    }
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let lead = self.lead;
        if let (Kind::Shared { aside, keeper }, Ok(engine)) = (&lead.kind, self.engine()) {
            let rt = &engine.context.rt;
            let in_flight = rt.in_flight();
            lead.in_ring.store(in_flight > aside.calls(), SeqCst);
            let timer = rt.next_timer();
            let soon = timer.filter(|timer| timer.since(rt.now()).0 < SOON.0);
            // Before the look at those who wait: who has left before that is not counted, who leaves after it looks here.
            lead.due.store(soon.map_or(NEVER, |due| due.0), SeqCst);
            match lead.waiters.load(SeqCst) {
                0 => keeper.note(in_flight > 0, timer),
                _ => keeper.note(false, timer.filter(|_| soon.is_none())),
            }
        }
        lead.leader.store(NOBODY, SeqCst);
    }
}

/// A place in the list of those who wait, as long as it is held.
struct Waiting<'a> {
    lead: &'a Lead,
    seat: Arc<Seat>,
}

impl<'a> Waiting<'a> {
    fn enter(lead: &'a Lead, seat: &Arc<Seat>) -> Self {
        let seat = seat.clone();
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

fn over(state: u8) -> StoreError {
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

/// The clock of the ring's driver.
fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
