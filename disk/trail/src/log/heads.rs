//! The heads of the log's drives (Trail 3.1 and 4.2).
//!
//! Without heads a record takes the next free sector (`writer.rs`). With heads the predictor chooses among the free
//! sectors of the current track, or of the next one once the used share of the current track has passed the threshold.
//! While nothing is written, a read moves the head to the next track beforehand.
//!
//! A track is left before it is full only if the tracks after it have space for all the space that is promised to
//! commits ([`State::space`]). This rule comes before speed.

use super::Trail;
use super::state::State;
use super::writer::Target;
use crate::geometry::DRIVE_SECTOR;
use crate::unflushed_tracks_max;
use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_head::{Access, Head, Place, Span, refresh_place};
use tonearm_rt::{Data, Op, Permit};

/// A part of the queued commits must be so many times faster than all of them: the rest needs a write of its own, whose place is not
/// chosen as the best of several. The experiment `trail-drives` decides (decision 41).
const PART_GAIN: f64 = 1.25;

impl State {
    /// Free ranges for the next write if the current track may be left. `fits`: the write has a place on the current
    /// track. `None` when the drive of these ranges is busy.
    pub(super) fn target_by_head(&self, threshold_percent: u64, fits: bool) -> Option<Target> {
        let stays = fits && !self.is_past(threshold_percent) && !self.should_pass();
        let track = match stays {
            true => self.ring.current_index(),
            false => self.ring.next_index(),
        };
        (!self.is_busy(track)).then(|| Target::Head(self.free_ranges(stays)))
    }

    /// Free ranges among which the head chooses: those of the current track if the write `stays` on it, else the
    /// next track.
    fn free_ranges(&self, stays: bool) -> Vec<(u64, Range<u64>)> {
        let geometry = &self.geometry;
        let (current, next) = (self.ring.current_index(), self.ring.next_index());
        let mut free: Vec<(u64, Range<u64>)> = Vec::new();
        if stays {
            free.extend(self.ring.free(false).map(|range| (current, range)));
        }
        // A log without physical tracks is one row of sectors: the head may continue after the track.
        let same_row =
            !geometry.is_physical() && geometry.member_of(next) == geometry.member_of(current);
        if !stays || same_row {
            free.push((next, 0..geometry.track_length(next) - 1));
        }
        free
    }

    /// The track and the range of sectors for the queued commits, at least `min` sectors.
    pub(super) fn place_by_head(
        &mut self,
        free: &[(u64, Range<u64>)],
        min: u64,
        now: Nanos,
    ) -> (u64, Range<u64>) {
        let geometry = self.geometry.clone();
        let ratio = geometry.sector as u64 / DRIVE_SECTOR;
        let spans: Vec<Span> = free
            .iter()
            .map(|(track, range)| {
                let first = track * geometry.track_sectors + range.start;
                geometry.drive_span(first, range.end - range.start)
            })
            .collect();
        let wanted = self.queue.sectors(&geometry, geometry.track_sectors);
        let sizes = (min * ratio, wanted.max(min) * ratio);
        let drive = &mut self.heads[geometry.member_of(free[0].0)];
        let chosen = fastest(&mut *drive.head, now, sizes, &spans).and_then(|place| {
            let at = spans.iter().position(|span| span.holds(place.sector, 1))?;
            // The predictor counts in smaller sectors: take the next whole log sector, if there is space after it.
            let offset = (place.sector - spans[at].start).div_ceil(ratio);
            let (track, range) = &free[at];
            let start = (range.start + offset).min(range.end.saturating_sub(min));
            (start >= range.start).then_some((*track, start..range.end))
        });
        // Without a usable answer the write takes the first place.
        let long = |(_, range): &&(u64, Range<u64>)| range.end - range.start >= min;
        let first = || free.iter().find(long).cloned();
        chosen
            .or_else(first)
            .expect("the plan offers a range that is long enough")
    }

    /// True when enough of the current track is used for the next write to go to the next one.
    fn is_past(&self, threshold_percent: u64) -> bool {
        self.ring.used_sectors() * 100 >= threshold_percent * self.ring.length()
    }

    /// True when the drive of the current track is busy and that of the next one is not. Every opened track gets
    /// a record, because recovery looks for the next record on the current track and the next one only.
    fn should_pass(&self) -> bool {
        self.is_busy(self.ring.current_index()) && !self.is_busy(self.ring.next_index())
    }

    /// True when the next track may be taken before this one is full.
    pub(super) fn may_leave(&self) -> bool {
        let geometry = &self.geometry;
        let later = self.ring.openable().saturating_sub(1);
        self.ring.is_next_free(false)
            && self.ring.may_open(self.ring.log_start())
            && self.undurable_tracks() <= unflushed_tracks_max(geometry.tracks)
            && later * geometry.track_sectors_usable() >= self.promised()
    }

