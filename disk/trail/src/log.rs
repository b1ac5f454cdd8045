//! The running log: it reserves log space for commits, queues them, and makes them durable.
//!
//! A writer task turns queued commits into device writes, and a flusher task makes them durable when a caller waits for
//! that (`log/writer.rs`). `log/state.rs` has the state that both tasks share. `log/heads.rs` follows the heads of
//! drives.
//!
//! Log space is reserved before a commit is made, first come first served. Only the first waiter checks each change of
//! the log; the others wait for their turn.

pub(crate) mod bound;
mod bound_task;
pub(crate) mod cause;
pub(crate) mod group_commit;
mod heads;
mod indirect;
mod kept;
mod options;
pub(crate) mod predict;
mod reads;
mod sink;
pub(crate) mod state;
pub(crate) mod writer;

pub use self::options::{TrailOptions, TrailStart, TrailStats, WriteCache};
pub use self::sink::IndirectSink;

use self::cause::FlushCause;
use self::kept::KEPT_BYTES;
use self::reads::MemberInTurn;
use self::state::State;
use crate::error::TrailError;
use crate::geometry::LogGeometry;
use crate::pack::Change;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos, RecordSeq};
use tonearm_device::Device;
use tonearm_format::LogState;
use tonearm_rt::{Notify, Rt, Watermark};

/// The log. Clones are handles of the same log.
#[derive(Clone)]
pub struct Trail(Rc<Inner>);

struct Inner {
    rt: Rt,
    pool: BufPool,
    /// The log's members, in the order of the geometry.
    devices: Vec<Rc<dyn Device>>,
    geometry: Rc<LogGeometry>,
    options: TrailOptions,
    state: RefCell<State>,
    /// Wakes the writer task.
    work: Notify,
    /// Wakes the flusher task.
    flush: Notify,
    /// Durability, log space or health has changed.
    progress: Notify,
    /// Last durable commit; callers wait for the commit that they need.
    durable: Watermark,
    /// Last commit whose write the device has completed.
    flushed: Watermark,
    /// First ticket in the queue for log space. Later tickets wait here and do not look at each change.
    turn: Watermark,
    /// A caller began to wait for log space.
    space_wanted: Notify,
    /// A commit was made while all before it were durable; only where a bound is set.
    bound: Notify,
    /// The bound was missed.
    bound_missed: Notify,
    /// Device writes that wait for space in the file system below.
    refused_writes: Cell<u64>,
    /// Such a write began to wait.
    space_below_wanted: Notify,
    stopped: Cell<bool>,
    /// The log has failed or was stopped.
    ended: Notify,
}

