//! Finds out which ends of tracks are also ends of cylinders, where the skew differs.

use super::pairs::FIT;
use super::shorts::Shorts;
use super::spindle::nearest;

/// Most tracks of a cylinder.
const MOST: u64 = 40;
/// Crossings that are remembered.
const KEPT: usize = 32;

/// Surprises of one size, while few known ends of cylinders are confirmed, after which the learned shape is dropped.
const REFUTED: f64 = 1.8;

/// A run of tracks, and how many cylinders ended in it.
#[derive(Clone, Copy, Debug, Default)]
struct Crossing {
    from: u32,
    tracks: u16,
    changes: u16,
}

/// The learned cylinders.
#[derive(Clone, Debug)]
pub struct Cylinders {
    /// Additional skew at the end of a cylinder, in revolutions.
    extra: Option<f64>,
    /// One that was seen once.
    unconfirmed_skew: f64,
    /// Tracks of a cylinder, and the number of one first track, if known.
    shape: Option<(u64, u64)>,
    crossings: [Crossing; KEPT],
    count: usize,
    seen: usize,
    wrong: f64,
    shorts: Shorts,
}

impl Cylinders {
    /// No cylinder is known.
    pub fn new() -> Self {
        Self {
            extra: None,
            unconfirmed_skew: 0.0,
            shape: None,
            crossings: [Crossing::default(); KEPT],
            count: 0,
            seen: 0,
            wrong: 0.0,
            shorts: Shorts::new(),
        }
    }

    /// Starts the count of tracks again.
    pub fn lost(&mut self) {
        self.count = 0;
        self.seen = 0;
        self.shape = None;
    }

    /// Sets the additional skew that was found at some ends of tracks.
    pub fn set_extra(&mut self, extra: Option<f64>) {
        if extra.is_some() {
            self.extra = extra;
        }
    }

    /// Tracks of a cylinder; many when not known.
    pub fn tracks(&self) -> u64 {
        self.shape.map_or(1 << 20, |(tracks, _)| tracks)
    }

    /// Number of the first track of the cylinder of `track`.
    pub fn first_track(&self, track: u64) -> u64 {
        self.shape
            .filter(|(_, first)| *first <= track)
            .map_or(0, |(tracks, first)| track - (track - first) % tracks)
    }

    fn changes(&self, from: u64, tracks: u64) -> Option<u64> {
        let (size, first) = self.shape.filter(|(_, first)| *first <= from)?;
        Some((from + tracks - first) / size - (from - first) / size)
    }

    /// Revolutions that the ends of cylinders add between track `from` and the track `tracks` ends of tracks later.
    pub fn extra(&self, from: u64, tracks: u64) -> f64 {
        let changes = self.changes(from, tracks).unwrap_or(0);
        self.extra.unwrap_or(0.0) * changes as f64
    }

    /// Revolutions that one end of a cylinder adds.
    pub fn one_extra(&self) -> f64 {
        self.extra.unwrap_or(0.0)
    }

    /// Sectors by which the last track of a cylinder is shorter.
    pub fn short(&self) -> u64 {
        self.shorts.sectors()
    }

    /// Notes that the place within a track of `length` sectors is lost.
    pub fn misplaced(&mut self, length: u32) {
        self.shorts.lost(length);
    }

    /// A cylinder is known to end with `track`.
    pub fn ends_after(&self, track: u64) -> bool {
        self.changes(track, 1).is_some_and(|changes| changes > 0)
    }

    /// Ends of cylinders among the `tracks` ends of tracks from track `from` on, and the unexplained rest of `excess`,
    /// which is the part of the angle that skews within cylinders do not explain.
    pub fn changes_in(&self, from: u64, tracks: u64, excess: f64) -> (u64, f64) {
        let expected = nearest(excess - self.extra(from, tracks));
        if expected.abs() < FIT {
            return (self.changes(from, tracks).unwrap_or(0), expected);
        }
        self.count_changes(tracks, excess)
    }

    /// The number of ends of cylinders that explains `excess` best, and the rest.
    fn count_changes(&self, tracks: u64, excess: f64) -> (u64, f64) {
        let extra = self.extra.unwrap_or(0.0);
        let most = if self.extra.is_some() {
            tracks.min(3)
        } else {
            0
        };
        let mut best = (0, nearest(excess));
        for changes in 1..=most {
            let off = nearest(excess - changes as f64 * extra);
            if off.abs() < best.1.abs() {
                best = (changes, off);
            }
        }
        best
    }

    /// No number of known skews explained it.
    pub fn surprise(&mut self, tracks: u64, excess: f64) {
        if tracks == 0 || tracks > 3 {
            return;
        }
        let excess = nearest(excess);
        if nearest(excess - self.unconfirmed_skew).abs() < FIT {
            if self.extra.is_none() {
                self.extra = Some(excess);
            }
            self.wrong += 1.0;
            if self.wrong >= REFUTED {
                self.extra = Some(excess);
                self.wrong = 0.0;
            }
        }
        self.unconfirmed_skew = excess;
    }

    /// Notes an explained write of `sectors` more: `tracks` ends of tracks, of `length` sectors, from track `from` on.
    pub fn learn(&mut self, from: u64, tracks: u64, excess: f64, sectors: u32, length: u32) {
        let (changes, _) = self.changes_in(from, tracks, excess);
        self.shorts
            .learn(sectors, tracks as u32, changes as u32, length);
        if tracks == 0 || self.extra.is_none() {
            return;
        }
        let (changes, off) = self.count_changes(tracks, excess);
        if off.abs() >= FIT {
            return;
        }
        if changes > 0 {
            self.wrong *= 0.5;
        }
        if changes > 0
            && let Some(extra) = &mut self.extra
        {
            *extra += 0.1 * off / changes as f64;
        }
        self.crossings[self.seen % KEPT] = Crossing {
            from: from as u32,
            tracks: tracks as u16,
            changes: changes as u16,
        };
        self.seen += 1;
        self.count = (self.count + 1).min(KEPT);
        let agrees = self.changes(from, tracks) == Some(changes);
        if !agrees && self.count >= 12 && self.seen.is_multiple_of(4) {
            self.search();
        }
    }

    /// The size and phase of cylinders that explain the crossings.
    fn search(&mut self) {
        let known = &self.crossings[..self.count];
        let mut best = (self.count * 4 / 5, None);
        let base = known.iter().map(|c| u64::from(c.from)).min().unwrap_or(0);
        let base = base.saturating_sub(2 * MOST);
        for size in 1..=MOST {
            for phase in 0..size {
                let first = base + phase;
                let explains = |c: &&Crossing| {
                    let from = u64::from(c.from);
                    let end = from + u64::from(c.tracks);
                    (end - first) / size - (from - first) / size == u64::from(c.changes)
                };
                let explained = known.iter().filter(explains).count();
                if explained > best.0 {
                    best = (explained, Some((size, first)));
                }
            }
        }
        self.shape = best.1;
    }
}
