//! The engine of one store.

use crate::commit::CommitChange;
use crate::error::EngineError;
use crate::open::RecoveryReport;
use crate::pinned::Pinned;
use crate::recording::record;
use crate::stats::StoreStats;
use crate::superblocks;
use crate::throttle::Throttle;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_device::Device;
use tonearm_format::{State as StoreState, Superblock};
use tonearm_layout::{Home, HomeError, HomeShape};
use tonearm_rt::{Boxed, Notify, Permit, Rt, Semaphore};
use tonearm_trail::{Admission, Trail, WriteCache};

/// When a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// When it is in memory and on its way to the log; a flush or FUA makes it durable (NBD's contract).
    Flush,
    /// When it is durable (Trail's contract).
    Write,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bound on payload in memory: queued, in the log and not yet at home.
    pub memory_bytes: u64,
    /// Bound on the home's tables or map pages in memory.
    pub map_cache_bytes: usize,
    /// When writes are acknowledged.
    pub ack: Ack,
    /// What is known of the storage's cache.
    pub write_cache: WriteCache,
    /// Refuse all changes; needs a store that was shut down in order.
    pub read_only: bool,
    /// Write everything home before the store is served after a crash.
    pub write_back_on_recovery: bool,
    /// Age at which blocks are written home though nothing presses.
    pub write_back_after: Nanos,
    /// How long commits that nobody waits for may stay in memory before the log takes them, many at once. What the
    /// program has not handed over when it is killed is lost, as by a power cut.
    pub linger: Nanos,
    /// Home blocks to add at the end of the last data member, which must be long enough already
    /// ([`tonearm_layout::layouts::grown`]).
    pub grow_blocks: u64,
    /// Where the log is damaged, keep what is before the damage (`check --repair`).
    pub give_up_damaged_log: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            map_cache_bytes: 32 << 20,
            ack: Ack::Flush,
            write_cache: WriteCache::Volatile,
            read_only: false,
            write_back_on_recovery: false,
            write_back_after: Nanos::from_secs(5),
            linger: Nanos(0),
            grow_blocks: 0,
            give_up_damaged_log: false,
        }
    }
}

/// Pending ranges from which on new ranges wait.
const RANGES_MAX: usize = 4096;
/// Commits kept in the log's account from which on new ones wait: bounds the account's memory.
const COMMITS_MAX: usize = 1 << 20;

pub(crate) struct State {
    pub pinned: Pinned,
    /// Where the write-back's sweep goes on.
    pub cursor: u64,
    /// Blocks that go home next, oldest first, where the home does not gain by a sweep.
    pub queue: VecDeque<u64>,
    /// Home reads under way: these blocks are not written home meanwhile.
    pub reads: BTreeMap<u64, (u64, u64)>,
    pub next_read: u64,
    pub failed: Option<String>,
    /// The medium below is full: write-back tries again from time to time.
    pub no_space: bool,
    /// The home is full: only what makes room can help.
    pub full: Option<HomeError>,
    /// The last commit that may make room there.
    pub last_trim: Lsn,
    /// Since when something has been pinned.
    pub pinned_since: Option<Nanos>,
    /// Who waits for everything to be at home.
    pub draining: u32,
    /// Blocks that are being written home without the log: first, and the one behind the last.
    pub spilling: Vec<(u64, u64)>,
    pub round_under_way: bool,
    pub superblock: Superblock,
    /// No commit is taken any more.
    pub closing: bool,
    pub closed: bool,
}

pub(crate) struct Inner {
    pub rt: Rt,
    pub pool: BufPool,
    pub home: Rc<dyn Home>,
    pub shape: HomeShape,
    pub trail: Trail,
    pub members: Vec<Rc<dyn Device>>,
    pub options: OpenOptions,
    pub memory: Semaphore,
    pub throttle: Throttle,
    pub state: RefCell<State>,
    /// Something for the write-back to look at.
    pub work: Notify,
    /// A round or a home read has ended, or the store has failed.
    pub idle: Notify,
    /// A round has ended.
    pub rounds: Notify,
    /// The home is full, or the store has failed or is being closed: those who wait for room are refused. Nothing else
    /// wakes them, but their turn.
    pub refusals: Notify,
    pub counters: Counters,
    pub recovery: RecoveryReport,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub commits: Cell<u64>,
    pub commit_bytes: Cell<u64>,
    pub reads: Cell<u64>,
    pub read_bytes: Cell<u64>,
    pub read_hits: Cell<u64>,
    pub flushes: Cell<u64>,
    pub rounds: Cell<u64>,
    pub written_back: Cell<u64>,
    pub superseded: Cell<u64>,
}

