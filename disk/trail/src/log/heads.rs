//! Where on the log's tracks the next write goes: the heads of the log's drives (Trail 3.1 and 4.2).
//!
//! Without heads a record takes the next free sector. With heads the predictor chooses among the free
//! sectors of the current track, or of the next one when the share of this one that is used has passed the
//! threshold; and while nobody writes, a read moves the head to the next track beforehand.
//!
//! What has been promised comes before what is fast: a track is left before it is full only if those behind
//! it keep what commits have been promised ([`State::space`]).

use super::{State, Trail};
use crate::geometry::LogGeometry;
use crate::unflushed_tracks_max;
use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_head::{Access, Head, Span};
use tonearm_rt::{Data, Op};

/// Bytes of the sectors in which heads count.
const DRIVE_SECTOR: u64 = 512;

/// The head of one log drive. Requests are sent to it one at a time.
pub(super) struct Arm {
    pub head: Box<dyn Head>,
    /// A request is under way.
    pub busy: bool,
    /// When the last one was done.
    pub idle_since: Nanos,
    /// Count of the track to which it has been moved, or need not be.
    pub moved_to: Option<u64>,
}

impl Arm {
    pub fn new(head: Box<dyn Head>, now: Nanos) -> Self {
        Self {
            head,
            busy: false,
            idle_since: now,
            moved_to: None,
        }
    }
}

/// Sectors of the current track, once they are taken: the address of the first, and how many there are.
pub(super) struct Room {
    pub sector: u64,
    pub sectors: u64,
}

impl State {
    /// A place for a record of at least `min` sectors, better of `wanted`; opens the next track if need be.
    /// `None` when there is none, or the drive that would take it is busy.
    pub(super) fn find_room(
        &mut self,
        geometry: &LogGeometry,
        now: Nanos,
        threshold_percent: u64,
        (min, wanted): (u64, u64),
        marker: bool,
    ) -> Option<Room> {
        if !marker && !self.arms.is_empty() && self.may_leave(geometry) {
            let moves = self.is_past(threshold_percent) || self.should_pass(geometry);
            let stays = !moves && self.ring.first_fit(min, false).is_some();
            return self.room_by_head(geometry, now, (min, wanted), stays);
        }
        // No room to spare: holes on this track might be what has been promised.
        if self.ring.first_fit(min, marker).is_none() {
            if !self.ring.is_next_free(marker) || self.is_busy(geometry, self.ring.next_index()) {
                return None;
            }
            self.open_next(geometry);
        }
        if self.is_busy(geometry, self.ring.current_index()) {
            return None;
        }
        let range = self.ring.first_fit(min, marker)?;
        Some(self.room_of(geometry, range))
    }

    fn room_by_head(
        &mut self,
        geometry: &LogGeometry,
        now: Nanos,
        (min, wanted): (u64, u64),
        stays: bool,
    ) -> Option<Room> {
        let next = self.ring.next_index();
        let index = if stays {
            self.ring.current_index()
        } else {
            next
        };
        if self.is_busy(geometry, index) {
            return None;
        }
        // A log without physical tracks is one long row of sectors: the head may go on behind the track.
        let beyond = stays && !geometry.is_physical();
        let mut free: Vec<(u64, Range<u64>)> = Vec::new();
        if stays {
            free.extend(self.ring.free(false).map(|range| (index, range)));
        }
        if !stays || (beyond && geometry.member_of(next) == geometry.member_of(index)) {
            free.push((next, 0..geometry.track_length(next) - 1));
        }
        let spans: Vec<Span> = free
            .iter()
            .map(|(track, range)| {
                let first = track * geometry.track_sectors + range.start;
                geometry.drive_span(first, range.end - range.start)
            })
            .collect();
        let ratio = geometry.sector as u64 / DRIVE_SECTOR;
        let arm = &mut self.arms[geometry.member_of(index)];
        // Everything that is queued in one write if it fits, else the half of it, and so on.
        let mut sectors = wanted.clamp(min, geometry.track_sectors);
        let place = loop {
            let place = arm.head.place(now, (sectors * ratio) as u32, &spans);
            if place.is_some() || sectors == min {
                break place;
            }
            sectors = (sectors / 2).max(min);
        };
        let chosen = place.and_then(|place| {
            let at = spans
                .iter()
                .position(|span| (span.start..span.end).contains(&place.sector))?;
            // The predictor counts in smaller sectors: the next whole one, if there is room behind it.
            let offset = (place.sector - spans[at].start).div_ceil(ratio);
            let (track, range) = &free[at];
            let start = (range.start + offset).min(range.end.saturating_sub(min));
            (start >= range.start).then_some((*track, start..range.end))
        });
        // Without an answer the first place is as good as any.
        let first = |(track, range): &(u64, Range<u64>)| {
            (range.end - range.start >= min).then(|| (*track, range.clone()))
        };
        let (track, range) = chosen.or_else(|| free.iter().find_map(first))?;
        if track == next {
            self.open_next(geometry);
        }
        Some(self.room_of(geometry, range))
    }

    fn room_of(&self, geometry: &LogGeometry, range: Range<u64>) -> Room {
        Room {
            sector: self.ring.current_index() * geometry.track_sectors + range.start,
            sectors: range.end - range.start,
        }
    }

    fn open_next(&mut self, geometry: &LogGeometry) {
        self.ring
            .open(geometry.track_length(self.ring.next_index()));
    }

    fn is_busy(&self, geometry: &LogGeometry, track: u64) -> bool {
        let arm = self.arms.get(geometry.member_of(track));
        arm.is_some_and(|arm| arm.busy)
    }

