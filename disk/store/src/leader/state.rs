//! Decides what each thread of a store does next: plain state, without a lock, a clock or a thread.
//!
//! A thread reports each event and gets its next [`Step`]. `leader.rs` keeps the state behind one mutex and takes the
//! steps. [`State::take_wakes`] names the threads that an event wakes.
//!
//! | step | what the thread does | event at its end |
//! | --- | --- | --- |
//! | `Lead` | takes jobs and made calls ([`State::take_work`]), runs the engine as far as it goes | [`State::turned`] |
//! | `Call` | makes a system call of the device | [`State::called`] |
//! | `Watch` | waits for completions of the ring, no longer than until a time | [`State::woken`] |
//! | `Park` | sleeps until it is woken, no longer than until a time | [`State::woken`], [`State::timer_woken`] |
//! | `TimerWait` | sleeps for a millisecond | [`State::timer_woken`] |
//! | `Done` | returns its job's result | |
//! | `Terminal` | returns that the store has ended | |
//!
//! The threads are *waiters*, each with one job ([`State::begin`]), and the timer thread, which has none.
//!
//! ```text
//!            begin                      turned, called, woken (first that applies)
//!              |         no leader, and there is work           -> Lead
//!   no leader: Lead      the job is done                        -> leave, Done
//!   else: queue, Park    the job waits in the queue             -> Park
//!                        a call waits                           -> Call
//!                        the ring is busy and not watched       -> Watch
//!                        otherwise                              -> Park
//!
//!   phase: Open -- close --> Closing -- end --> Ending -- gone --> Terminal
//!             \___________________ end: the engine has panicked ___/
//! ```
//!
//! Invariants:
//! 1. At most one thread leads. In the phase `Ending` one thread takes the engine down, once no thread leads or makes a
//!    call.
//! 2. No lost wake-ups: each event and each decision to rest is made under the lock, and a rest that begins after its
//!    wake-up ends at once. Only while a thread leads may another one rest with work left (a job, a made call, a
//!    completion of the ring, a timer), and a leader leads again before it rests or leaves.
//! 3. A thread that leaves, or that begins a call, hands what it leaves (calls to make, the ring, a timer) to a waiter
//!    that rests. If there are no waiters, the timer thread takes over all of it.
//! 4. A timer that is due soon is *guarded*: one waiter rests no longer than until then. The timer thread waits for
//!    later timers, and for all timers while there are no waiters.
//! 5. A waiter whose job no leader has taken makes no calls: the job may be done at once, and a call takes as long as
//!    the device.

use std::collections::VecDeque;
use tonearm_base::Nanos;

/// Waiters guard a timer of the engine that is due within this time.
const SOON: Nanos = Nanos::from_millis(1);
/// Time between two looks of the timer thread while operations are under way.
pub(crate) const NAP: Nanos = Nanos::from_millis(1);
/// Looks in a row that find no work, after which the timer thread sleeps for longer.
const IDLE_LOOKS: u32 = if cfg!(test) { 2 } else { 10 };

/// Why a store has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Terminal {
    /// [`State::close`] has ended the store.
    Closed,
    /// The engine has panicked.
    Panicked,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Open,
    /// New jobs are refused, except for the last one. Jobs under way may end.
    Closing,
    /// No thread leads any more; the engine is taken down.
    Ending(Terminal),
    /// The engine is gone.
    Terminal(Terminal),
}

/// The number of a waiter while it waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct WaiterId(pub usize);

/// A thread that takes steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Thread {
    Waiter(WaiterId),
    Timer,
}

/// What a thread does next; see the table above.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step<C> {
    Lead,
    Call(C),
    Watch(Option<Nanos>),
    Park {
        until: Option<Nanos>,
        /// The leader is about to take the work that the thread leaves: a short look for the end of its turn saves a
        /// wake-up.
        briefly: bool,
    },
    /// The timer thread sleeps for [`NAP`], or until the engine is gone.
    TimerWait,
    Done,
    Terminal(Terminal),
}

/// A thread that an event wakes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Wake {
    /// A waiter that is parked.
    Parked(WaiterId),
    /// The waiter that watches the ring.
    Watcher,
    Timer,
    /// The thread that takes the engine down.
    Ender,
}

