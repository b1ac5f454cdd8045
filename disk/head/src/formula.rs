//! Trail's formula (Trail 3.1). From a reference point, a moment at which the head was known to be at the end of a sector, and
//! the time of a revolution it computes where the head is now:
//!
//! ```text
//! S1 = ((T1 - T0) mod RotateTime / RotateTime * SPT + S0 + delta) mod SPT
//! ```
//!
//! The reference point is the end of the last request, when the head is at the end of its last sector. Delta includes the
//! drive's work after a request and before a write.

use crate::{Access, Head, Place, STALE, Span, Track, TrackMap, first_fit};
use tonearm_base::Nanos;

/// Sectors, on a track of `turn_sectors`, that pass under the head between the end of one request and the first moment
/// at which the next one can transfer if it is sent at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta {
    /// Sectors.
    pub sectors: u32,
    /// Sectors of a revolution where that was found.
    pub turn_sectors: u32,
}

/// The delays of a drive: delta by the kinds of the two requests, because the drive takes different times after a read
/// and before one, and its own activity after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deltas {
    /// A write after a write.
    pub write_after_write: Delta,
    /// A write after a read.
    pub write_after_read: Delta,
    /// A read after a write.
    pub read_after_write: Delta,
    /// By how much longer a read takes from its last sector to its end than a write, in nanoseconds.
    pub read_lag_ns: i64,
    /// Sectors that the drive reads ahead after a read, which moves the head to later tracks; 0 if it does not read
    /// ahead.
    pub read_ahead: u32,
}

/// Trail's predictor.
#[derive(Clone, Debug)]
pub struct Formula {
    map: TrackMap,
    turn: Nanos,
    deltas: Deltas,
    switch: Option<Nanos>,
    reference: Option<Reference>,
}

/// Where the head was.
#[derive(Clone, Copy, Debug)]
struct Reference {
    /// T0.
    at: Nanos,
    /// The track of LBA0.
    track: Track,
    /// Angle at the end of LBA 0. After a read its lag is added, so that it is as after a write.
    angle: u32,
    /// The sector after the last request, if that was a read.
    read_to: Option<u64>,
}

/// The relative error of a spindle's speed is at most one part in so many.
const DRIFT: u64 = 10_000;

/// A move between tracks up to this far apart is short: the greatest skew between them covers it.
const NEAR: u64 = 64;

/// Sectors by which the end of a read may differ from the prediction: deltas are whole sectors, and the platter turns
/// while a sector is transferred.
const SLACK_SECTORS: u32 = 3;

impl Delta {
    /// The same as an angle, in units of 2^-32 of a revolution.
    pub fn angle(self) -> u32 {
        ((u64::from(self.sectors) << 32) / u64::from(self.turn_sectors)) as u32
    }
}

impl Deltas {
    /// The paper's single delta for all.
    pub fn one(delta: Delta) -> Self {
        Self {
            write_after_write: delta,
            write_after_read: delta,
            read_after_write: delta,
            read_lag_ns: 0,
            read_ahead: 0,
        }
    }
}

impl Formula {
    /// A predictor for a log on the tracks of `map`, which turn in `turn`. `switch` is the time that the head takes to
    /// another track of the same cylinder. Without it, and between cylinders, the skew of the tracks is used, which the
    /// maker has chosen to cover the move.
    ///
    /// # Panics
    /// When `turn` is 0, or a delta is of a track without sectors.
    pub fn new(map: TrackMap, turn: Nanos, deltas: Deltas, switch: Option<Nanos>) -> Self {
        assert!(turn.0 > 0, "a platter that turns");
        let all = [
            deltas.write_after_write,
            deltas.write_after_read,
            deltas.read_after_write,
        ];
        assert!(
            all.iter().all(|delta| delta.turn_sectors > 0),
            "deltas of tracks with sectors"
        );
        Self {
            map,
            turn,
            deltas,
            switch,
            reference: None,
        }
    }

    /// The tracks.
    pub fn map(&self) -> &TrackMap {
        &self.map
    }

