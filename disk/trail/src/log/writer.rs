//! The writer and the flusher of the log.
//!
//! [`plan`] decides what the writer does next: a pure function of the log's state, without I/O. A record goes to the
//! log when commits are queued, or when commits wait for log space and a marker would free some. A marker is a record
//! without entries. It names a new log start, and the tracks before that start are free once the marker is durable. The
//! tasks carry out what the plan says, and note what the devices have completed.

use super::Trail;
use super::cause::FlushCause;
use super::group_commit::CommitDelay;
use super::options::{TrailOptions, WriteCache};
use super::state::{DriveHead, Live, Point, State};
use crate::error::TrailError;
use crate::geometry::LogGeometry;
use crate::pack::{Frame, RecordPlace, pack_marker};
use crate::unflushed_tracks_max;
use std::cell::RefMut;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_device::{Device, DeviceIo};

use tonearm_rt::{Data, IoError, Op};

/// Time between two tries of a write for which the file system below had no space.
const SPACE_LOOK: Nanos = Nanos::from_millis(500);

/// What the writer does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Waits until something changes, but not beyond this time.
    Wait(Option<Nanos>),
    /// There is nothing to write. The head of an idle drive may move to the next track.
    Reposition,
    /// Asks the flusher to make all written records durable, and waits.
    Flush,
    /// Writes blocks of queued commits outside the log.
    Indirect,
    /// Makes these blocks durable.
    FlushIndirect,
    /// Starts one device write.
    Write(WriteStep),
}

/// A device write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WriteStep {
    /// True for a marker, false for the queued commits.
    pub marker: bool,
    /// Sectors of its first record, at least.
    pub min: u64,
    /// Sectors that it would fill if there were room.
    pub wanted: u64,
    pub target: Target,
    /// The write has FUA when it completes this commit.
    pub fua_from: Option<Lsn>,
}

/// Where a write goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The first free range of the current track that is long enough.
    Current,
    /// The start of the next track, which is opened.
    Next,
    /// The place among these free ranges, each with its track, that the drive's head reaches first.
    Head(Vec<(u64, Range<u64>)>),
}

/// The callers that wait for a commit to be durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiters {
    pub count: usize,
    /// The oldest commit that one of them waits for.
    pub first: Option<Lsn>,
    /// Callers that wait for a commit to be written.
    pub for_write: usize,
}

impl Waiters {
    /// True when a caller waits.
    pub fn is_any(self) -> bool {
        self.count + self.for_write > 0
    }
}

/// The next step, and the delay to remember.
pub(crate) fn plan(
    state: &State,
    options: &TrailOptions,
    waiters: Waiters,
    now: Nanos,
) -> (Step, CommitDelay) {
    let mut delay = state.delay;
    let step = if state.failed.is_some() {
        Step::Wait(None)
    } else if state.queue.is_empty() {
        match (state.ending, state.space_queue.is_empty()) {
            (true, _) => Step::Wait(None),
            (false, true) => Step::Reposition,
            (false, false) => state.plan_marker(options, waiters),
        }
    } else if state.is_pipeline_full(options) || state.indirect.busy {
        Step::Wait(None)
    } else {
        match delay.until(state, options, waiters, now) {
            Some(until) => Step::Wait(Some(until)),
            None => state
                .plan_indirect(options, now)
                .unwrap_or_else(|| state.plan_commits(options, waiters)),
        }
    };
    (step, delay)
}

impl CommitDelay {
    /// Until when the queued commits wait for more; `None` when they are to be written now.
    fn until(
        &mut self,
        state: &State,
        options: &TrailOptions,
        waiters: Waiters,
        now: Nanos,
    ) -> Option<Nanos> {
        let urgent = !state.space_queue.is_empty() || state.queue.bytes() >= options.pipeline_bytes;
        self.delayed_until = match self.delayed_until {
            _ if options.commit_delay == Nanos(0) || urgent || waiters.count > 0 => None,
            None => Some(now + options.commit_delay.0),
            Some(until) if now < until => Some(until),
            Some(_) => None,
        };
        if self.delayed_until.is_some() {
            return self.delayed_until;
        }
        let durability = &state.durability;
        // While a flush of written records is due, its callers do not also wait for queued commits. Where a head is
        // followed, the place of a write depends on its time.
        let flushing = durability.durable() != durability.flushed();
        if urgent
            || waiters.count == 0
            || durability.writes_in_flight() > 0
            || flushing
            || !state.heads.is_empty()
        {
            return None;
        }
        self.group.waits_until(now, waiters.count)
    }
}

impl State {
    /// True when no further device write may start in addition to those under way. With heads, a busy drive says so itself.
    fn is_pipeline_full(&self, options: &TrailOptions) -> bool {
        let under_way = self.durability.writes_in_flight();
        self.heads.is_empty()
            && (under_way >= options.writes_in_flight_max
                || (under_way > 0 && self.queue.bytes() < options.pipeline_bytes))
    }