/// What a leader takes from the state, and what its turn leaves. The memory is used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Turn<J, C, M> {
    /// Jobs to begin.
    pub jobs: Vec<(WaiterId, J)>,
    /// Results of calls.
    pub made: Vec<M>,
    /// Calls that the engine has asked for in this turn.
    pub calls: VecDeque<C>,
    /// Jobs that have ended.
    pub done: Vec<WaiterId>,
    /// The ring has operations under way.
    pub ring_busy: bool,
    /// The engine's next timer.
    pub timer: Option<Nanos>,
    /// The time at the end of the turn, where there is a timer.
    pub now: Nanos,
}

impl<J, C, M> Default for Turn<J, C, M> {
    fn default() -> Self {
        Self {
            jobs: Vec::new(),
            made: Vec::new(),
            calls: VecDeque::new(),
            done: Vec::new(),
            ring_busy: false,
            timer: None,
            now: Nanos(0),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Rest {
    /// The thread leads, makes a call, or is about to take its next step.
    Awake,
    Parked,
    Watching,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiter {
    /// A leader has taken the job.
    begun: bool,
    /// The job has ended.
    done: bool,
    rest: Rest,
    /// Its rest must end.
    woken: bool,
}

/// The waiter that rests no longer than until a timer is due.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Guard {
    waiter: WaiterId,
    until: Nanos,
}

/// The work of the timer thread.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Timer {
    /// Operations are under way, or calls wait, and there are no waiters.
    under_way: bool,
    next: Option<Nanos>,
    sleep: Sleep,
    /// Looks in a row that have found no work.
    idle: u32,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Sleep {
    /// The thread is awake, in a timer wait, or has been woken.
    Light,
    /// The thread sleeps until a time, or until it is woken.
    Deep(Option<Nanos>),
}

/// The threads of a store. `J`: a job. `C`: a call of the device. `M`: a call that was made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State<J, C, M> {
    phase: Phase,
    led: bool,
    /// Jobs that no leader has taken.
    queue: Vec<(WaiterId, J)>,
    /// Calls that have been made, and that no leader has taken.
    made: Vec<M>,
    /// The ring may have completed something, or a timer is due.
    look: bool,
    waiters: Vec<Option<Waiter>>,
    free: Vec<WaiterId>,
    /// Waiters whose jobs have not ended.
    open: usize,
    /// Waiters whose jobs have ended in this turn.
    ended: Vec<WaiterId>,
    /// Calls that no thread has begun to make.
    calls: VecDeque<C>,
    /// Threads that make calls.
    calling: usize,
    /// Operations were under way in the ring when the last turn ended.
    ring_busy: bool,
    watcher: Option<WaiterId>,
    /// The engine's next timer, if it was due soon when the last turn ended.
    due: Option<Nanos>,
    guard: Option<Guard>,
    timer: Timer,
    wakes: Vec<Wake>,
}

impl<J, C, M> State<J, C, M> {
    /// An open store without callers.
    pub fn new() -> Self {
        Self {
            phase: Phase::Open,
            led: false,
            queue: Vec::new(),
            made: Vec::new(),
            look: false,
            waiters: Vec::new(),
            free: Vec::new(),
            open: 0,
            ended: Vec::new(),
            calls: VecDeque::new(),
            calling: 0,
            ring_busy: false,
            watcher: None,
            due: None,
            guard: None,
            timer: Timer {
                under_way: false,
                next: None,
                sleep: Sleep::Light,
                idle: 0,
            },
            wakes: Vec::new(),
        }
    }

    /// Adds a job, for the calling thread. `last`: the job that closes the store.
    ///
    /// # Errors
    /// When the store ends or has ended.
    pub fn begin(&mut self, job: J, last: bool) -> Result<(WaiterId, Step<C>), Terminal> {
        match self.phase {
            Phase::Open => {}
            Phase::Closing if last => {}
            Phase::Closing => return Err(Terminal::Closed),
            Phase::Ending(over) | Phase::Terminal(over) => return Err(over),
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.waiters.push(None);
            WaiterId(self.waiters.len() - 1)
        });
        self.waiters[id.0] = Some(Waiter {
            begun: false,
            done: false,
            rest: Rest::Awake,
            woken: false,
        });
        self.open += 1;
        self.queue.push((id, job));
        Ok((id, self.next(Thread::Waiter(id))))
    }

    /// Gives the leader its work, after [`Step::Lead`].
    pub fn take_work(&mut self, turn: &mut Turn<J, C, M>) {
        debug_assert!(self.led && turn.jobs.is_empty() && turn.made.is_empty());
        std::mem::swap(&mut self.queue, &mut turn.jobs);
        std::mem::swap(&mut self.made, &mut turn.made);
        self.look = false;
        for (id, _) in &turn.jobs {
            waiter(&mut self.waiters, *id).begun = true;
        }
    }

    /// Reports that the leader has run the engine as far as it goes.
    pub fn turned(&mut self, thread: Thread, turn: &mut Turn<J, C, M>) -> Step<C> {
        debug_assert!(self.led && turn.jobs.is_empty() && turn.made.is_empty());
        self.calls.append(&mut turn.calls);
        self.ring_busy = turn.ring_busy;
        self.note_done(turn);
        if self.may_lead() && self.has_work() {
            return Step::Lead;
        }
        self.led = false;
        self.set_timers(turn.timer, turn.now);
        let step = self.next(thread);
        // Waiters are woken after the next call has been chosen, because waking a thread takes as long as a part of the
        // call.
        let mut ended = std::mem::take(&mut self.ended);
        for id in ended.drain(..) {
            self.wake(id);
        }
        self.ended = ended;
        self.wake_ender();
        step
    }

    /// Reports that a thread has made a call.
    pub fn called(&mut self, thread: Thread, made: M) -> Step<C> {
        self.calling -= 1;
        self.made.push(made);
        self.wake_ender();
        self.next(thread)
    }

    /// Reports that a waiter's rest has ended, for whatever reason.
    pub fn woken(&mut self, id: WaiterId, now: Nanos) -> Step<C> {
        let waiter = waiter(&mut self.waiters, id);
        (waiter.rest, waiter.woken) = (Rest::Awake, false);
        if self.watcher == Some(id) {
            self.watcher = None;
            self.look = true;
        }
        if self.guard.as_ref().is_some_and(|guard| guard.waiter == id) {
            self.guard = None;
            if self.due.is_some_and(|due| due <= now) {
                // Only this thread handles the timer.
                self.due = None;
                self.look = true;
            }
        }
        self.next(Thread::Waiter(id))
    }

    /// Reports that the timer thread's sleep has ended, for whatever reason, or that the thread begins.
    pub fn timer_woken(&mut self, now: Nanos) -> Step<C> {
        self.timer.sleep = Sleep::Light;
        let due = self.timer.next.is_some_and(|timer| timer <= now);
        if self.timer.under_way || due {
            self.timer.idle = 0;
            // A leader finds this work itself, and reports at the end of its turn what is left.
            self.look |= !self.led;
        } else {
            self.timer.idle = (self.timer.idle + 1).min(IDLE_LOOKS);
        }
        self.next(Thread::Timer)
    }

    /// Whether a rest must end at once.
    pub fn is_woken(&self, id: WaiterId) -> bool {
        let waiter = self.waiters[id.0].as_ref();
        waiter.is_none_or(|waiter| waiter.woken)
    }

    /// Whether the timer thread's sleep must end at once; a timer wait ends by itself.
    pub fn is_timer_woken(&self) -> bool {
        self.timer.sleep == Sleep::Light
    }

    /// Whether the engine has been taken down.
    pub fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Terminal(_))
    }

    /// Whether a thread leads.
    pub fn is_led(&self) -> bool {
        self.led
    }

    /// Refuses new jobs, except for the last one.
    ///
    /// # Errors
    /// When the store has been closed before, or has ended.
    pub fn close(&mut self) -> Result<(), Terminal> {
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Closing;
                Ok(())
            }
            Phase::Closing => Err(Terminal::Closed),
            Phase::Ending(over) | Phase::Terminal(over) => Err(over),
        }
    }

    /// Ends the store. The caller takes the engine down when [`State::may_end`] allows it, reports that with
    /// [`State::gone`], and drops the jobs, which never began. `None`: another thread does all this, or has done it.
    pub fn end(&mut self, over: Terminal) -> Option<Vec<(WaiterId, J)>> {
        if matches!(self.phase, Phase::Ending(_) | Phase::Terminal(_)) {
            return None;
        }
        self.phase = Phase::Ending(over);
        self.calls.clear();
        Some(std::mem::take(&mut self.queue))
    }

    /// Whether the engine may be taken down: no other thread uses it or its memory.
    pub fn may_end(&self) -> bool {
        !self.led && self.calling == 0
    }

    /// Reports that the engine has panicked under its leader, after [`State::end`]. Jobs that ended before the panic
    /// have their results.
    pub fn give_up(&mut self, turn: &mut Turn<J, C, M>) {
        self.note_done(turn);
        self.led = false;
        self.wake_ender();
    }

    /// The engine has been taken down.
    pub fn gone(&mut self) {
        if let Phase::Ending(over) = self.phase {
            self.phase = Phase::Terminal(over);
        }
        for index in 0..self.waiters.len() {
            if self.waiters[index].is_some() {
                self.wake(WaiterId(index));
            }
        }
        self.timer.sleep = Sleep::Light;
        self.wakes.push(Wake::Timer);
    }

    /// Why the store has ended, once its engine is gone or being taken down. `Closed` also while it is being closed.
    pub fn over(&self) -> Option<Terminal> {
        match self.phase {
            Phase::Open => None,
            Phase::Closing => Some(Terminal::Closed),
            Phase::Ending(over) | Phase::Terminal(over) => Some(over),
        }
    }

    /// The threads that the events since the last call wake, in this order.
    pub fn take_wakes(&mut self) -> Vec<Wake> {
        std::mem::take(&mut self.wakes)
    }

    fn note_done(&mut self, turn: &mut Turn<J, C, M>) {
        for id in turn.done.drain(..) {
            waiter(&mut self.waiters, id).done = true;
            self.open -= 1;
            self.ended.push(id);
        }
    }

    fn may_lead(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing)
    }

    fn has_work(&self) -> bool {
        self.look || !self.queue.is_empty() || !self.made.is_empty()
    }

    /// The next step of a thread that is awake and does not lead.
    pub fn next(&mut self, thread: Thread) -> Step<C> {
        // The thread leads even if its own job is done, because its own call may have brought the work.
        if self.may_lead() && !self.led && self.has_work() {
            self.led = true;
            return Step::Lead;
        }
        let begun = match thread {
            Thread::Timer => true,
            Thread::Waiter(id) => {
                let waiter = waiter(&mut self.waiters, id);
                if waiter.done {
                    self.leave(id);
                    self.hand_over();
                    return Step::Done;
                }
                waiter.begun
            }
        };
        match (self.phase, thread) {
            (Phase::Open | Phase::Closing, _) => {}
            (Phase::Ending(_), _) => return self.park(thread, None),
            (Phase::Terminal(_), Thread::Timer) => return Step::Done,
            (Phase::Terminal(over), Thread::Waiter(id)) => {
                self.open -= 1;
                self.leave(id);
                return Step::Terminal(over);
            }
        }
        // Waiters make the calls; the timer thread makes them only while there are no waiters.
        let calls = begun && (thread != Thread::Timer || self.open == 0);
        if calls && let Some(call) = self.calls.pop_front() {
            self.calling += 1;
            if self.is_unguarded() {
                self.hand_over();
            }
            return Step::Call(call);
        }
        match thread {
            Thread::Timer => {
                self.hand_over();
                self.park(thread, None)
            }
            Thread::Waiter(id) => {
                let until = if begun { self.guard(id) } else { None };
                if begun && self.is_unwatched() {
                    self.watcher = Some(id);
                    waiter(&mut self.waiters, id).rest = Rest::Watching;
                    return Step::Watch(until);
                }
                self.park(thread, until)
            }
        }
    }

    fn park(&mut self, thread: Thread, until: Option<Nanos>) -> Step<C> {
        match thread {
            Thread::Waiter(id) => waiter(&mut self.waiters, id).rest = Rest::Parked,
            Thread::Timer => return self.sleep(),
        }
        Step::Park {
            until,
            briefly: self.led && self.has_work(),
        }
    }

    /// The timer thread's rest. It waits for a timer while operations are under way and for some time after that, so that leaders
    /// need not wake it.
    fn sleep(&mut self) -> Step<C> {
        let ends = !self.may_lead();
        let deep = self.timer.idle >= IDLE_LOOKS && !self.timer.under_way;
        if !ends && !deep {
            return Step::TimerWait;
        }
        let until = self.timer.next.filter(|_| !ends);
        self.timer.sleep = Sleep::Deep(until);
        Step::Park {
            until,
            briefly: false,
        }
    }

    fn leave(&mut self, id: WaiterId) {
        self.waiters[id.0] = None;
        self.free.push(id);
    }

    /// Ends the rest of a waiter.
    fn wake(&mut self, id: WaiterId) {
        // A waiter that has left was awake.
        let Some(waiter) = &mut self.waiters[id.0] else {
            return;
        };
        if waiter.woken || waiter.rest == Rest::Awake {
            return;
        }
        waiter.woken = true;
        self.wakes.push(match waiter.rest {
            Rest::Watching => Wake::Watcher,
            _ => Wake::Parked(id),
        });
    }

    fn wake_ender(&mut self) {
        if matches!(self.phase, Phase::Ending(_)) && self.may_end() {
            self.wakes.push(Wake::Ender);
        }
    }

    /// True when the ring has operations under way, and no thread watches it or is going to look at it. A thread that
    /// makes a call looks at the ring at the end of the call.
    fn is_unwatched(&self) -> bool {
        self.ring_busy && !self.led && self.watcher.is_none() && self.calling == 0
    }

    /// True when a timer is due soon, and no waiter rests only until then.
    fn is_unguarded(&self) -> bool {
        let until = self.guard.as_ref().map(|guard| guard.until);
        self.due
            .is_some_and(|due| until.is_none_or(|until| due < until))
    }

    /// Lets waiter `id` guard the timer if no other one does. Returns until when it may rest. One waiter alone guards
    /// the timer, because waking further threads for it costs time.
    fn guard(&mut self, id: WaiterId) -> Option<Nanos> {
        if !self.is_unguarded() {
            return None;
        }
        let until = self.due?;
        self.guard = Some(Guard { waiter: id, until });
        Some(until)
    }

    /// Hands what there is to do to a waiter that rests and whose job has begun, or else to the timer thread.
    fn hand_over(&mut self) {
        let unguarded = !self.led && self.is_unguarded();
        if self.calls.is_empty() && !self.is_unwatched() && !unguarded {
            return;
        }
        let rests = |waiter: &Waiter| {
            waiter.begun && !waiter.done && !waiter.woken && waiter.rest != Rest::Awake
        };
        let found = self
            .waiters
            .iter()
            .position(|waiter| waiter.as_ref().is_some_and(rests));
        match found {
            Some(index) => self.wake(WaiterId(index)),
            // The other waiters are awake and find the work before they rest. But a waiter that makes a call may return
            // too late for the timer.
            None if self.open == 0 || unguarded => self.leave_to_timer(true, self.timer.next),
            None => {}
        }
    }

    /// Takes over the engine's timer at the end of a turn.
    fn set_timers(&mut self, timer: Option<Nanos>, now: Nanos) {
        let soon = timer.filter(|timer| timer.since(now).0 < SOON.0);
        if self.open == 0 {
            let under_way = self.ring_busy || !self.calls.is_empty() || self.calling > 0;
            self.due = None;
            self.leave_to_timer(under_way, timer);
        } else {
            self.due = soon;
            self.leave_to_timer(false, timer.filter(|_| soon.is_none()));
        }
    }

    /// Sets the work of the timer thread. Wakes the thread if it would sleep for longer than that.
    fn leave_to_timer(&mut self, under_way: bool, next: Option<Nanos>) {
        (self.timer.under_way, self.timer.next) = (under_way, next);
        let Sleep::Deep(until) = self.timer.sleep else {
            return;
        };
        let sooner = next.is_some_and(|next| until.is_none_or(|until| next < until));
        if under_way || sooner {
            self.timer.sleep = Sleep::Light;
            self.wakes.push(Wake::Timer);
        }
    }
}

fn waiter(waiters: &mut [Option<Waiter>], id: WaiterId) -> &mut Waiter {
    waiters[id.0]
        .as_mut()
        .expect("a waiter stays until its job is done or the store is over")
}

#[cfg(test)]
#[path = "state_test.rs"]
mod state_test;
