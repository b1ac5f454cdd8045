//! The writer and the flusher: they carry out what [`plan`] says, and note what the devices have completed.

use super::plan::{Step, Waiters, WriteStep};
use super::state::{Live, State};
use super::{Head, LogGeometry, Point, RecordPlace, Trail, plan};
use crate::error::TrailError;
use crate::pack::{Frame, pack_marker};
use std::cell::RefMut;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_device::{Device, DeviceIo};
use tonearm_rt::{Data, IoError, Op};

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
        let (step, delay) = plan(state, &inner.options, self.waiters(), now);
        state.delay = delay;
        match step {
            Step::Wait(until) => Next::Wait(until),
            Step::Reposition => match self.reposition(state) {
                true => Next::Again,
                false => Next::Wait(None),
            },
            Step::Flush => {
                state.force_flush();
                inner.flush.notify();
                Next::Wait(None)
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
        let (records, sectors, whole) = pack(state, geometry, write.marker, sector, &mut out);
        out.set_len(sectors * geometry.sector);
        let within = sector % geometry.track_sectors;
        state.ring.take(within..within + sectors as u64);
        let end = state.note_records(&records, whole);
        let fua = write.fua_from.is_some_and(|from| from <= end.lsn);
        let id = state.durability.start_write(end);
        state.delay.group.sent = now;
        state.stats.writes += 1;
        state.stats.durable_writes += u64::from(fua);
        state.stats.markers += u64::from(write.marker);
        state.stats.bytes += out.len() as u64;
        let member = geometry.member_of(geometry.track_of(sector));
        if let Some(drive) = state.heads.get_mut(member) {
            drive.busy = true;
        }
        drop(guard);
        let offset = geometry.byte_of(sector);
        let op = if fua { Op::WriteDurable } else { Op::Write };
        let io = inner.devices[member].io(op, offset, 0, Data::whole(out));
        let span = geometry.drive_span(sector, sectors as u64);
        let trail = self.clone();
        inner.rt.spawn(async move {
            let (result, _) = io.await;
            trail.request_done(member, span, now, result.is_ok(), Head::written);
            match result {
                Ok(_) => trail.written(id, fua),
                Err(error) => trail.fail(member, "write", offset, error),
            }
        });
    }

    fn waiters(&self) -> Waiters {
        Waiters {
            count: self.0.durable.waiting(),
            first: self.first_waited(),
        }
    }

    /// The oldest commit that a caller waits for.
    fn first_waited(&self) -> Option<Lsn> {
        self.0.durable.lowest().map(Lsn)
    }

    fn written(&self, id: u64, fua: bool) {
        {
            let mut guard = self.0.state.borrow_mut();
            let state = &mut *guard;
            if state.durability.finish_write(id, fua) {
                self.publish(state);
            }
        }
        self.0.work.notify();
        self.0.flush.notify();
        self.0.progress.notify();
    }

    /// Records have become durable: recovery starts at the log start of the last one or later, and callers that
    /// waited for their commits go on.
    fn publish(&self, state: &mut State) {
        let durable = state.durability.durable();
        state.ring.set_log_start(durable.log_start_track);
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

    /// True when written records are not durable and a caller, or the writer, waits for them.
    fn flush_is_needed(&self, state: &State) -> bool {
        let (flushed, durable) = (state.durability.flushed(), state.durability.durable());
        let waited = self.first_waited();
        flushed.seq > durable.seq
            && (state.force_seq > durable.seq || waited.is_some_and(|lsn| lsn <= flushed.lsn))
    }

    /// Flushes all members at once. The member that failed, and its error.
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

/// Packs the marker, or the queued commits, into records from log sector `sector` on. The records, the sectors
/// that they take, and the last commit that they complete.
fn pack(
    state: &mut State,
    geometry: &LogGeometry,
    marker: bool,
    sector: u64,
    out: &mut [u8],
) -> (Vec<RecordPlace>, usize, Option<Lsn>) {
    let first = state.live.front();
    let frame = Frame {
        epoch: state.epoch,
        next_seq: state.next_seq,
        prev_sector: state.prev_sector,
        prev_epoch: state.prev_epoch,
        log_start: first.map(|live| (live.place.sector, live.place.seq)),
        durable_seq: state.durability.durable().seq,
    };
    if marker {
        // Not `appended + 1`: the records of queued commits come behind this one, and recovery must not begin
        // behind those commits.
        let lsn = state.last_whole + 1;
        let record = pack_marker(geometry, &frame, sector, lsn, out);
        return (vec![record], 1, None);
    }
    state.queue.pack(geometry, frame, sector, out)
}

impl State {
    /// Notes that `records` go to the current track and complete the commits up to `whole`. The position at their
    /// end.
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
            track: self.ring.current(),
            log_start_track: self.log_start_track(),
            log_start_lsn: first.map_or(self.last_whole + 1, |live| live.place.first_lsn),
        }
    }
}