    fn plan_commits(&self, options: &TrailOptions, waiters: Waiters) -> Step {
        let min = self.queue.min_sectors(&self.geometry);
        if self.ring.first_fit(min, false).is_none() {
            if self.undurable_tracks() > unflushed_tracks_max(self.geometry.tracks) {
                return Step::Flush;
            }
            if !self.ring.may_open(self.ring.log_start()) {
                return self.plan_marker(options, waiters);
            }
        }
        self.plan_write(options, waiters, (min, self.queue.promised()), false)
    }

    /// A marker, if the log start has moved since a record last named it.
    fn plan_marker(&self, options: &TrailOptions, waiters: Waiters) -> Step {
        let named = self.ring.log_start();
        if self.log_start_track() <= named || self.durability.writes_in_flight() > 0 {
            return Step::Wait(None);
        }
        if self.durability.flushed().log_start_track > named {
            // A written record names a new log start already.
            return Step::Flush;
        }
        self.plan_write(options, waiters, (1, 1), true)
    }

    /// Where a write of at least `min` sectors goes. `None` when there is no place, or its drive is busy.
    fn target(&self, threshold_percent: u64, min: u64, marker: bool) -> Option<Target> {
        let fits = self.ring.first_fit(min, marker).is_some();
        if !marker && !self.heads.is_empty() && self.may_leave() {
            return self.target_by_head(threshold_percent, fits);
        }
        // No space to spare: the free sectors of this track may be promised to commits.
        let (target, track) = match fits {
            true => (Target::Current, self.ring.current_index()),
            false => (Target::Next, self.ring.next_index()),
        };
        let free = fits || self.ring.is_next_free(marker);
        (free && !self.is_busy(track)).then_some(target)
    }

    /// True when the drive of a track carries out a request; only drives with heads know.
    pub(super) fn is_busy(&self, track: u64) -> bool {
        let drive = self.heads.get(self.geometry.member_of(track));
        drive.is_some_and(DriveHead::is_busy)
    }

    /// A write, if there is a place for it and the drive of that place is idle.
    fn plan_write(
        &self,
        options: &TrailOptions,
        waiters: Waiters,
        (min, wanted): (u64, u64),
        marker: bool,
    ) -> Step {
        let Some(target) = self.target(options.threshold_percent, min, marker) else {
            return Step::Wait(None);
        };
        Step::Write(WriteStep {
            marker,
            min,
            wanted,
            target,
            fua_from: self.fua_from(options, waiters),
        })
    }

    /// From which commit on a write has FUA: the first that a caller waits for, or probably will
    /// ([`WaitPredictor`](super::predict::WaitPredictor)), when no earlier write is in the drive's cache. Where a head is
    /// followed every write has FUA, because a write to a cache moves no head.
    fn fua_from(&self, options: &TrailOptions, waiters: Waiters) -> Option<Lsn> {
        let durability = &self.durability;
        if options.write_cache == WriteCache::Ordered {
            return None;
        }
        if !self.heads.is_empty() {
            return Some(Lsn(0));
        }
        let alone =
            durability.writes_in_flight() == 0 && durability.durable() == durability.flushed();
        let expected = self.waits.is_likely().then_some(Lsn(0));
        waiters.first.or(expected).filter(|_| alone)
    }
}

/// What the writer does after a step.
enum Next {
    /// Plans again.
    Again,
    /// Waits until something changes, but not beyond this time.
    Wait(Option<Nanos>),
}

impl Trail {
    pub(super) async fn write_loop(self) {
        while !self.0.stopped.get() && self.check().is_ok() {
            let changed = self.0.work.wait();
            match self.dispatch() {
                Next::Again => {}
                Next::Wait(None) => changed.await,
                Next::Wait(Some(until)) => changed.until(until).await,
            }
        }
    }

    /// Carries out one step.
    fn dispatch(&self) -> Next {
        let inner = &*self.0;
        let mut guard = inner.state.borrow_mut();
        let state = &mut *guard;
        state.advance_log_start();
        let now = inner.rt.now();
        let waiters = self.waiters();
        if waiters.is_any() {
            state.indirect.waited_at = Some(now);
        }
        let (step, delay) = plan(state, &inner.options, waiters, now);
        state.delay = delay;
        match step {
            Step::Wait(until) => Next::Wait(until),
            Step::Reposition => match !state.heads.is_empty() && self.reposition(state) {
                true => Next::Again,
                false => Next::Wait(None),
            },
            Step::Flush => {
                state.force_flush(FlushCause::LogSpace);
                inner.flush.notify();
                Next::Wait(None)
            }
            Step::Indirect => {
                self.append_indirect(guard);
                Next::Again
            }
            Step::FlushIndirect => {
                self.flush_indirect(guard);
                Next::Again
            }
            Step::Write(write) => {
                self.start_write(guard, &write, now);
                Next::Again
            }
        }
    }