impl Trail {
    /// Opens the log of `geometry` on `devices`, its members, and starts its tasks.
    ///
    /// # Panics
    /// When the number of devices is not that of the members, or there are heads for only some of them.
    pub fn start(
        rt: &Rt,
        pool: &BufPool,
        devices: Vec<Rc<dyn Device>>,
        geometry: LogGeometry,
        start: TrailStart,
        options: TrailOptions,
    ) -> Self {
        assert_eq!(
            devices.len(),
            geometry.members.len(),
            "one device for each member"
        );
        let heads = start.heads.len();
        assert!(
            heads == 0 || heads == devices.len(),
            "one head for each drive"
        );
        let geometry = Rc::new(geometry);
        let state = State::new(rt, geometry.clone(), start, &options);
        let log_end = state.durability.appended();
        let heads = state.heads.iter();
        let stale = heads.filter_map(|drive| drive.head.stale_after()).min();
        let trail = Self(Rc::new(Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            devices,
            geometry,
            options,
            state: RefCell::new(state),
            work: Notify::new(rt),
            flush: Notify::new(rt),
            progress: Notify::new(rt),
            durable: Watermark::new(rt, log_end.0),
            flushed: Watermark::new(rt, log_end.0),
            turn: Watermark::new(rt, 0),
            space_wanted: Notify::new(rt),
            bound: Notify::new(rt),
            bound_missed: Notify::new(rt),
            refused_writes: Cell::new(0),
            space_below_wanted: Notify::new(rt),
            stopped: Cell::new(false),
            ended: Notify::new(rt),
        }));
        rt.spawn(trail.clone().write_loop());
        if options.write_cache != WriteCache::Ordered {
            rt.spawn(trail.clone().flush_loop());
        }
        if options.delay_max.is_some() {
            rt.spawn(trail.clone().bound_loop());
        }
        if let Some(interval) = stale {
            rt.spawn(trail.clone().refresh_loop(interval));
        }
        trail
    }

    /// Waits for log space for a commit of `blocks` blocks of data and `ranges` ranges. A commit that does not free space at home
    /// (`frees`) leaves one track for those that do ([`LogGeometry::spare_sectors`]).
    ///
    /// Reserve before the commit replaces versions that the log still holds. A commit that waited afterwards would
    /// wait for tracks that its own blocks keep in use.
    ///
    /// # Errors
    /// When the log has failed.
    ///
    /// # Panics
    /// When the log could never hold the commit ([`LogGeometry::commit_blocks_max`]).
    pub async fn admit(
        &self,
        blocks: u64,
        ranges: u64,
        frees: bool,
    ) -> Result<Admission, TrailError> {
        let sectors = self.0.geometry.commit_sectors(blocks, ranges);
        assert!(
            sectors <= self.0.geometry.commit_sectors_max(),
            "the log can hold the commit"
        );
        self.check_usable()?;
        let spare = match frees {
            true => 0,
            false => self.0.geometry.spare_sectors(sectors),
        };
        let first = self.0.state.borrow().space_queue.is_empty();
        let reserved = first.then(|| self.reserve(sectors, spare));
        if let Some(admission) = reserved.flatten() {
            return Ok(admission);
        }
        let ticket = Ticket::take(self);
        let turn = self.0.turn.wait(ticket.number);
        self.want_space();
        turn.await;
        loop {
            self.check_usable()?;
            let progress = self.0.progress.wait();
            if let Some(admission) = self.reserve(sectors, spare) {
                return Ok(admission);
            }
            self.want_space();
            progress.await;
        }
    }

    /// Log space for a commit that makes space, ahead of those that wait for some, if it is there.
    ///
    /// # Errors
    /// When the log has failed.
    pub fn admit_ahead(&self, blocks: u64, ranges: u64) -> Result<Option<Admission>, TrailError> {
        self.check_usable()?;
        Ok(self.reserve(self.0.geometry.commit_sectors(blocks, ranges), 0))
    }

    /// Reserves `sectors` if `spare` others are left.
    fn reserve(&self, sectors: u64, spare: u64) -> Option<Admission> {
        let mut state = self.0.state.borrow_mut();
        let fits = state.space() >= sectors + spare;
        fits.then(|| {
            state.reserved += sectors;
            Admission {
                trail: self.clone(),
                sectors,
            }
        })
    }

    fn want_space(&self) {
        self.0.work.notify();
        self.0.space_wanted.notify();
    }

    /// Queues a commit and returns its number. The writer writes it as soon as the log device is free.
    ///
    /// The log calls `make` once the commit has its number and can be held ([`Trail::hold`]). `make` returns the
    /// changes that the log records.
    ///
    /// # Panics
    /// When `make` returns no changes.
    pub fn append(&self, admission: Admission, make: impl FnOnce(Lsn) -> Vec<Change>) -> Lsn {
        let lsn = {
            let mut state = self.0.state.borrow_mut();
            let last = state.durability.appended();
            let all_durable = state.durability.durable().lsn == last;
            state.waits.committed(all_durable);
            state.durability.append(last + 1);
            state.retained.add_commit(last + 1);
            last + 1
        };
        if self.0.options.delay_max.is_some() {
            self.note_bound(|bound, now| bound.committed(now, lsn));
            self.0.bound.notify();
        }
        let changes = make(lsn);
        let mut state = self.0.state.borrow_mut();
        let geometry = &self.0.geometry;
        let large_min = self.0.options.large_commit_bytes;
        state
            .queue
            .push(geometry, lsn, admission.sectors, changes, large_min);
        drop(state);
        // From here on the queue accounts for the reserved sectors.
        drop(admission);
        self.0.work.notify();
        lsn
    }

    /// Ends the group-commit delay of the queued commits ([`TrailOptions::commit_delay`]).
    pub fn write_now(&self) {
        self.0.state.borrow_mut().delay.delayed_until = Some(Nanos(0));
        self.0.work.notify();
    }

    /// Keeps the records of commit `lsn` in the log until [`Trail::release`].
    pub fn hold(&self, lsn: Lsn) {
        self.0.state.borrow_mut().retained.hold(lsn);
    }

    /// Undoes one [`Trail::hold`]. Call [`Trail::advance`] after a round of releases.
    pub fn release(&self, lsn: Lsn) {
        self.0.state.borrow_mut().retained.release(lsn);
    }

    /// Moves the log start over what has been released.
    pub fn advance(&self) {
        self.0.state.borrow_mut().advance_log_start();
        self.0.work.notify();
        self.0.progress.notify();
    }

    /// Waits until commit `lsn` is durable. `cause` is what its flush counts under: `Commit`, `Checkpoint` or `Bound`.
    ///
    /// # Errors
    /// When the log has failed. Whether the commit survives a crash is unknown then.
    pub async fn wait_durable(&self, lsn: Lsn, cause: FlushCause) -> Result<(), TrailError> {
        if cause == FlushCause::Commit {
            self.0.state.borrow_mut().waits.waited();
        }
        if self.is_durable(lsn)? {
            return Ok(());
        }
        self.0.state.borrow_mut().asked.wait(lsn, cause);
        let reached = self.0.durable.wait(lsn.0);
        self.0.flush.notify();
        self.0.work.notify();
        reached.await;
        self.is_durable(lsn).map(|_| ())
    }

    /// Waits until the device has completed the write of commit `lsn`. The commit survives the end of this process then; a power cut
    /// may take it back.
    ///
    /// # Errors
    /// When the log has failed before.
    pub async fn wait_flushed(&self, lsn: Lsn) -> Result<(), TrailError> {
        let reached = self.0.flushed.wait(lsn.0);
        self.write_now();
        reached.await;
        let state = self.0.state.borrow();
        if state.durability.flushed().lsn >= lsn {
            return Ok(());
        }
        state.check_given_up()?;
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// # Errors
    /// When it is not durable and the log has failed, or the store has.
    fn is_durable(&self, lsn: Lsn) -> Result<bool, TrailError> {
        let state = self.0.state.borrow();
        state.check_given_up()?;
        let durable = state.durability.durable().lsn >= lsn;
        match &state.failed {
            Some(error) if !durable => Err(error.clone()),
            _ => Ok(durable),
        }
    }

    /// Makes durable what the device has written so far, without waiting for queued commits: blocks are to be written back.
    ///
    /// # Errors
    /// When the log has failed.
    pub async fn sync_written(&self) -> Result<(), TrailError> {
        let seq = {
            let mut state = self.0.state.borrow_mut();
            state.force_flush(FlushCause::HomeWrite);
            state.durability.flushed().seq
        };
        self.0.flush.notify();
        while self.0.state.borrow().durability.durable().seq < seq {
            self.check()?;
            self.0.progress.wait().await;
        }
        Ok(())
    }

    /// Resolves at the next change of durability, log space or health.
    pub fn progress(&self) -> tonearm_rt::Notified {
        self.0.progress.wait()
    }

    /// Where the log lies and how it is divided.
    pub fn geometry(&self) -> &LogGeometry {
        &self.0.geometry
    }

    /// Last commit queued.
    pub fn appended(&self) -> Lsn {
        self.0.state.borrow().durability.appended()
    }

    /// Last commit whose write the device has completed.
    pub fn flushed(&self) -> Lsn {
        self.0.state.borrow().durability.flushed().lsn
    }

    /// Last durable commit.
    pub fn durable(&self) -> Lsn {
        self.0.state.borrow().durability.durable().lsn
    }

    /// The oldest commit that is held or not durable. All before it are durable at home.
    pub fn retained_from(&self) -> Lsn {
        let mut state = self.0.state.borrow_mut();
        let durable = state.durability.durable().lsn;
        state.retained.advance(durable)
    }

    /// The first commit that a recovery from now on would replay.
    pub fn replayed_from(&self) -> Lsn {
        self.0.state.borrow().durability.durable().log_start_lsn
    }

    /// What is needed to read the log: buffers, its members, and how it is divided.
    pub(crate) fn medium(&self) -> (&BufPool, Vec<Rc<dyn Device>>, LogGeometry) {
        let inner = &self.0;
        let geometry = (*inner.geometry).clone();
        let devices = match self.is_followed() {
            true => MemberInTurn::all(self),
            false => inner.devices.clone(),
        };
        (&inner.pool, devices, geometry)
    }

    /// True when the heads of the log's drives are followed.
    pub(crate) fn is_followed(&self) -> bool {
        !self.0.state.borrow().heads.is_empty()
    }

    /// Bytes of log that are kept in memory for a reader of the history that keeps up; `None` where it reads the drive as it likes.
    pub fn kept_bytes(&self) -> Option<u64> {
        self.is_followed().then_some(KEPT_BYTES as u64)
    }

    /// Keeps what is written from now on, and the rest of the current track once it is read, where heads are followed.
    pub(crate) fn reader(&self) -> Reader {
        let trail = self.is_followed().then(|| self.clone());
        if let Some(trail) = &trail {
            trail.0.state.borrow_mut().kept.add_reader();
        }
        Reader(trail)
    }

    /// Where the log ended before this opening, and the number of the opening.
    pub(crate) fn epoch(&self) -> (LogState, u64) {
        let state = self.0.state.borrow();
        (state.before, state.epoch)
    }

    /// The last durable record.
    pub(crate) fn durable_end(&self) -> DurableEnd {
        let end = self.0.state.borrow().durability.durable();
        DurableEnd {
            seq: end.seq,
            sector: end.sector,
            lsn: end.lsn,
            track: self.0.geometry.track_of(end.sector),
        }
    }

    /// Number of commits from the oldest that is held to the last one.
    pub fn retained_commits(&self) -> usize {
        self.0.state.borrow().retained.len()
    }

    /// Tracks in use and all tracks.
    pub fn usage(&self) -> (u64, u64) {
        let state = self.0.state.borrow();
        (state.ring.used(), state.ring.tracks())
    }

    /// True while a commit waits for log space.
    pub fn is_full(&self) -> bool {
        !self.0.state.borrow().space_queue.is_empty()
    }

    /// True while the file system below the log has no space for a record that is being written.
    pub fn waits_for_space_below(&self) -> bool {
        self.0.refused_writes.get() > 0
    }

    /// Resolves when the file system below the log has no space for a record.
    pub fn space_below_wanted(&self) -> tonearm_rt::Notified {
        self.0.space_below_wanted.wait()
    }

    /// Resolves when a commit begins to wait for log space.
    pub fn space_wanted(&self) -> tonearm_rt::Notified {
        self.0.space_wanted.wait()
    }

    /// Counters.
    pub fn stats(&self) -> TrailStats {
        let state = self.0.state.borrow();
        let now = self.0.rt.now();
        let bound = state.bound.as_ref().map(|bound| bound.observed(now));
        let (delay_max, delays_missed) = bound.unwrap_or_default();
        TrailStats {
            delay_max,
            delays_missed,
            tracks_used: state.ring.used(),
            tracks: state.ring.tracks(),
            ..state.stats
        }
    }

    /// Fails when the log has failed.
    ///
    /// # Errors
    /// The failure that made the log unusable.
    pub fn check(&self) -> Result<(), TrailError> {
        self.0.state.borrow().failed.clone().map_or(Ok(()), Err)
    }

    /// Waits until the log fails; none when it ends without a failure, or the store has failed.
    pub async fn failure(&self) -> Option<TrailError> {
        loop {
            let ended = self.0.ended.wait();
            if let Err(error) = self.check() {
                return Some(error);
            }
            if self.0.stopped.get() || self.0.state.borrow().given_up.is_some() {
                return None;
            }
            ended.await;
        }
    }

    /// Notes that the store has failed for another reason. Waits for log space and for durability then end with
    /// an error, because a failed flush of a home on the same drive may also have lost log records. Queued commits are
    /// still written.
    pub fn give_up(&self, reason: &str) {
        let mut state = self.0.state.borrow_mut();
        state.given_up.get_or_insert_with(|| reason.to_string());
        drop(state);
        self.0.ended.notify();
        self.0.durable.close();
        self.0.flushed.close();
        self.0.turn.close();
        self.0.progress.notify();
    }

    /// Fails when the log, or the store, has failed.
    fn check_usable(&self) -> Result<(), TrailError> {
        self.check()?;
        self.0.state.borrow().check_given_up()
    }

    /// Writes the queued commits, waits for writes under way, and makes all of them durable. The caller appends
    /// nothing from now on. Commits that wait for log space do not get it.
    ///
    /// # Errors
    /// When the log or the store has failed.
    pub async fn finish(&self) -> Result<(), TrailError> {
        self.0.state.borrow_mut().ending = true;
        loop {
            self.check_usable()?;
            let progress = self.0.progress.wait();
            {
                let mut state = self.0.state.borrow_mut();
                let durability = &state.durability;
                let written = state.queue.is_empty() && durability.writes_in_flight() == 0;
                if written && durability.durable() == durability.flushed() {
                    return Ok(());
                }
                state.force_flush(FlushCause::Checkpoint);
            }
            self.0.work.notify();
            self.0.flush.notify();
            progress.await;
        }
    }

    /// Log positions for the superblock of an orderly end. All commits must be durable and released.
    pub fn end_state(&self) -> LogState {
        let mut state = self.0.state.borrow_mut();
        state.advance_log_start();
        assert!(
            state.live.is_empty() && state.queue.is_empty(),
            "at an orderly end the log is empty"
        );
        let end = state.durability.durable();
        assert_eq!(
            end,
            state.durability.flushed(),
            "at an orderly end the log is durable"
        );
        let start_track = state.ring.next_index();
        LogState {
            log_start_sector: state.prev_sector,
            log_start_seq: state.next_seq.0,
            log_end_sector: state.prev_sector,
            log_end_seq: state.next_seq.0 - 1,
            log_end_epoch: state.prev_epoch,
            log_end_lsn: state.durability.appended().0,
            start_track,
        }
    }

    /// Ends the log's tasks.
    pub fn stop(&self) {
        self.0.stopped.set(true);
        self.0.bound.notify();
        self.0.work.notify();
        self.0.flush.notify();
        self.0.ended.notify();
    }
}