    /// True when enough of the current track is used for the next one to be taken.
    fn is_past(&self, threshold_percent: u64) -> bool {
        self.ring.used_sectors() * 100 >= threshold_percent * self.ring.length()
    }

    /// True when the drive of the current track is busy and that of the next one is not. A track is opened for a
    /// record, so none is passed over without one: recovery looks for the next on this track and the next.
    fn should_pass(&self, geometry: &LogGeometry) -> bool {
        self.is_busy(geometry, self.ring.current_index())
            && !self.is_busy(geometry, self.ring.next_index())
    }

    /// True when the next track may be taken before this one is full.
    fn may_leave(&self, geometry: &LogGeometry) -> bool {
        let ahead = self.ring.current() + 1 - self.durability.durable().track;
        let promised = self.reserved + self.queue.promised();
        self.ring.is_next_free(false)
            && self.ring.may_open(self.ring.head())
            && ahead <= unflushed_tracks_max(geometry.tracks)
            && self.ring.openable().saturating_sub(1) * geometry.track_sectors_usable() >= promised
    }

    /// The log sector of the next track to read now, so that the head is there when the next write comes. A
    /// drive that does not have the current track goes there at once.
    fn reposition(
        &mut self,
        geometry: &LogGeometry,
        now: Nanos,
        threshold_percent: u64,
    ) -> Option<u64> {
        let (next, count) = (self.ring.next_index(), self.ring.current() + 1);
        let member = geometry.member_of(next);
        let elsewhere = geometry.member_of(self.ring.current_index()) != member;
        let wanted = (elsewhere || self.is_past(threshold_percent)) && self.may_leave(geometry);
        let arm = self.arms.get_mut(member)?;
        if !wanted || arm.busy || arm.moved_to == Some(count) {
            return None;
        }
        arm.moved_to = Some(count);
        let first = next * geometry.track_sectors;
        let span = geometry.drive_span(first, geometry.track_length(next) - 1);
        let sector = arm.head.reposition(now, span)?;
        let ratio = geometry.sector as u64 / DRIVE_SECTOR;
        span.holds(sector, 1)
            .then(|| first + (sector - span.start) / ratio)
    }
}

impl Trail {
    /// Moves the head to the next track if that pays; nobody writes now. True when a read was sent.
    pub(super) fn reposition(&self, state: &mut State) -> bool {
        let inner = &*self.0;
        let now = inner.rt.now();
        let threshold = inner.options.threshold_percent;
        let Some(sector) = state.reposition(&inner.geometry, now, threshold) else {
            return false;
        };
        state.stats.repositions += 1;
        self.read_sector(state, sector);
        true
    }

    /// Reads a log sector for the sake of the head alone.
    fn read_sector(&self, state: &mut State, sector: u64) {
        let inner = &*self.0;
        let geometry = &inner.geometry;
        let member = geometry.member_of(geometry.track_of(sector));
        state.arms[member].busy = true;
        let sent = inner.rt.now();
        let data = Data::whole(inner.pool.alloc(geometry.sector));
        let io = inner.devices[member].io(Op::Read, geometry.byte_of(sector), 0, data);
        let trail = self.clone();
        inner.rt.spawn(async move {
            // What was to be read does not matter, and a sector that cannot be read yet can be written.
            let worked = io.await.0.is_ok();
            let span = trail.0.geometry.drive_span(sector, 1);
            trail.arm_done(member, span, sent, worked, Head::read);
            trail.0.work.notify();
        });
    }

    /// A request of the head of `member` has ended; `tell` tells it if it `worked`.
    pub(super) fn arm_done(
        &self,
        member: usize,
        span: Span,
        sent: Nanos,
        worked: bool,
        tell: fn(&mut (dyn Head + 'static), &Access),
    ) {
        let mut state = self.0.state.borrow_mut();
        let Some(arm) = state.arms.get_mut(member) else {
            return;
        };
        let done = self.0.rt.now();
        (arm.busy, arm.idle_since) = (false, done);
        if worked {
            let access = Access {
                first: span.start,
                sectors: span.len() as u32,
                sent,
                done,
            };
            tell(&mut *arm.head, &access);
        }
    }

    /// Looks where the heads are when nobody has written for long (Trail 3.1, periodic repositioning), which is
    /// `stale` at the least and a quarter more at most.
    pub(super) async fn refresh_loop(self, stale: Nanos) {
        let mut reads = 0;
        while !self.0.stopped.get() && self.check().is_ok() {
            self.0.rt.sleep(Nanos(stale.0 / 4)).await;
            if self.0.stopped.get() || self.check().is_err() {
                return;
            }
            let now = self.0.rt.now();
            let mut guard = self.0.state.borrow_mut();
            let state = &mut *guard;
            if !state.queue.is_empty() {
                continue;
            }
            for member in 0..state.arms.len() {
                let arm = &state.arms[member];
                let stale = arm.head.stale_after();
                if arm.busy || stale.is_none_or(|stale| now.since(arm.idle_since) < stale) {
                    continue;
                }
                reads += 1;
                state.stats.refreshes += 1;
                let sector = self.sector_to_look_at(state, member, reads);
                self.read_sector(state, sector);
            }
        }
    }

    /// A sector of the next track of `member`, another each time: the drive would answer from its buffer.
    fn sector_to_look_at(&self, state: &State, member: usize, reads: u64) -> u64 {
        let geometry = &self.0.geometry;
        let members = geometry.members.len() as u64;
        let tracks = (0..members).map(|ahead| (state.ring.next_index() + ahead) % geometry.tracks);
        let mut tracks = tracks.filter(|track| geometry.member_of(*track) == member);
        let track = tracks.next().unwrap_or(0);
        track * geometry.track_sectors + reads * 7 % geometry.track_length(track)
    }
}
