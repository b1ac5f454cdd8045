//! The engine of one store: commits, and the other operations of callers.
//!
//! Back-pressure: a commit gets its memory ([`Engine::reserve`]) and its log space ([`Engine::admit`]) before it is
//! made.

use crate::archived::Archived;
use crate::commit::{CommitChange, record};
use crate::error::EngineError;
use crate::options::OpenOptions;
use crate::recovery::RecoveryReport;
use crate::shared::Shared;
use crate::superblocks::MemberDevice;
use crate::write_back::WriteBack;
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{Lsn, Nanos, Slice};
use tonearm_device::raid::{ArrayStatus, RaidError, RebuildRate};
use tonearm_device::{Events, OnProgress, Redundancy};
use tonearm_format::{Superblock, Uuid};
use tonearm_layout::Home;
use tonearm_rt::{Notified, Permit, Semaphore};
use tonearm_trail::{Admission, FlushCause};

/// Pending ranges from which on new ranges wait.
const RANGES_MAX: usize = 4096;
/// Commits kept in the log's account from which on new ones wait: bounds the account's memory.
const COMMITS_MAX: usize = 1 << 20;

/// The engine; cheap to clone, of one thread.
#[derive(Clone)]
pub struct Engine(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub shared: Rc<Shared>,
    pub write_back: Rc<WriteBack>,
    /// The superblock of this epoch.
    pub superblock: RefCell<Superblock>,
    pub counters: Counters,
    /// The commit with which the last checkpoint ended.
    pub checkpointed: Cell<Lsn>,
    /// Held while the store grows, and from the beginning of its end on.
    pub growth: Semaphore,
    pub recovery: RecoveryReport,
    pub archived: Archived,
}

impl Deref for Inner {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Inner {
    /// True while anything writes to the home.
    pub fn is_home_written(&self) -> bool {
        self.write_back.has_round() || self.access.has_spill()
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub commits: Cell<u64>,
    pub commit_bytes: Cell<u64>,
    pub reads: Cell<u64>,
    pub read_bytes: Cell<u64>,
    pub read_hits: Cell<u64>,
    pub flushes: Cell<u64>,
    pub checkpoints: Cell<u64>,
}

impl Counters {
    pub fn add(counter: &Cell<u64>, count: u64) {
        counter.set(counter.get() + count);
    }
}

impl Engine {
    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.0.shape.get().block_size
    }

    /// Blocks of the store.
    pub fn size_blocks(&self) -> u64 {
        self.0.shape.get().size_blocks
    }

    /// Memory for `bytes` of payload, first come first served. Attach the permit to the payload's buffer.
    ///
    /// # Errors
    /// When the store has failed or is closed, or the call would have to wait while the home is full.
    pub async fn reserve(&self, bytes: u64) -> Result<Permit, EngineError> {
        self.0.check_writable()?;
        self.0.write_back.turn(bytes).await;
        let acquire = self.0.memory.acquire(bytes);
        if self.0.memory.used() + bytes > self.0.memory.limit() {
            self.0.work.notify();
        }
        self.unless_refused(acquire).await
    }

    /// As [`Engine::reserve`], for a change that makes space: while there is none below the store, it does not wait for those that
    /// need some. The log bounds what such changes take.
    ///
    /// # Errors
    /// As for [`Engine::reserve`].
    pub async fn reserve_to_free(&self, bytes: u64) -> Result<Permit, EngineError> {
        if !self.0.write_back.waits_for_space() {
            return self.reserve(bytes).await;
        }
        self.0.check_writable()?;
        Ok(self.0.memory.take(bytes))
    }

    /// True while the medium below the store or its log, or the store, are full.
    pub fn waits_for_space(&self) -> bool {
        self.0.write_back.waits_for_space() || self.log_waits_for_space()
    }

    /// Waits for log space for a commit of `blocks` blocks of data and `ranges` ranges, and until fewer ranges and
    /// commits are pending. Take the payload's memory ([`Engine::reserve`]) before.
    ///
    /// While the home is full, data is refused when memory or log are nearly used up: the rest is for commits that make
    /// space. These have ranges. While the medium below is full, those with at least as many ranges as blocks do not wait for
    /// those that need space, and use the end of the log.
    ///
    /// # Errors
    /// When the store has failed or is read-only, the log could never hold such a commit, or the home is full.
    pub async fn admit(&self, blocks: u64, ranges: u64) -> Result<Admission, EngineError> {
        if !self.fits(blocks, ranges) {
            let geometry = self.0.trail.geometry();
            return Err(EngineError::CommitTooLarge {
                bytes: geometry.commit_sectors(blocks, ranges) * geometry.sector_bytes(),
                max_bytes: geometry.commit_sectors_max() * geometry.sector_bytes(),
            });
        }
        loop {
            let pending = self.0.pinned.borrow().range_count();
            if (ranges == 0 || pending < RANGES_MAX)
                && self.0.trail.retained_commits() < COMMITS_MAX
            {
                break;
            }
            let changed = self.0.access.changed.wait();
            self.0.work.notify();
            self.unless_refused(changed).await?;
        }
        let write_back = &self.0.write_back;
        if ranges == 0
            && let Err(full) = write_back.check_full()
            && write_back.is_pressed()
        {
            return Err(full);
        }
        // What frees less below than it takes of the log would use up the end of the log, which those that free more need.
        let frees = if write_back.waits_for_space_below() {
            ranges > 0 && ranges >= blocks
        } else {
            ranges > 0
        };
        if frees && write_back.waits_for_space() {
            self.0.check_writable()?;
            let ahead = self.0.trail.admit_ahead(blocks, ranges);
            if let Some(admission) = ahead.map_err(|error| self.0.fail(error.into()))? {
                return Ok(admission);
            }
        }
        let admission = self.unless_refused(self.0.trail.admit(blocks, ranges, frees));
        admission.await?.map_err(|error| self.0.fail(error.into()))
    }

