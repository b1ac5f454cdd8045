//! The log at work: a writer that turns what is queued into one device write, and a flusher that makes
//! it durable when somebody needs that.

mod admission;
pub(crate) mod company;
mod end;
mod heads;
mod when;

pub use admission::Admission;

use self::company::Company;
use self::heads::Arm;

use crate::durability::{Durability, Point};
use crate::error::TrailError;
use crate::geometry::LogGeometry;
use crate::pack::{Change, Frame, Queue, RecordPlace, pack_marker};
use crate::release::Releases;
use crate::ring::Ring;
use crate::unflushed_tracks_max;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos, RecordSeq};
use tonearm_device::{Device, DeviceIo};
use tonearm_format::LogState;
use tonearm_head::Head;
use tonearm_rt::{Data, Notify, Op, Rt, Watermark};

/// What is known of the storage's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCache {
    /// It may lose and reorder what was not flushed: flush where a rule needs it.
    Volatile,
    /// The administrator's word that the storage keeps what it has taken, in order: never flush
    /// (Durable WAL 3, battery-backed caches).
    Ordered,
}

/// How the log is run.
#[derive(Clone, Copy, Debug)]
pub struct TrailOptions {
    /// The storage's cache.
    pub write_cache: WriteCache,
    /// Device writes under way at once when a lot is queued.
    pub writes_in_flight_max: usize,
    /// Queued bytes from which a further device write starts beside those under way.
    pub pipeline_bytes: u64,
    /// Share of a track, in percent, after whose use the head goes to the next one (Trail 3.1).
    pub threshold_percent: u64,
    /// How long commits that nobody waits for may stay in memory, so that one device write takes many.
    pub linger: Nanos,
}

impl Default for TrailOptions {
    fn default() -> Self {
        Self {
            write_cache: WriteCache::Volatile,
            writes_in_flight_max: 4,
            pipeline_bytes: 256 << 10,
            threshold_percent: 30,
            linger: Nanos(0),
        }
    }
}