    /// The log sector of the next track to read now, so that the head is there when the next write comes. A
    /// drive that does not have the current track goes there at once.
    fn reposition(&mut self, now: Nanos, threshold_percent: u64) -> Option<u64> {
        let geometry = self.geometry.clone();
        let (next, count) = (self.ring.next_index(), self.ring.current() + 1);
        let member = geometry.member_of(next);
        let elsewhere = geometry.member_of(self.ring.current_index()) != member;
        let wanted = (elsewhere || self.is_past(threshold_percent)) && self.may_leave();
        let drive = self.heads.get_mut(member)?;
        if !wanted || drive.is_busy() || drive.moved_to == Some(count) {
            return None;
        }
        drive.moved_to = Some(count);
        let first = next * geometry.track_sectors;
        let span = geometry.drive_span(first, geometry.track_length(next) - 1);
        let sector = drive.head.reposition(now, span)?;
        let ratio = geometry.sector as u64 / DRIVE_SECTOR;
        span.holds(sector, 1)
            .then(|| first + (sector - span.start) / ratio)
    }
}

/// Where a write of sectors between `least` and `greatest`, the more the better, begins within `spans`. All sectors may have to wait for
/// most of a turn where a part of them takes the rest of the track (Trail 5.1): the half, the quarter and so on are tried, too, and the
/// most sectors in a unit of time win.
fn fastest(
    head: &mut dyn Head,
    now: Nanos,
    (least, greatest): (u64, u64),
    spans: &[Span],
) -> Option<Place> {
    let mut best: Option<(f64, Place)> = None;
    let mut sectors = greatest;
    loop {
        if let Some(place) = head.place(now, sectors as u32, spans) {
            let Some(time) = place.response else {
                return Some(place);
            };
            let worth = if sectors == greatest { PART_GAIN } else { 1.0 };
            let rate = worth * sectors as f64 / time.0.max(1) as f64;
            if best.is_none_or(|(most, _)| rate > most) {
                best = Some((rate, place));
            }
        }
        if sectors == least {
            break;
        }
        sectors = (sectors / 2).max(least);
    }
    let (_, place) = best?;
    // The write takes as much as there is room. The predictor remembers what it answered last.
    let span = spans.iter().find(|span| span.holds(place.sector, 1))?;
    match greatest.min(span.end - place.sector) {
        taken if taken == sectors => Some(place),
        taken => head.place(now, taken as u32, spans),
    }
}

impl Trail {
    /// Moves the head to the next track if that pays. Nothing is being written. True when a read was sent.
    pub(super) fn reposition(&self, state: &mut State) -> bool {
        let inner = &*self.0;
        let now = inner.rt.now();
        let threshold = inner.options.threshold_percent;
        let Some(sector) = state.reposition(now, threshold) else {
            return false;
        };
        state.stats.repositions += 1;
        self.read_sector(state, sector);
        true
    }

    /// Reads a log sector only to move the head or to measure its place.
    fn read_sector(&self, state: &mut State, sector: u64) {
        let inner = &*self.0;
        let geometry = &inner.geometry;
        let member = geometry.member_of(geometry.track_of(sector));
        let permit = state.heads[member].turn.take(1);
        let sent = inner.rt.now();
        let data = Data::whole(inner.pool.alloc(geometry.sector));
        let io = inner.devices[member].io(Op::Read, geometry.byte_of(sector), 0, data);
        let trail = self.clone();
        inner.rt.spawn(async move {
            // The content does not matter, and an unreadable sector can still be written.
            let worked = io.await.0.is_ok();
            let span = trail.0.geometry.drive_span(sector, 1);
            trail.request_done(member, permit, span, sent, worked, |head, read| {
                head.read(read)
            });
            trail.0.work.notify();
        });
    }

    /// A request to the drive of `member` has ended; `report` reports it to the head if it `worked`, and returns whether it shows
    /// the position.
    pub(super) fn request_done(
        &self,
        member: usize,
        permit: Permit,
        span: Span,
        sent: Nanos,
        worked: bool,
        report: impl FnOnce(&mut dyn Head, &Access) -> bool,
    ) {
        let mut state = self.0.state.borrow_mut();
        let drive = &mut state.heads[member];
        let done = self.0.rt.now();
        drop(permit);
        let mut shown = true;
        if worked {
            let access = Access {
                first: span.start,
                sectors: span.len() as u32,
                sent,
                done,
            };
            shown = report(&mut *drive.head, &access);
        }
        // A refresh that shows nothing is tried again soon.
        if shown {
            drive.idle_since = done;
        }
    }

    /// Measures where a head is when its drive has been idle for long: for `stale` at least, and a quarter more at
    /// most (Trail 3.1, periodic repositioning).
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
            for member in 0..state.heads.len() {
                let drive = &state.heads[member];
                let stale = drive.head.stale_after();
                if drive.is_busy() || stale.is_none_or(|stale| now.since(drive.idle_since) < stale)
                {
                    continue;
                }
                reads += 1;
                state.stats.refreshes += 1;
                let sector = self.refresh_sector(state, member, reads);
                self.read_sector(state, sector);
            }
        }
    }

    /// A sector of a later track of `member`, another one each time.
    fn refresh_sector(&self, state: &State, member: usize, reads: u64) -> u64 {
        let geometry = &self.0.geometry;
        let (ahead, sector) = refresh_place(reads);
        let tracks =
            (0..geometry.tracks).map(|ahead| (state.ring.next_index() + ahead) % geometry.tracks);
        let mut own = tracks
            .filter(|track| geometry.member_of(*track) == member)
            .cycle();
        let track = own.nth(ahead as usize).unwrap_or(0);
        track * geometry.track_sectors + sector % geometry.track_length(track)
    }
}

#[cfg(test)]
#[path = "heads_test.rs"]
mod heads_test;