    /// The outcome of `space`.
    ///
    /// # Errors
    /// When the store takes no changes, or `space` would have to be waited for while the home is full.
    async fn unless_refused<T>(&self, space: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut space = pin!(space);
        let mut refusal = self.0.refusals.wait();
        poll_fn(|context| {
            self.0.check_writable()?;
            if let Poll::Ready(done) = space.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            self.0.write_back.check_full()?;
            while Pin::new(&mut refusal).poll(context).is_ready() {
                refusal = self.0.refusals.wait();
            }
            Poll::Pending
        })
        .await
    }

    /// Changes all of the named blocks at once: visible to reads from now on, durable with [`Engine::wait_durable`].
    /// After a crash either all of these changes are there or none. `admission` must have been given for as much
    /// ([`Engine::admit`]).
    ///
    /// Each buffer of data is charged to the memory budget from now on, in place of the reservation for it.
    ///
    /// If the log already has a block's image and few words of the block change, the log records these words alone
    /// (`commit.rs`).
    ///
    /// # Errors
    /// When the store takes no changes.
    ///
    /// # Panics
    /// When there is no change, a change goes beyond the store's end, data is not a whole number of blocks, or the
    /// admission was given for less: the log would stand still once it is full.
    pub fn commit(
        &self,
        admission: Admission,
        changes: Vec<CommitChange>,
    ) -> Result<Lsn, EngineError> {
        self.0.check_writable()?;
        let block_size = self.block_size();
        let (mut blocks, mut ranges, mut bytes, mut has_zeroes) = (0, 0, 0, false);
        for change in &changes {
            let (first, count) = change.blocks(block_size);
            self.0.assert_range(first, count);
            match change {
                CommitChange::Write { data, .. } => {
                    self.charge(data);
                    blocks += count;
                    bytes += data.len() as u64;
                }
                CommitChange::Trim { .. } | CommitChange::Zero { .. } => {
                    ranges += 1;
                    has_zeroes = true;
                }
                CommitChange::Move { from, .. } => {
                    self.0.assert_range(*from, count);
                    ranges += count;
                    bytes += count * block_size as u64;
                }
            }
        }
        assert!(
            admission.covers(blocks, ranges),
            "a commit of {blocks} blocks and {ranges} ranges that was not admitted"
        );
        let (trail, pinned) = (&self.0.trail, &self.0.pinned);
        let lsn = trail.append(admission, |lsn| {
            record(&mut pinned.borrow_mut(), lsn, changes, block_size, trail)
        });
        let counters = &self.0.counters;
        Counters::add(&counters.commits, 1);
        Counters::add(&counters.commit_bytes, bytes);
        self.0.write_back.committed(lsn, has_zeroes);
        Ok(lsn)
    }

    /// Charges the buffer that is kept, which may be larger than the reservation for it.
    fn charge(&self, data: &Slice) {
        let (memory, bytes) = (&self.0.memory, data.capacity() as u64);
        if !data.has_own_lease(|permit: &Permit| permit.is(memory, bytes)) {
            data.attach(Rc::new(memory.take(bytes)));
        }
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

    /// Begins to write the commits that no caller waits for, and that would stay in memory for a while
    /// ([`OpenOptions::commit_delay`]).
    pub fn write_now(&self) {
        self.0.trail.write_now();
    }

    /// Waits until commit `lsn` is durable. The wait makes the log flush.
    ///
    /// # Errors
    /// When there is no such commit yet, or the log has failed: it is not known then whether the commit survives a
    /// crash.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), EngineError> {
        let appended = self.0.trail.appended();
        if lsn > appended {
            return Err(EngineError::NotCommitted { lsn, appended });
        }
        self.make_durable(lsn, FlushCause::Commit).await
    }

