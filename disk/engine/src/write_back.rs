//! Write-back: what is in the log goes home, from memory (Trail 4.1), so that newer versions replace older ones. The
//! layout says which blocks go first and how many a round takes (`tonearm_layout::HomeShape`).

use crate::error::EngineError;
use crate::round::{Done, bring_home};
use crate::schedule::{Reason, Schedule};
use crate::shared::Shared;
use crate::throttle::{Throttle, strain};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_layout::{HomeError, RoundOrder};

/// How often the age of pinned blocks is looked at, and a full medium is tried again.
const TICK: Nanos = Nanos::from_millis(500);
/// Commits kept in the log from which on rounds start.
const COMMITS_PRESSING: usize = 1 << 19;
/// Pending ranges from which on rounds start.
const RANGES_PRESSING: usize = 1024;

/// The write-back of one store.
pub(crate) struct WriteBack {
    shared: Rc<Shared>,
    schedule: RefCell<Schedule>,
    throttle: Throttle,
    pub counters: Counters,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub rounds: Cell<u64>,
    pub blocks: Cell<u64>,
    pub superseded: Cell<u64>,
}

impl WriteBack {
    /// The write-back of what `shared` has; it does nothing before [`WriteBack::start`].
    pub fn new(shared: &Rc<Shared>) -> Self {
        let schedule = Schedule::new(shared.rt.now(), &shared.pinned.borrow());
        Self {
            shared: shared.clone(),
            schedule: RefCell::new(schedule),
            throttle: Throttle::default(),
            counters: Counters::default(),
        }
    }

    /// Starts the tasks.
    pub fn start(self: &Rc<Self>) {
        let rt = &self.shared.rt;
        let shared = self.shared.clone();
        rt.spawn(async move {
            while shared.check_alive().is_ok() {
                shared.rt.sleep(TICK).await;
                shared.work.notify();
            }
        });
        let shared = self.shared.clone();
        rt.spawn(async move {
            while shared.check_alive().is_ok() {
                shared.trail.space_wanted().await;
                shared.work.notify();
            }
        });
        let own = self.clone();
        rt.spawn(async move { own.run().await });
    }

    /// Commit `lsn` is made.
    pub fn committed(&self, lsn: Lsn, has_zeroes: bool) {
        let now = self.shared.rt.now();
        self.schedule.borrow_mut().committed(now, lsn, has_zeroes);
        if !self.shared.access.has_round() && self.is_pressed() {
            self.shared.work.notify();
        }
    }

    /// How long a write of `bytes` waits before it may ask for memory.
    pub fn delay(&self, bytes: u64) -> Nanos {
        let now = self.shared.rt.now();
        self.throttle.wait(now, bytes, self.strain())
    }

    /// True when memory or log are short.
    pub fn is_pressed(&self) -> bool {
        let shared = &*self.shared;
        let (used, tracks) = shared.trail.usage();
        let memory = &shared.memory;
        memory.waiting() > 0
            || memory.used() > memory.limit() / 4 * 3
            || used > tracks / 2
            || shared.trail.is_full()
            || shared.trail.retained_commits() > COMMITS_PRESSING
            || shared.pinned.borrow().range_count() > RANGES_PRESSING
    }

    /// How near their ends memory and log are, in parts of [`crate::throttle::FULL`].
    fn strain(&self) -> u64 {
        let (used, tracks) = self.shared.trail.usage();
        let memory = &self.shared.memory;
        let limit = memory.limit();
        let of_memory = strain(memory.used(), limit / 4 * 3, limit);
        // The last few tracks are not given out.
        of_memory.max(strain(used, tracks * 5 / 8, tracks * 15 / 16))
    }

    /// # Errors
    /// When the home is full.
    pub fn check_full(&self) -> Result<(), EngineError> {
        match &self.schedule.borrow().full {
            Some(full) => Err(full.clone().into()),
            None => Ok(()),
        }
    }

    /// The next round finds out anew whether the home is full.
    pub fn try_full_again(&self) {
        self.schedule.borrow_mut().full = None;
    }

    /// True while the medium below or the home are full.
    pub fn waits_for_space(&self) -> bool {
        let schedule = self.schedule.borrow();
        schedule.no_space || schedule.full.is_some()
    }

    /// For how long something has been pinned.
    pub fn lag(&self) -> Nanos {
        self.schedule.borrow().lag(self.shared.rt.now())
    }