    fn refer(&mut self, access: &Access, after_read: bool) {
        let last = access.end().checked_sub(1);
        let track = last.and_then(|last| self.map.find(last));
        self.reference = track.map(|track| Reference {
            at: access.done,
            track,
            angle: self.end_angle(&track, access, after_read),
            read_to: after_read.then_some(access.end()),
        });
    }

    /// Angle under the head at the end of a request, corrected to that after a write.
    fn end_angle(&self, track: &Track, access: &Access, read: bool) -> u32 {
        let angle = track.angle_of(access.end());
        if read {
            angle.wrapping_add(self.lag())
        } else {
            angle
        }
    }

    /// A read's lag as an angle, which may be negative.
    fn lag(&self) -> u32 {
        let part = (i128::from(self.deltas.read_lag_ns) << 32) / i128::from(self.turn.0);
        part as u32
    }

    /// Angle from that of the reference point to the first at which a write that is sent at once can transfer.
    fn write_delta(&self, after_read: bool) -> u32 {
        if after_read {
            self.deltas
                .write_after_read
                .angle()
                .wrapping_sub(self.lag())
        } else {
            self.deltas.write_after_write.angle()
        }
    }

    /// True if the sector of `read` can have been under the head when `read` ended.
    fn agrees(&self, reference: &Reference, read: &Access) -> bool {
        let Some(track) = self.map.find(read.first) else {
            return true;
        };
        let expected = self.angle(reference, read.done, 0);
        let off = expected.wrapping_sub(self.end_angle(&track, read, true));
        let idle = read.done.since(reference.at).0;
        let slack = u64::from(SLACK_SECTORS) * self.turn.0 / u64::from(track.turn_sectors);
        self.time(u64::from(off.min(off.wrapping_neg()))).0 <= slack + idle / DRIFT
    }

    /// Angle, on the track of the reference point, at which a transfer that is requested at `now` can begin.
    fn angle(&self, reference: &Reference, now: Nanos, delta: u32) -> u32 {
        let since = now.since(reference.at).0 % self.turn.0;
        let turned = ((u128::from(since) << 32) / u128::from(self.turn.0)) as u32;
        reference.angle.wrapping_add(turned).wrapping_add(delta)
    }

    /// Angle by which the platter turns while the head moves to track `to`.
    fn allowance(&self, reference: &Reference, now: Nanos, to: &Track) -> u32 {
        // A read from the drive's buffer may not have moved the head.
        let (here, ahead) = (reference.track.index, self.track_at(reference, now));
        let low = here.min(ahead).min(to.index);
        let high = here.max(ahead).max(to.index);
        if low == high {
            return 0;
        }
        if let Some(switch) = self.switch
            && self.map.same_cylinder(low, high)
        {
            let angle = (u128::from(switch.0) << 32).div_ceil(u128::from(self.turn.0));
            return angle as u32;
        }
        if high - low > NEAR {
            return self.map.cylinder_skew(to.index);
        }
        let angles = (low..=high).map(|index| self.map.track(index).angle);
        let skews = angles
            .clone()
            .zip(angles.skip(1))
            .map(|(one, next)| next.wrapping_sub(one));
        skews.max().unwrap_or(0)
    }

    /// Number of the track on which the head is. After a read, the last track that the drive may have read ahead.
    fn track_at(&self, reference: &Reference, now: Nanos) -> u64 {
        let track = &reference.track;
        let Some(read_to) = reference.read_to else {
            return track.index;
        };
        let passed = u128::from(now.since(reference.at).0) * u128::from(track.turn_sectors);
        let passed = passed / u128::from(self.turn.0);
        let ahead = passed.min(u128::from(self.deltas.read_ahead)) as u64;
        let last = read_to.saturating_sub(1) + ahead;
        self.map.find(last).map_or(track.index, |track| track.index)
    }

    /// Time of an angle.
    fn time(&self, angle: u64) -> Nanos {
        Nanos(((u128::from(angle) * u128::from(self.turn.0)) >> 32) as u64)
    }
}