    /// Waits until the log's device has completed the writes of all commits that are made by now. They survive the end of this
    /// process then; a power cut may take them back.
    ///
    /// # Errors
    /// When the log has failed.
    pub async fn wait_flushed(&self) -> Result<(), EngineError> {
        let waited = self.0.trail.wait_flushed(self.0.trail.appended()).await;
        waited.map_err(|error| self.0.fail(error.into()))
    }

    /// Waits until commit `lsn` is durable. The flush counts under `cause`.
    pub(crate) async fn make_durable(
        &self,
        lsn: Lsn,
        cause: FlushCause,
    ) -> Result<(), EngineError> {
        match self.0.trail.wait_durable(lsn, cause).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.0.fail(error.into())),
        }
    }

    /// As [`Engine::wait_durable`], at most until the clock has reached `deadline`. False when the commit is not durable
    /// by then.
    ///
    /// # Errors
    /// As for [`Engine::wait_durable`].
    pub async fn wait_durable_until(&self, lsn: Lsn, deadline: Nanos) -> Result<bool, EngineError> {
        let mut durable = pin!(self.wait_durable(lsn));
        let mut timeout = pin!(self.0.rt.sleep_until(deadline));
        poll_fn(|context| match durable.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(ended.map(|()| true)),
            Poll::Pending => timeout.as_mut().poll(context).map(|()| Ok(false)),
        })
        .await
    }

    /// Resolves when further commits were not durable within [`OpenOptions::max_delay`].
    pub fn bound_missed(&self) -> Notified {
        self.0.trail.bound_missed()
    }

    /// True while the file system below the log has no space, although the log's files were written in full when they were
    /// made: it writes each overwrite to a new place.
    pub fn log_waits_for_space(&self) -> bool {
        self.0.trail.waits_for_space_below()
    }

    /// Resolves when the log begins to wait for space in the file system below.
    pub fn log_space_wanted(&self) -> Notified {
        self.0.trail.space_below_wanted()
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// As for [`Engine::wait_durable`].
    pub async fn flush(&self) -> Result<(), EngineError> {
        Counters::add(&self.0.counters.flushes, 1);
        self.0.check_alive()?;
        self.wait_durable(self.0.trail.appended()).await
    }

    /// Writes everything that is pinned home.
    ///
    /// # Errors
    /// When the store fails meanwhile, or its home is full.
    #[boxed(?Send)]
    pub async fn drain(&self) -> Result<(), EngineError> {
        let is_empty = || self.0.pinned.borrow().is_empty();
        self.0.write_back.until(is_empty).await
    }

    /// What happened when the store was opened.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.0.recovery
    }

    /// The superblock of this epoch.
    pub fn superblock(&self) -> Superblock {
        self.0.superblock.borrow().clone()
    }

    /// Names of the members, which are their paths, in the superblock's order.
    pub fn member_paths(&self) -> Vec<String> {
        let members = self.0.members.iter();
        members.map(|member| member.name().to_string()).collect()
    }

    /// The array that has the home blocks, if the store has one.
    pub fn array(&self) -> Option<ArrayStatus> {
        self.0.array()
    }

    /// Puts `device` in the place of the array's missing member, durably, while the store is in use. `path` is where later
    /// openings find it, and `uuid` its new identity. [`Engine::rebuild_array`] then restores the data.
    ///
    /// # Errors
    /// When the store has no array or is read-only, no member is missing, a rebuild is running, or the device does not fit
    /// or fails.
    #[boxed(?Send)]
    pub async fn replace_member(
        &self,
        device: MemberDevice,
        path: String,
        uuid: Uuid,
    ) -> Result<(), EngineError> {
        self.0.check_writable()?;
        match self.with_redundancy() {
            Some(array) => Ok(array.replace(device.device, path, uuid).await?),
            None => Err(RaidError::Replacement {
                member: device.path,
                why: "the store has no array".into(),
            }
            .into()),
        }
    }

    fn with_redundancy(&self) -> Option<&dyn Redundancy> {
        let mut arrays = self.0.members.iter().filter_map(|m| m.redundancy());
        arrays.find(|array| array.status().is_some())
    }

    /// Rebuilds the replacement of the array's missing member, while the store is in use.
    ///
    /// # Errors
    /// When there is no replacement, it fails, or a stripe has a second unreadable unit.
    #[boxed(?Send)]
    pub async fn rebuild_array(
        &self,
        rate: RebuildRate,
        progress: OnProgress,
    ) -> Result<(), EngineError> {
        self.0.check_writable()?;
        match self.with_redundancy() {
            Some(array) => Ok(array.rebuild(rate, progress).await?),
            None => Ok(()),
        }
    }

    /// The options with which the store was opened.
    pub fn options(&self) -> &OpenOptions {
        &self.0.options
    }

    /// The home, for the offline repair of a store that nothing else uses.
    pub fn home(&self) -> &Rc<dyn Home> {
        &self.0.home
    }

    /// What has happened to the store and its drives since the opening.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// The failure that made the store read-only, if any.
    pub fn failure(&self) -> Option<String> {
        self.0.life.borrow().failed.clone()
    }
}