    /// Makes rounds without another reason until `done`.
    ///
    /// # Errors
    /// When the store fails meanwhile, or its home is full.
    pub async fn until(&self, done: impl Fn() -> bool) -> Result<(), EngineError> {
        self.schedule.borrow_mut().draining += 1;
        let result = loop {
            if done() {
                break Ok(());
            }
            if let Err(error) = self.shared.check_alive().and_then(|()| self.check_full()) {
                break Err(error);
            }
            let changed = self.shared.access.changed.wait();
            self.shared.work.notify();
            changed.await;
        };
        self.schedule.borrow_mut().draining -= 1;
        result
    }

    async fn run(&self) {
        let shared = &*self.shared;
        while shared.check_alive().is_ok() {
            let wait = shared.work.wait();
            match self.reason() {
                None => wait.await,
                Some(reason) => {
                    shared.access.set_round(true);
                    let result = self.round(reason).await;
                    shared.access.set_round(false);
                    if let Err(error) = result {
                        shared.fail(error);
                    }
                }
            }
        }
        shared.access.changed.notify();
    }

    fn reason(&self) -> Option<Reason> {
        let shared = &*self.shared;
        let schedule = self.schedule.borrow();
        let aged = schedule.lag(shared.rt.now()) >= shared.options.write_back_after;
        schedule.reason(&shared.pinned.borrow(), self.is_pressed(), aged)
    }

    /// One round: a batch goes home, is durable there, and its tracks are free.
    async fn round(&self, reason: Reason) -> Result<(), EngineError> {
        let shared = &*self.shared;
        let durable = shared.trail.durable();
        if self.range_is_read(durable) {
            shared.access.changed.wait().await;
            return Ok(());
        }
        let busy = shared.access.busy();
        let blocks_max = Schedule::blocks_max(&shared.shape, reason);
        let mut oldest = Vec::new();
        let order = self.schedule.borrow_mut().order(
            &shared.shape,
            &shared.pinned.borrow(),
            durable,
            blocks_max,
            &busy,
            &mut oldest,
        );
        let begun = shared.rt.now();
        let round = bring_home(
            &*shared.home,
            &shared.pinned,
            &shared.trail,
            durable,
            order,
            blocks_max,
            |block| busy.contains(block),
        );
        match round.await {
            Ok(None) => self.wait_for_ready(durable).await,
            Ok(Some(done)) => {
                self.finished(begun, reason, &done);
                Ok(())
            }
            Err(HomeError::NoSpace { .. }) => {
                self.schedule.borrow_mut().no_space = true;
                shared.rt.sleep(TICK).await;
                Ok(())
            }
            Err(full @ HomeError::Full { .. }) => {
                if self.schedule.borrow().awaits_zeroes(durable) {
                    return self.wait_for_ready(durable).await;
                }
                // Waiting writers get the error.
                self.schedule.borrow_mut().full = Some(full);
                shared.access.changed.notify();
                shared.refusals.notify();
                shared.rt.sleep(TICK).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn finished(&self, begun: Nanos, reason: Reason, done: &Done) {
        let shared = &*self.shared;
        let (now, order) = (shared.rt.now(), shared.shape.order);
        self.schedule
            .borrow_mut()
            .finished(now, order, reason, done, &shared.pinned.borrow());
        if order == RoundOrder::OldestFirst {
            let bytes = done.blocks * shared.shape.block_size as u64;
            self.throttle.drained(now.since(begun), bytes);
        }
        let add = |counter: &Cell<u64>, count| counter.set(counter.get() + count);
        add(&self.counters.rounds, 1);
        add(&self.counters.blocks, done.blocks);
        add(&self.counters.superseded, done.superseded);
        shared.trail.advance();
    }

    /// Nothing may go home yet: makes the log durable, or waits for it to be written.
    async fn wait_for_ready(&self, durable: Lsn) -> Result<(), EngineError> {
        let trail = &self.shared.trail;
        if trail.durable() > durable {
            return Ok(());
        }
        let progress = trail.progress();
        if trail.flushed() > durable {
            trail.sync_written().await?;
            return Ok(());
        }
        trail.check()?;
        if trail.appended() > durable {
            progress.await;
        } else {
            // Everything is durable and yet nothing may go home: all of it is being read.
            self.shared.access.changed.wait().await;
        }
        Ok(())
    }

    /// True when a range that would go home meets a read.
    fn range_is_read(&self, durable: Lsn) -> bool {
        let pinned = self.shared.pinned.borrow();
        let mut ranges = pinned.ranges_up_to(durable);
        ranges.any(|(first, count)| self.shared.access.is_read(first, first + count))
    }
}
