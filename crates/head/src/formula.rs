//! Trail's formula (Trail 3.1): from a reference point, a moment at which the head was known to be behind a
//! sector, it follows by the time of a revolution where the head is now:
//!
//! ```text
//! S1 = ((T1 - T0) mod RotateTime / RotateTime * SPT + S0 + delta) mod SPT
//! ```
//!
//! The reference point is the end of the last request: the head is behind its last sector then, but for
//! what the drive does after it, which delta absorbs together with what it does before a write.

use crate::{Access, Head, Place, Span, Track, TrackMap, first_fit};
use base::Nanos;

/// Sectors that pass under the head between the end of one request and the first moment at which the next
/// one, sent at once, may transfer; on a track of `turn_sectors`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta {
    /// Sectors.
    pub sectors: u32,
    /// Sectors of a revolution where that was found.
    pub turn_sectors: u32,
}

/// Delta by the kinds of the two requests, as drives take different times after a read and before one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deltas {
    /// A write after a write.
    pub write_after_write: Delta,
    /// A write after a read.
    pub write_after_read: Delta,
    /// A read after a write.
    pub read_after_write: Delta,
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
    /// Angle behind LBA0.
    angle: u32,
    /// The request was a read.
    read: bool,
}

/// Without a request for this long the reference point is too old: the speed of a spindle is known, and
/// constant, to some 0.01 %, which is a sector or two in this time.
const STALE: Nanos = Nanos::from_secs(2);

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
        }
    }
}

impl Formula {
    /// A predictor for a log on the tracks of `map`, which turn in `turn`. `switch` is the time that a move to
    /// the next track takes; without it, the skew of the tracks is taken, which the maker has chosen to cover
    /// it.
    pub fn new(map: TrackMap, turn: Nanos, deltas: Deltas, switch: Option<Nanos>) -> Self {
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

    fn refer(&mut self, access: &Access, read: bool) {
        let last = access.end().checked_sub(1);
        let track = last.and_then(|last| self.map.find(last));
        self.reference = track.map(|track| Reference {
            at: access.done,
            track,
            angle: track.angle_of(access.end()),
            read,
        });
    }

    /// Angle at which a transfer that is asked for at `now` may begin on the track of the reference point.
    fn angle(&self, reference: &Reference, now: Nanos, delta: u32) -> u32 {
        let since = now.since(reference.at).0 % self.turn.0;
        let turned = ((u128::from(since) << 32) / u128::from(self.turn.0)) as u32;
        reference.angle.wrapping_add(turned).wrapping_add(delta)
    }

    /// Angle by which the platter turns while the head moves from one track to the other.
    fn allowance(&self, from: &Track, to: &Track) -> u32 {
        if from.index == to.index {
            return 0;
        }
        if let Some(switch) = self.switch {
            return ((u128::from(switch.0 % self.turn.0) << 32) / u128::from(self.turn.0)) as u32;
        }
        if from.index + 1 == to.index {
            return to.angle.wrapping_sub(from.angle);
        }
        self.map.cylinder_skew(to.index)
    }

    /// Time of an angle.
    fn time(&self, angle: u64) -> Nanos {
        Nanos(((u128::from(angle) * u128::from(self.turn.0)) >> 32) as u64)
    }
}

/// The place within `span`, on `track`, for `sectors` sectors that comes first after `angle`, and the angle
/// from there to it.
fn nearest(track: &Track, span: Span, sectors: u32, angle: u32) -> Option<(u64, u32)> {
    let turn = u64::from(track.turn_sectors);
    let ahead = u64::from(angle.wrapping_sub(track.angle));
    // The first sector that begins at this angle or behind it; the last one's end is the first one's begin.
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

/// What of `span` lies on `track`.
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

    /// The read must have come from the medium: one that the drive's buffer serves tells nothing. Reading on a
    /// track that has not been touched lately sees to that.
    fn read(&mut self, read: &Access) {
        self.refer(read, true);
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
        let delta = if reference.read {
            self.deltas.write_after_read
        } else {
            self.deltas.write_after_write
        };
        let angle = self.angle(&reference, now, delta.angle());
        // The current track, else the first one on which there is room.
        let on = |track: Track| {
            let angle = angle.wrapping_add(self.allowance(&reference.track, &track));
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
        let overhead = delta
            .angle()
            .wrapping_add(self.allowance(&reference.track, &track));
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
        // After a read, what a read takes longer after a write than a write does.
        let deltas = &self.deltas;
        let mut delta = deltas.read_after_write.angle();
        if reference.read {
            let more = deltas
                .write_after_read
                .angle()
                .wrapping_sub(deltas.write_after_write.angle());
            delta = delta.wrapping_add(more);
        }
        let angle = self.angle(&reference, now, delta);
        let angle = angle.wrapping_add(self.allowance(&reference.track, &to));
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