/// Where the log goes on.
#[derive(Default)]
pub struct TrailStart {
    /// This opening.
    pub epoch: u64,
    /// Positions as in the superblock of this epoch.
    pub state: LogState,
    /// Records that are still live, oldest first (recovery without write-back).
    pub live: Vec<RecordPlace>,
    /// What predicts the heads of the log's drives, one for each; none when the next sector is as good as any.
    pub heads: Vec<Box<dyn Head>>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailStats {
    /// Device writes.
    pub writes: u64,
    /// Of them, written through (FUA).
    pub durable_writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Records written.
    pub records: u64,
    /// Commits written.
    pub commits: u64,
    /// Flushes of the log device.
    pub flushes: u64,
    /// Records written only to tell the log head.
    pub markers: u64,
    /// Reads that moved a head to the next track.
    pub repositions: u64,
    /// Reads that looked where an idle drive's head is.
    pub refreshes: u64,
    /// Times the writer waited for a free track.
    pub full_waits: u64,
    /// Tracks in use.
    pub tracks_used: u64,
    /// All tracks.
    pub tracks: u64,
}

struct State {
    epoch: u64,
    ring: Ring,
    /// Heads of the log's drives, none or one for each.
    arms: Vec<Arm>,
    queue: Queue,
    durability: Durability,
    releases: Releases,
    /// Records from the log head on.
    live: VecDeque<Live>,
    next_seq: RecordSeq,
    prev_sector: u64,
    prev_epoch: u64,
    /// Last commit of which all records have been handed to the device.
    last_whole: Lsn,
    /// Records up to this one are to be made durable as soon as they are written.
    force_seq: RecordSeq,
    /// Until when what is queued waits for more, if it does.
    lingers_until: Option<Nanos>,
    /// Who are expected to wait for the next device write together.
    company: Company,
    /// Sectors promised to commits that are admitted and not appended yet.
    reserved: u64,
    /// Tickets of those who wait for log space, first come first served.
    space_queue: VecDeque<u64>,
    next_ticket: u64,
    failed: Option<TrailError>,
    /// Nothing is appended any more: markers would serve nobody.
    ending: bool,
    /// Why the store goes no further, though the log could.
    given_up: Option<String>,
    stats: TrailStats,
}

/// What the writer does next.
enum Next {
    /// Looks for more to write.
    Again,
    /// Waits until something changes, or for no longer than this.
    Wait(Option<Nanos>),
}

struct Live {
    place: RecordPlace,
    track: u64,
}

/// The log.
#[derive(Clone)]
pub struct Trail(Rc<Inner>);

struct Inner {
    rt: Rt,
    pool: BufPool,
    /// The log's members, in the order of the geometry.
    devices: Vec<Rc<dyn Device>>,
    geometry: LogGeometry,
    options: TrailOptions,
    state: RefCell<State>,
    /// Something changed for the writer.
    work: Notify,
    /// Something changed for the flusher.
    flush: Notify,
    /// Something changed for those who wait (durability, log space, failure).
    progress: Notify,
    /// Last durable commit, for those who wait for one.
    durable: Watermark,
    /// Ticket of the first who waits for log space: the others need not look at each change.
    turn: Watermark,
    /// Somebody waits for log space.
    space_wanted: Notify,
    stopped: Cell<bool>,
}

impl Trail {
    /// The log of `geometry` on `devices`, its members; starts its tasks.
    ///
    /// # Panics
    /// When there is not a device for each member, or neither none nor one head for each.
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
            "a device for each member"
        );
        let heads = start.heads.len();
        assert!(
            heads == 0 || heads == devices.len(),
            "a head for each drive"
        );
        let log = &start.state;
        let head_sector = start
            .live
            .first()
            .map_or(log.start_track * geometry.track_sectors, |first| {
                first.sector
            });
        let head_track = geometry.track_of(head_sector);
        let ring = Ring::new(geometry.tracks, log.start_track, head_track);
        let live = start
            .live
            .iter()
            .map(|place| Live {
                // A commit that recovery has given up, because its end is missing, holds no record: nobody
                // would ever release it, and an orderly end would find its record still there.
                place: RecordPlace {
                    last_lsn: place.last_lsn.min(Lsn(log.tail_lsn)),
                    ..*place
                },
                track: ring.count_of(geometry.track_of(place.sector)),
            })
            .collect();
        let oldest = start
            .live
            .first()
            .map_or(log.tail_lsn + 1, |first| first.first_lsn.0);
        let at = Point {
            lsn: Lsn(log.tail_lsn),
            seq: RecordSeq(log.tail_seq),
            track: ring.current(),
            head_track: ring.head(),
            head_lsn: Lsn(oldest),
        };
        let mut releases = Releases::new(Lsn(oldest));
        for lsn in oldest..=log.tail_lsn {
            releases.add_commit(Lsn(lsn));
        }
        let ordered = options.write_cache == WriteCache::Ordered;
        let now = rt.now();
        let arms: Vec<Arm> = start
            .heads
            .into_iter()
            .map(|head| Arm::new(head, now))
            .collect();
        let stale = arms.iter().filter_map(|arm| arm.head.stale_after()).min();
        let trail = Self(Rc::new(Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            devices,
            geometry,
            options,
            state: RefCell::new(State {
                epoch: start.epoch,
                ring,
                arms,
                queue: Queue::default(),
                durability: Durability::new(at, ordered),
                releases,
                live,
                next_seq: RecordSeq(log.tail_seq + 1),
                prev_sector: log.tail_sector,
                prev_epoch: log.tail_epoch,
                last_whole: Lsn(log.tail_lsn),
                force_seq: RecordSeq(0),
                lingers_until: None,
                company: Company::default(),
                reserved: 0,
                space_queue: VecDeque::new(),
                next_ticket: 0,
                failed: None,
                ending: false,
                given_up: None,
                stats: TrailStats::default(),
            }),
            work: Notify::new(rt),
            flush: Notify::new(rt),
            progress: Notify::new(rt),
            durable: Watermark::new(rt, log.tail_lsn),
            turn: Watermark::new(rt, 0),
            space_wanted: Notify::new(rt),
            stopped: Cell::new(false),
        }));
        rt.spawn(trail.clone().write_loop());
        if !ordered {
            rt.spawn(trail.clone().flush_loop());
        }
        if let Some(interval) = stale {
            rt.spawn(trail.clone().refresh_loop(interval));
        }
        trail
    }

    /// Queues a commit; its number. It is written as soon as the log device is free. `pin` is told of the
    /// commit when it has its number and may be held ([`Trail::hold`]); it may put a [`Change::Patch`] in the
    /// place of a block that is written, where that takes no more room, and gives the CRC-32C of each block of data, over
    /// all changes.
    pub fn append(
        &self,
        admission: Admission,
        mut changes: Vec<Change>,
        pin: impl FnOnce(Lsn, &mut Vec<Change>) -> Vec<u32>,
    ) -> Lsn {
        let lsn = {
            let mut state = self.0.state.borrow_mut();
            let lsn = state.durability.appended() + 1;
            state.durability.append(lsn);
            state.releases.add_commit(lsn);
            lsn
        };
        let crcs = pin(lsn, &mut changes);
        let mut state = self.0.state.borrow_mut();
        let geometry = &self.0.geometry;
        state
            .queue
            .push(geometry, lsn, admission.sectors, changes, crcs);
        drop(state);
        // The promise is kept by the queue's own account from here on.
        drop(admission);
        self.0.work.notify();
        lsn
    }

    /// Something in memory stands for commit `lsn`: its records must stay.
    pub fn hold(&self, lsn: Lsn) {
        self.0.state.borrow_mut().releases.hold(lsn);
    }

    /// Undoes one [`Trail::hold`]. Call [`Trail::advance`] after a round of them.
    pub fn release(&self, lsn: Lsn) {
        self.0.state.borrow_mut().releases.release(lsn);
    }

    /// Moves the log head over what is released.
    pub fn advance(&self) {
        self.0.state.borrow_mut().advance_head();
        self.0.work.notify();
        self.0.progress.notify();
    }

    /// Waits until commit `lsn` is durable.
    ///
    /// # Errors
    /// When the log has failed: whether the commit survives a crash is not known then.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), TrailError> {
        self.check_given_up()?;
        if self.durable() >= lsn {
            return Ok(());
        }
        self.check()?;
        let reached = self.0.durable.wait(lsn.0);
        self.0.flush.notify();
        self.0.work.notify();
        reached.await;
        self.check_given_up()?;
        if self.durable() >= lsn {
            return Ok(());
        }
        self.check()
    }

    /// Makes durable what has been written to the device so far, without waiting for what is queued.
    ///
    /// # Errors
    /// When the log has failed.
    pub async fn sync_written(&self) -> Result<(), TrailError> {
        let seq = {
            let mut state = self.0.state.borrow_mut();
            let seq = state.durability.flushed().seq;
            state.force_seq = state.force_seq.max(seq);
            seq
        };
        self.0.flush.notify();
        while self.0.state.borrow().durability.durable().seq < seq {
            self.check()?;
            self.0.progress.wait().await;
        }
        Ok(())
    }

    /// Ends at the next change of durability, log space or health.
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

    /// Last commit that the device has said done.
    pub fn flushed(&self) -> Lsn {
        self.0.state.borrow().durability.flushed().lsn
    }

    /// Last durable commit.
    pub fn durable(&self) -> Lsn {
        self.0.state.borrow().durability.durable().lsn
    }

    /// The oldest commit that is held or not durable: all before it are durable at home.
    pub fn kept_from(&self) -> Lsn {
        let mut state = self.0.state.borrow_mut();
        let durable = state.durability.durable().lsn;
        state.releases.advance(durable)
    }

    /// A recovery from now on sees no commit before this one.
    pub fn replayed_from(&self) -> Lsn {
        self.0.state.borrow().durability.durable().head_lsn
    }

    /// Commits between the oldest that is held and the last.
    pub fn commits_kept(&self) -> usize {
        self.0.state.borrow().releases.len()
    }

    /// Tracks in use and all tracks.
    pub fn usage(&self) -> (u64, u64) {
        let state = self.0.state.borrow();
        (state.ring.used(), state.ring.tracks())
    }

    /// True when somebody waits for log space.
    pub fn is_full(&self) -> bool {
        !self.0.state.borrow().space_queue.is_empty()
    }

    /// Ends when somebody begins to wait for log space.
    pub fn space_wanted(&self) -> tonearm_rt::Notified {
        self.0.space_wanted.wait()
    }

    /// Counters.
    pub fn stats(&self) -> TrailStats {
        let state = self.0.state.borrow();
        TrailStats {
            tracks_used: state.ring.used(),
            tracks: state.ring.tracks(),
            ..state.stats
        }
    }

    /// The failure that made the log unusable, if any.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<(), TrailError> {
        self.0.state.borrow().failed.clone().map_or(Ok(()), Err)
    }

    /// The store has failed for another reason: nobody gets log space, and nothing more is called durable,
    /// because the flush of a home on the same drive that failed may have cost the log its records too.
    /// What is queued is written all the same.
    pub fn give_up(&self, reason: &str) {
        let mut state = self.0.state.borrow_mut();
        state.given_up.get_or_insert_with(|| reason.to_string());
        drop(state);
        self.0.durable.lift();
        self.0.turn.lift();
        self.0.progress.notify();
    }

    fn check_given_up(&self) -> Result<(), TrailError> {
        match &self.0.state.borrow().given_up {
            Some(reason) => Err(TrailError::GivenUp(reason.clone())),
            None => Ok(()),
        }
    }

    async fn write_loop(self) {
        while !self.0.stopped.get() && self.check().is_ok() {
            let changed = self.0.work.wait();
            match self.dispatch() {
                Next::Again => {}
                Next::Wait(None) => changed.await,
                Next::Wait(Some(until)) => changed.until(until).await,
            }
        }
    }

    /// Starts one device write if there is something to write, a place for it, and nothing to wait for.
    fn dispatch(&self) -> Next {
        let inner = &*self.0;
        let mut guard = inner.state.borrow_mut();
        let state = &mut *guard;
        if state.failed.is_some() {
            return Next::Wait(None);
        }
        let under_way = state.durability.writes_in_flight();
        let mut marker = false;
        if state.queue.is_empty() {
            if state.ending {
                return Next::Wait(None);
            }
            if state.space_queue.is_empty() {
                return match self.reposition(state) {
                    true => Next::Again,
                    false => Next::Wait(None),
                };
            }
            marker = true;
        } else {
            let busy = state.arms.is_empty()
                && (under_way >= inner.options.writes_in_flight_max
                    || (under_way > 0 && state.queue.bytes() < inner.options.pipeline_bytes));
            if busy {
                return Next::Wait(None);
            }
            if let Some(until) = self.lingers(state).or_else(|| self.awaits_company(state)) {
                return Next::Wait(Some(until));
            }
        }
        let min = state.queue.min_sectors(&inner.geometry);
        if !marker && state.ring.first_fit(min, false).is_none() {
            let unflushed = state.ring.current() + 1 - state.durability.durable().track;
            if unflushed > unflushed_tracks_max(inner.geometry.tracks) {
                state.force_flush();
                drop(guard);
                inner.flush.notify();
                return Next::Wait(None);
            }
            marker = !state.ring.may_open(state.ring.head());
        }
        if marker {
            // The log head has moved: it must become durable before tracks behind it are used again.
            state.advance_head();
            if state.head_track() <= state.ring.head() || under_way > 0 {
                return Next::Wait(None);
            }
            if state.durability.flushed().head_track > state.ring.head() {
                state.force_flush();
                drop(guard);
                inner.flush.notify();
                return Next::Wait(None);
            }
        }
        let wanted = if marker { 1 } else { state.queue.promised() };
        let sent = inner.rt.now();
        let Some(room) = state.find_room(
            &inner.geometry,
            sent,
            inner.options.threshold_percent,
            (if marker { 1 } else { min }, wanted),
            marker,
        ) else {
            return Next::Wait(None);
        };
        let sector = room.sector;
        state.advance_head();
        let frame = Frame {
            epoch: state.epoch,
            next_seq: state.next_seq,
            prev_sector: state.prev_sector,
            prev_epoch: state.prev_epoch,
            head: state
                .live
                .front()
                .map(|live| (live.place.sector, live.place.seq)),
            durable_seq: state.durability.durable().seq,
        };
        let wanted = room.sectors.min(wanted);
        let mut out = inner.pool.alloc(wanted as usize * inner.geometry.sector);
        let (packed, sectors, whole) = if marker {
            // Not `appended + 1`: commits may be queued, whose records come behind this one. Recovery would be said to
            // begin behind them.
            let lsn = state.last_whole + 1;
            (
                vec![pack_marker(&inner.geometry, &frame, sector, lsn, &mut out)],
                1,
                None,
            )
        } else {
            state.queue.pack(&inner.geometry, frame, sector, &mut out)
        };
        out.set_len(sectors * inner.geometry.sector);
        let within = sector % inner.geometry.track_sectors;
        state.ring.take(within..within + sectors as u64);
        self.note(state, &packed, whole, marker);
        let lsn = state.last_whole;
        let end = Point {
            lsn,
            seq: packed.last().expect("a batch has records").seq,
            track: state.ring.current(),
            head_track: state.head_track(),
            head_lsn: state
                .live
                .front()
                .map_or(lsn + 1, |live| live.place.first_lsn),
        };
        let through = self.should_write_through(state, lsn);
        let id = state.durability.start_write(end);
        state.company.sent = sent;
        state.stats.writes += 1;
        state.stats.durable_writes += u64::from(through);
        state.stats.bytes += out.len() as u64;
        let member = inner.geometry.member_of(inner.geometry.track_of(sector));
        if let Some(arm) = state.arms.get_mut(member) {
            arm.busy = true;
        }
        drop(guard);
        let offset = inner.geometry.byte_of(sector);
        let op = if through { Op::WriteDurable } else { Op::Write };
        let io = inner.devices[member].io(op, offset, 0, Data::whole(out));
        let span = inner.geometry.drive_span(sector, sectors as u64);
        let trail = self.clone();
        inner.rt.spawn(async move {
            let (result, _) = io.await;
            trail.arm_done(member, span, sent, result.is_ok(), Head::written);
            match result {
                Ok(_) => trail.written(id, through),
                Err(error) => trail.fail(member, "write", offset, error),
            }
        });
        Next::Again
    }

    fn note(&self, state: &mut State, packed: &[RecordPlace], whole: Option<Lsn>, marker: bool) {
        for record in packed {
            state.live.push_back(Live {
                place: *record,
                track: state.ring.current(),
            });
        }
        let last = packed.last().expect("a batch has records");
        (state.next_seq, state.prev_sector, state.prev_epoch) =
            (last.seq + 1, last.sector, state.epoch);
        state.stats.records += packed.len() as u64;
        state.stats.markers += u64::from(marker);
        if let Some(lsn) = whole {
            state.stats.commits += lsn - state.last_whole;
            state.last_whole = lsn;
        }
    }

    fn written(&self, id: u64, through: bool) {
        {
            let mut guard = self.0.state.borrow_mut();
            let state = &mut *guard;
            if state.durability.finish_write(id, through) {
                self.publish(state);
            }
        }
        self.0.work.notify();
        self.0.flush.notify();
        self.0.progress.notify();
    }

    /// Records are durable: recovery will never start before the head that the last one names, and who
    /// waited for their commits waits no longer.
    fn publish(&self, state: &mut State) {
        let durable = state.durability.durable();
        state.ring.set_head(durable.head_track);
        let released = self.0.durable.raise(durable.lsn.0);
        if released > 0 {
            let left = self.0.durable.waiting();
            state.company.part(self.0.rt.now(), released, left);
        }
    }

    async fn flush_loop(self) {
        while !self.0.stopped.get() && self.check().is_ok() {
            let wait = self.0.flush.wait();
            let covered = {
                let state = self.0.state.borrow();
                self.flush_is_needed(&state)
                    .then(|| state.durability.flushed())
            };
            let Some(covered) = covered else {
                wait.await;
                continue;
            };
            self.0.state.borrow_mut().stats.flushes += 1;
            match self.flush_members().await {
                Ok(()) => {
                    let mut guard = self.0.state.borrow_mut();
                    guard.durability.finish_flush(covered);
                    self.publish(&mut guard);
                    drop(guard);
                    self.0.work.notify();
                    self.0.progress.notify();
                }
                Err((member, error)) => {
                    let offset = self.0.geometry.track_start(member as u64);
                    self.fail(member, "flush", offset, error);
                }
            }
        }
    }

    /// Flushes all members at once; which one failed, and how.
    async fn flush_members(&self) -> Result<(), (usize, tonearm_rt::IoError)> {
        let flush = |device: &Rc<dyn Device>| device.io(Op::Flush, 0, 0, Data::None);
        let flushes: Vec<DeviceIo> = self.0.devices.iter().map(flush).collect();
        let mut ended = Ok(());
        for (member, flush) in flushes.into_iter().enumerate() {
            if let Err(error) = flush.await.0 {
                ended = ended.and(Err((member, error)));
            }
        }
        ended
    }

    /// The log is unusable from now on: nothing is said durable any more.
    fn fail(&self, member: usize, what: &'static str, offset: u64, error: tonearm_rt::IoError) {
        let failure = TrailError::Device {
            device: self.0.devices[member].name().to_string(),
            what,
            offset,
            error,
        };
        self.0.state.borrow_mut().failed.get_or_insert(failure);
        self.0.durable.lift();
        self.0.turn.lift();
        self.0.work.notify();
        self.0.flush.notify();
        self.0.progress.notify();
    }
}

impl State {
    /// Sectors that further commits may be promised.
    fn space(&self, geometry: &LogGeometry) -> u64 {
        let tracks = self.ring.openable();
        (tracks * geometry.track_sectors_usable())
            .saturating_sub(self.reserved + self.queue.promised())
    }

    fn advance_head(&mut self) {
        let oldest = self.releases.advance(self.durability.durable().lsn);
        while self
            .live
            .front()
            .is_some_and(|live| live.place.last_lsn < oldest)
        {
            // The last record stays until it is durable: it is what a marker or batch ends with.
            if self
                .live
                .front()
                .is_some_and(|live| live.place.seq > self.durability.durable().seq)
            {
                break;
            }
            self.live.pop_front();
        }
    }

    /// Track of the log head that a record written now names.
    fn head_track(&self) -> u64 {
        self.live
            .front()
            .map_or(self.ring.current(), |live| live.track)
    }

    fn force_flush(&mut self) {
        self.force_seq = self.force_seq.max(self.durability.flushed().seq);
    }
}