/// A reader of a log's history, for which tracks are kept where heads are followed.
pub(crate) struct Reader(Option<Trail>);

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(trail) = &self.0 {
            trail.0.state.borrow_mut().kept.remove_reader();
        }
    }
}

/// The durable end of a log, and what is needed to read back from it.
pub(crate) struct DurableEnd {
    pub seq: RecordSeq,
    pub sector: u64,
    pub lsn: Lsn,
    pub track: u64,
}

/// A place in the queue for log space.
struct Ticket<'a> {
    trail: &'a Trail,
    number: u64,
}

impl<'a> Ticket<'a> {
    fn take(trail: &'a Trail) -> Self {
        let mut state = trail.0.state.borrow_mut();
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.space_queue.push_back(number);
        state.stats.full_waits += 1;
        Self { trail, number }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let inner = &self.trail.0;
        let mut state = inner.state.borrow_mut();
        // Tickets are in ascending order.
        let at = state.space_queue.binary_search(&self.number);
        state
            .space_queue
            .remove(at.expect("a ticket is queued while it lives"));
        let first = state.space_queue.front().copied();
        inner.turn.raise(first.unwrap_or(state.next_ticket));
    }
}

/// Log space reserved for one commit. Dropping it returns the space.
pub struct Admission {
    trail: Trail,
    sectors: u64,
}

impl Admission {
    /// True when the space is enough for a commit of `blocks` blocks of data and `ranges` ranges.
    pub fn covers(&self, blocks: u64, ranges: u64) -> bool {
        self.trail.0.geometry.commit_sectors(blocks, ranges) <= self.sectors
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let inner = &self.trail.0;
        let mut state = inner.state.borrow_mut();
        state.reserved -= self.sectors;
        if !state.space_queue.is_empty() {
            // The commit was given up, or needs less than was reserved.
            inner.progress.notify();
        }
    }
}