/// The engine; cheap to clone, of one thread.
#[derive(Clone)]
pub struct Engine(pub(crate) Rc<Inner>);

impl Engine {
    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.0.shape.block_size
    }

    /// Blocks of the store.
    pub fn size_blocks(&self) -> u64 {
        self.0.shape.size_blocks
    }

    /// Memory for `bytes` of payload, first come first served: the back-pressure of writers. Attach the
    /// permit to the payload's buffer.
    ///
    /// # Errors
    /// When the store has failed or is closed, or would have to wait while the home is full.
    pub async fn reserve(&self, bytes: u64) -> Result<Permit, EngineError> {
        self.check_writable()?;
        let wait = self.0.throttle.wait(self.0.rt.now(), bytes, self.strain());
        if wait > Nanos(0) {
            self.0.rt.sleep(wait).await;
            self.check_writable()?;
        }
        let acquire = self.0.memory.acquire(bytes);
        if self.0.memory.used() + bytes > self.0.memory.limit() {
            self.0.work.notify();
        }
        let permit = self.unless_full(acquire).await?;
        self.check_writable()?;
        Ok(permit)
    }

    /// Waits for room in the log and in the account of pending ranges, for a commit of `blocks` blocks of
    /// data and `ranges` ranges. Take the payload's memory ([`Engine::reserve`]) before.
    ///
    /// While the home is full, data is refused when memory or log are nearly used up: the rest is for what makes room.
    ///
    /// # Errors
    /// When the store has failed or is read-only, the log could never hold such a commit, or the home is full.
    pub async fn admit(&self, blocks: u64, ranges: u64) -> Result<Admission, EngineError> {
        self.check_writable()?;
        if !self.fits(blocks, ranges) {
            let geometry = self.0.trail.geometry();
            return Err(EngineError::CommitTooLarge {
                bytes: geometry.commit_sectors(blocks, ranges) * geometry.sector_bytes(),
                max_bytes: geometry.commit_sectors_max() * geometry.sector_bytes(),
            });
        }
        loop {
            let pending = self.0.state.borrow().pinned.range_count();
            if (ranges == 0 || pending < RANGES_MAX)
                && self.0.trail.retained_commits() < COMMITS_MAX
            {
                break;
            }
            let round = self.0.rounds.wait();
            self.0.work.notify();
            self.unless_full(round).await?;
            self.check_writable()?;
        }
        if ranges == 0 && self.presses() {
            self.check_full()?;
        }
        let admission = match self.unless_full(self.0.trail.admit(blocks, ranges)).await? {
            Ok(admission) => admission,
            Err(error) => return Err(self.fail(error.into())),
        };
        self.check_writable()?;
        Ok(admission)
    }

    fn check_full(&self) -> Result<(), EngineError> {
        match &self.0.state.borrow().full {
            Some(full) => Err(full.clone().into()),
            None => Ok(()),
        }
    }

    /// The outcome of `room`; whoever would have to wait for it while the home is full, or the store is being closed, is
    /// refused.
    async fn unless_full<T>(&self, room: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut room = pin!(room);
        let mut refusal = self.0.refusals.wait();
        poll_fn(|context| {
            if let Poll::Ready(done) = room.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            if let Err(refused) = self.check_writable().and_then(|()| self.check_full()) {
                return Poll::Ready(Err(refused));
            }
            while Pin::new(&mut refusal).poll(context).is_ready() {
                refusal = self.0.refusals.wait();
            }
            Poll::Pending
        })
        .await
    }

    /// Changes all of the named blocks at once: visible to reads from now on, durable with
    /// [`Engine::wait_durable`]. After a crash all of it is there or nothing. `admission` must have been
    /// given for as much.
    ///
    /// Each buffer of data holds its memory of the budget from now on, in place of what was reserved for it.
    ///
    /// Of a block that the log has already it gets the words that change, where they are few (`recording.rs`).
    ///
    /// # Errors
    /// When the store is read-only or being closed, or the commit does not fit it.
    ///
    /// # Panics
    /// When there is no change, data is not a whole number of blocks, or the admission was given for less: the log would
    /// stand still once it is full.
    pub fn commit(&self, admission: Admission, changes: Vec<CommitChange>) -> Result<Lsn, EngineError> {
        self.check_writable()?;
        let block_size = self.block_size();
        let mut bytes = 0;
        let (mut blocks, mut ranges) = (0, 0);
        let makes_space = changes.iter().any(CommitChange::is_zeroes);
        for change in &changes {
            let (first, count) = change.blocks(block_size);
            self.check_range(first, count)?;
            match change {
                CommitChange::Write { .. } => blocks += count,
                CommitChange::Trim { .. } | CommitChange::Zero { .. } => ranges += 1,
                CommitChange::Move { from, .. } => {
                    self.check_range(*from, count)?;
                    ranges += count;
                }
            }
            if !change.is_zeroes() {
                bytes += count * block_size as u64;
            }
        }
        assert!(
            admission.covers(blocks, ranges),
            "a commit of {blocks} blocks and {ranges} ranges that was not admitted"
        );
        for change in &changes {
            if let CommitChange::Write { data, .. } = change {
                // Memory is bounded by what is kept, not by what was reserved for it.
                let (memory, bytes) = (&self.0.memory, data.capacity() as u64);
                if !data.has_own_lease(|permit: &Permit| permit.is(memory, bytes)) {
                    data.attach(Rc::new(memory.take(bytes)));
                }
            }
        }
        let mut state = self.0.state.borrow_mut();
        let trail = &self.0.trail;
        let lsn = trail.append(admission, |lsn| {
            record(&mut state.pinned, lsn, changes, block_size, trail)
        });
        state.pinned_since.get_or_insert_with(|| self.0.rt.now());
        if makes_space {
            (state.last_trim, state.full) = (lsn, None);
        }
        drop(state);
        self.0
            .counters
            .commits
            .set(self.0.counters.commits.get() + 1);
        self.0
            .counters
            .commit_bytes
            .set(self.0.counters.commit_bytes.get() + bytes);
        self.press();
        Ok(lsn)
    }

    /// True when the log could hold a commit of `blocks` blocks of data and `ranges` ranges.
    pub fn fits(&self, blocks: u64, ranges: u64) -> bool {
        let geometry = self.0.trail.geometry();
        geometry.commit_sectors(blocks, ranges) <= geometry.commit_sectors_max()
    }

    /// Most blocks of data in one commit.
    pub fn commit_blocks_max(&self) -> u64 {
        self.0.trail.geometry().commit_blocks_max()
    }

    /// Waits until commit `lsn` is durable.
    ///
    /// # Errors
    /// When the log has failed: it is not known then whether the commit survives a crash.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), EngineError> {
        match self.0.trail.wait_durable(lsn).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(error.into())),
        }
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// As for [`Engine::wait_durable`].
    pub async fn flush(&self) -> Result<(), EngineError> {
        self.0
            .counters
            .flushes
            .set(self.0.counters.flushes.get() + 1);
        self.check_alive()?;
        self.wait_durable(self.0.trail.appended()).await
    }

    /// Takes no further commits, those of callers that wait for room included, writes everything home, marks the store
    /// clean and ends. Further calls are errors.
    ///
    /// While the medium below is full it waits. What has no room in a home that is full itself stays in the log, durably:
    /// then the store is not marked clean, and the next opening recovers it.
    ///
    /// # Errors
    /// When something cannot be written: the store stays marked as open, and recovery will do the rest.
    pub fn close(&self) -> Boxed<'_, Result<(), EngineError>> {
        Box::pin(self.write_home_and_end())
    }

    async fn write_home_and_end(&self) -> Result<(), EngineError> {
        self.check_alive()?;
        if self.0.options.read_only {
            self.shut();
            return Ok(());
        }
        {
            let mut state = self.0.state.borrow_mut();
            if state.closing {
                return Err(EngineError::Closing);
            }
            // Whether there is room now is found out anew.
            (state.closing, state.full) = (true, None);
        }
        self.0.refusals.notify();
        self.flush().await?;
        let is_home = self.close_home().await?;
        if let Err(error) = self.0.trail.finish().await {
            return Err(self.fail(error.into()));
        }
        self.shut();
        while self.home_is_being_written() {
            self.0.idle.wait().await;
        }
        self.0.trail.stop();
        if !is_home {
            return Ok(());
        }
        let superblock = {
            let mut state = self.0.state.borrow_mut();
            state.superblock.log = self.0.trail.end_state();
            state.superblock.state = StoreState::Clean;
            state.superblock.generation += 1;
            state.superblock.clone()
        };
        let flush = self.0.options.write_cache == WriteCache::Volatile;
        superblocks::store(&self.0.pool, &self.0.members, &superblock, flush).await
    }

    /// Writes everything home and ends the use of the home; false when there is no room for all of it.
    ///
    /// # Errors
    /// When a device fails.
    async fn close_home(&self) -> Result<bool, EngineError> {
        match self.drain().await {
            Err(EngineError::Home(HomeError::Full { .. })) => return Ok(false),
            other => other?,
        }
        while !self.0.state.borrow().spilling.is_empty() {
            self.0.idle.wait().await;
        }
        match self.0.home.close().await {
            Ok(()) => Ok(true),
            Err(HomeError::NoSpace { .. } | HomeError::Full { .. }) => Ok(false),
            Err(error) => Err(self.fail(error.into())),
        }
    }

    /// Writes everything that is pinned home.
    ///
    /// # Errors
    /// When the store fails meanwhile, or its home is full.
    pub async fn drain(&self) -> Result<(), EngineError> {
        self.write_back_until(|| self.0.state.borrow().pinned.is_empty())
            .await
    }

    /// Has all written back, without waiting for a reason to, until `done`.
    ///
    /// # Errors
    /// When the store fails meanwhile.
    pub(crate) async fn write_back_until(
        &self,
        done: impl Fn() -> bool,
    ) -> Result<(), EngineError> {
        self.0.state.borrow_mut().draining += 1;
        let result = loop {
            if done() {
                break Ok(());
            }
            if let Err(error) = self.check_alive().and_then(|()| self.check_full()) {
                break Err(error);
            }
            let idle = self.0.idle.wait();
            self.0.work.notify();
            idle.await;
        };
        self.0.state.borrow_mut().draining -= 1;
        result
    }

    /// What happened when the store was opened.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.0.recovery
    }

    /// The superblock of this epoch.
    pub fn superblock(&self) -> Superblock {
        self.0.state.borrow().superblock.clone()
    }

    /// Paths of the members, in the superblock's order.
    pub fn member_paths(&self) -> Vec<String> {
        self.0
            .members
            .iter()
            .map(|member| member.name().to_string())
            .collect()
    }

    /// The options with which the store was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.0.options
    }

    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        StoreStats::of(self)
    }

    /// The failure that made the store read-only, if any.
    pub fn failure(&self) -> Option<String> {
        self.0.state.borrow().failed.clone()
    }

    pub(crate) fn check_alive(&self) -> Result<(), EngineError> {
        let state = self.0.state.borrow();
        if state.closed {
            return Err(EngineError::Closed);
        }
        match &state.failed {
            Some(reason) => Err(EngineError::Failed(reason.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        if self.0.options.read_only {
            return Err(EngineError::OpenReadOnly);
        }
        self.check_alive()?;
        match self.0.state.borrow().closing {
            true => Err(EngineError::Closing),
            false => Ok(()),
        }
    }

    pub(crate) fn check_range(&self, first: u64, count: u64) -> Result<(), EngineError> {
        let size_blocks = self.size_blocks();
        match first.checked_add(count) {
            Some(end) if end <= size_blocks => Ok(()),
            end => Err(EngineError::OutOfRange {
                first,
                end: end.unwrap_or(u64::MAX),
                size_blocks,
            }),
        }
    }

    /// The store is read-only from now on; the first reason stays.
    pub(crate) fn fail(&self, error: EngineError) -> EngineError {
        self.0
            .state
            .borrow_mut()
            .failed
            .get_or_insert_with(|| error.to_string());
        self.0.trail.give_up(&error.to_string());
        self.0.memory.lift();
        self.0.work.notify();
        self.0.idle.notify();
        self.0.refusals.notify();
        error
    }

    fn shut(&self) {
        self.0.state.borrow_mut().closed = true;
        self.0.memory.lift();
        self.0.work.notify();
        self.0.idle.notify();
    }
}