/// The place within `span`, on `track`, for `sectors` sectors that comes first after `angle`, and the angle between
/// them.
fn nearest(track: &Track, span: Span, sectors: u32, angle: u32) -> Option<(u64, u32)> {
    let turn = u64::from(track.turn_sectors);
    let ahead = u64::from(angle.wrapping_sub(track.angle));
    // The first sector that begins at this angle or after it. The end of the last sector is the start of the first.
    let under = (ahead * turn).div_ceil(1 << 32) % turn;
    let last = span.end.checked_sub(u64::from(sectors))?;
    if last < span.start {
        return None;
    }
    let sector = if (span.start..=last).contains(&(track.first + under)) {
        track.first + under
    } else {
        span.start
    };
    Some((sector, track.angle_of(sector).wrapping_sub(angle)))
}

/// The part of `span` that lies on `track`.
fn on_track(track: &Track, span: &Span) -> Span {
    Span {
        start: span.start.max(track.first),
        end: span.end.min(track.end()),
    }
}

impl Head for Formula {
    fn name(&self) -> &'static str {
        "formula"
    }

    fn written(&mut self, write: &Access) {
        self.refer(write, false);
    }

    /// A read that the drive's buffer served has not moved the head. (Drives read ahead, also into the next track.)
    /// Such a read ends when its sector cannot have been under the head, and is ignored.
    fn read(&mut self, read: &Access) -> bool {
        match &self.reference {
            Some(reference) if !self.agrees(reference, read) => {
                self.reference = Some(Reference {
                    read_to: Some(read.end()),
                    ..*reference
                });
                false
            }
            _ => {
                self.refer(read, true);
                true
            }
        }
    }

    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        let unknown = || {
            let sector = first_fit(free, 0, sectors)?;
            Some(Place {
                sector,
                response: None,
            })
        };
        let Some(reference) = self.reference else {
            return unknown();
        };
        let delta = self.write_delta(reference.read_to.is_some());
        let angle = self.angle(&reference, now, delta);
        // The current track, or else the first one with space.
        let on = |track: Track| {
            let angle = angle.wrapping_add(self.allowance(&reference, now, &track));
            let places = free
                .iter()
                .filter_map(|span| nearest(&track, on_track(&track, span), sectors, angle));
            let (sector, wait) = places.min_by_key(|(_, wait)| *wait)?;
            Some((track, sector, wait))
        };
        let others = || {
            let mut tracks = free.iter().flat_map(|span| self.tracks_of(*span));
            tracks.find_map(on)
        };
        let Some((track, sector, wait)) = on(reference.track).or_else(others) else {
            // It fits on no single track.
            return unknown();
        };
        let transfer = (u64::from(sectors) << 32) / u64::from(track.turn_sectors);
        let overhead = delta.wrapping_add(self.allowance(&reference, now, &track));
        Some(Place {
            sector,
            response: Some(self.time(u64::from(overhead) + u64::from(wait) + transfer)),
        })
    }

    fn reposition(&mut self, now: Nanos, track: Span) -> Option<u64> {
        let (Some(reference), Some(to)) = (self.reference, self.map.find(track.start)) else {
            // Any read there gives a reference point.
            return (!track.is_empty()).then_some(track.start);
        };
        // After a read it takes longer, by the same time as before a write.
        let more = self
            .write_delta(reference.read_to.is_some())
            .wrapping_sub(self.write_delta(false));
        let delta = self.deltas.read_after_write.angle().wrapping_add(more);
        let angle = self.angle(&reference, now, delta);
        let angle = angle.wrapping_add(self.allowance(&reference, now, &to));
        nearest(&to, on_track(&to, &track), 1, angle).map(|(sector, _)| sector)
    }

    fn stale_after(&self) -> Option<Nanos> {
        Some(STALE)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<TrackMap>() + self.map.memory_bytes()
    }
}

impl Formula {
    /// The tracks that `span` touches, in order.
    fn tracks_of(&self, span: Span) -> impl Iterator<Item = Track> {
        let first = self.map.find(span.start);
        let index = first.map_or(self.map.tracks(), |track| track.index);
        let all = (index..self.map.tracks()).map(|index| self.map.track(index));
        all.take_while(move |track| track.first < span.end)
    }
}

#[cfg(test)]
#[path = "formula_test.rs"]
mod formula_test;