    fn start_write(&self, mut guard: RefMut<'_, State>, write: &WriteStep, now: Nanos) {
        let (inner, state) = (&*self.0, &mut *guard);
        let geometry = &*inner.geometry;
        let place = state.place(write, now);
        let (sector, room) = (place.start, place.end - place.start);
        let mut out = inner
            .pool
            .alloc(room.min(write.wanted) as usize * geometry.sector);
        let (records, sectors, whole) = state.pack(geometry, write.marker, sector, &mut out);
        out.set_len(sectors * geometry.sector);
        let within = sector % geometry.track_sectors;
        state.ring.take(within..within + sectors as u64);
        let end = state.note_records(&records, whole);
        let fua = write.fua_from.is_some_and(|from| from <= end.lsn);
        let id = state.durability.start_write(end);
        state.delay.group.sent = now;
        state.stats.writes += 1;
        state.stats.durable_writes += u64::from(fua);
        if fua {
            state.count_flush();
        }
        state.stats.markers += u64::from(write.marker);
        state.stats.bytes += out.len() as u64;
        let member = geometry.member_of(geometry.track_of(sector));
        let offset = geometry.byte_of(sector);
        let track = geometry.track_start(geometry.track_of(sector));
        state
            .kept
            .note((member, track), (offset - track) as usize, &out);
        let permit = state.heads.get(member).map(|drive| drive.turn.take(1));
        drop(guard);
        let op = if fua { Op::WriteDurable } else { Op::Write };
        let io = inner.devices[member].io(op, offset, 0, Data::whole(out));
        let trail = self.clone();
        inner.rt.spawn(async move {
            let (result, data) = io.await;
            let (worked, refused) = (
                result.is_ok(),
                matches!(result, Err(error) if error.is_no_space()),
            );
            let result = match refused {
                true => trail.write_again(member, offset, data).await,
                false => result.map(|_| ()),
            };
            // A read between the refusal and the repeated write would find the track without this record.
            if let Some(permit) = permit {
                let span = trail.0.geometry.drive_span(sector, sectors as u64);
                trail.request_done(member, permit, span, now, worked, |head, write| {
                    head.written(write);
                    true
                });
            }
            match result {
                Ok(()) => trail.written(id, fua && !refused),
                Err(error) => trail.fail(member, "write", offset, error),
            }
        });
    }

    /// Repeats a write for which the file system had no space, until it has. That happens on a file system that writes each
    /// overwrite to a new place. The records after it wait, too: nothing becomes durable before all that comes before it.
    ///
    /// The repeated write has no FUA. The flush in the refused one may have failed, so the flusher has to flush again.
    async fn write_again(&self, member: usize, offset: u64, data: Data) -> Result<(), IoError> {
        let inner = &*self.0;
        let mut data = data.into_buf();
        inner.refused_writes.set(inner.refused_writes.get() + 1);
        inner.space_below_wanted.notify();
        let result = loop {
            inner.rt.sleep(SPACE_LOOK).await;
            let io = inner.devices[member].io(Op::Write, offset, 0, Data::whole(data));
            let (result, written) = io.await;
            data = written.into_buf();
            match result {
                Err(error) if error.is_no_space() && self.check().is_ok() => {}
                other => break other.map(|_| ()),
            }
        };
        inner.refused_writes.set(inner.refused_writes.get() - 1);
        result
    }

    fn waiters(&self) -> Waiters {
        Waiters {
            count: self.0.durable.waiting(),
            first: self.0.durable.lowest().map(Lsn),
            for_write: self.0.flushed.waiting(),
        }
    }

    fn written(&self, id: u64, fua: bool) {
        {
            let mut guard = self.0.state.borrow_mut();
            let state = &mut *guard;
            if state.durability.finish_write(id, fua) {
                self.publish(state);
            }
            self.0.flushed.raise(state.durability.flushed().lsn.0);
        }
        self.0.work.notify();
        self.0.flush.notify();
        self.0.progress.notify();
    }

    /// Records have become durable: recovery starts at the log start of the last one or later, and callers whose
    /// commits are durable now are woken.
    fn publish(&self, state: &mut State) {
        let durable = state.durability.durable();
        state.ring.set_log_start(durable.log_start_track);
        if state.note_bound(self.0.rt.now(), |bound, now| {
            bound.durable(now, durable.lsn)
        }) {
            self.0.bound_missed.notify();
        }
        let released = self.0.durable.raise(durable.lsn.0);
        if released > 0 {
            let left = self.0.durable.waiting();
            state.delay.group.released(self.0.rt.now(), released, left);
        }
    }

    pub(super) async fn flush_loop(self) {
        while !self.0.stopped.get() && self.check().is_ok() {
            let wait = self.0.flush.wait();
            let covered = {
                let state = self.0.state.borrow();
                let needed = self.flush_is_needed(&state);
                needed.then(|| state.durability.flushed())
            };
            let Some(covered) = covered else {
                wait.await;
                continue;
            };
            {
                let mut state = self.0.state.borrow_mut();
                state.stats.flushes += 1;
                state.count_flush();
            }
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

    /// True when written records are not durable and a caller, or the writer, waits for them.
    fn flush_is_needed(&self, state: &State) -> bool {
        let (flushed, durable) = (state.durability.flushed(), state.durability.durable());
        let waited = self.waiters().first;
        flushed.seq > durable.seq
            && (state.asked.forced() > durable.seq || waited.is_some_and(|lsn| lsn <= flushed.lsn))
    }

    /// Flushes all members at once. The error names the member that failed.
    async fn flush_members(&self) -> Result<(), (usize, IoError)> {
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

    /// Makes the log unusable: from now on no commit becomes durable.
    fn fail(&self, member: usize, what: &'static str, offset: u64, error: IoError) {
        self.fail_with(TrailError::Device {
            device: self.0.devices[member].name().to_string(),
            what,
            offset,
            error,
        });
    }

    pub(super) fn fail_with(&self, failure: TrailError) {
        self.0.state.borrow_mut().failed.get_or_insert(failure);
        self.0.ended.notify();
        self.0.durable.close();
        self.0.flushed.close();
        self.0.turn.close();
        self.0.work.notify();
        self.0.flush.notify();
        self.0.progress.notify();
    }
}

impl State {
    /// Chooses the place of a write that is sent at `now`, and opens its track. Returns the log sectors that the write
    /// may fill.
    fn place(&mut self, write: &WriteStep, now: Nanos) -> Range<u64> {
        let (opens, chosen) = match &write.target {
            Target::Current => (false, None),
            Target::Next => (true, None),
            Target::Head(free) => {
                let (track, range) = self.place_by_head(free, write.min, now);
                (track != self.ring.current_index(), Some(range))
            }
        };
        if opens {
            let length = self.geometry.track_length(self.ring.next_index());
            self.ring.open(length);
            let place = self.current_place();
            self.kept.open(place);
        }
        let range = chosen.or_else(|| self.ring.first_fit(write.min, write.marker));
        let range =
            range.expect("the plan found a free range, and any record fits on an empty track");
        let start = self.ring.current_index() * self.geometry.track_sectors;
        start + range.start..start + range.end
    }

    /// Packs the marker, or the queued commits, into records from log sector `sector` on. Returns the records, the
    /// sectors that they take, and the last commit that they complete.
    fn pack(
        &mut self,
        geometry: &LogGeometry,
        marker: bool,
        sector: u64,
        out: &mut [u8],
    ) -> (Vec<RecordPlace>, usize, Option<Lsn>) {
        let first = self.live.front();
        let frame = Frame {
            epoch: self.epoch,
            next_seq: self.next_seq,
            prev_sector: self.prev_sector,
            prev_epoch: self.prev_epoch,
            log_start: first.map(|live| (live.place.sector, live.place.seq)),
            durable_seq: self.durability.durable().seq,
        };
        if marker {
            // Not `appended + 1`: the records of queued commits come after this one, and recovery must not begin
            // after those commits.
            let lsn = self.last_whole + 1;
            let record = pack_marker(geometry, &frame, sector, lsn, out);
            return (vec![record], 1, None);
        }
        self.queue.pack(geometry, frame, sector, out)
    }

    /// Notes that `records` go to the current track and complete the commits up to `whole`. Returns the position at
    /// their end.
    fn note_records(&mut self, records: &[RecordPlace], whole: Option<Lsn>) -> Point {
        for record in records {
            self.live.push_back(Live {
                place: *record,
                track: self.ring.current(),
            });
        }
        let last = records.last().expect("a device write has records");
        (self.next_seq, self.prev_sector, self.prev_epoch) =
            (last.seq + 1, last.sector, self.epoch);
        self.stats.records += records.len() as u64;
        if let Some(lsn) = whole {
            self.stats.commits += lsn - self.last_whole;
            self.last_whole = lsn;
        }
        let first = self.live.front();
        Point {
            lsn: self.last_whole,
            seq: last.seq,
            sector: last.sector,
            track: self.ring.current(),
            log_start_track: self.log_start_track(),
            log_start_lsn: first.map_or(self.last_whole + 1, |live| live.place.first_lsn),
        }
    }
}
