//! The angles of sectors as learned from the writes, without a map: what the last writes show about the tracks around
//! them.
//!
//! Within a track the angle grows evenly with the sector, and at the end of a track it jumps by the skew. A write that
//! ends `d` sectors after the previous one, at an angle that is ahead by `delta`, has crossed `k` ends of tracks if
//! `delta - d / turn` is `k` skews. So each write bounds the start of the track on which it ended. Tracks of a zone
//! have the same length, so these bounds apply to the following tracks and become narrower.

use super::angles::Stretch;
use super::cylinders::Cylinders;
use super::even::Even;
use super::grid::{self, Grid};
use super::pairs::{FIT, KEPT, Pair};
use super::ranges::Ranges;
use super::spindle::fraction;

/// Most tracks that are looked ahead.
const FARTHEST: u32 = 128;

/// The information of a write for the spindle.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Expected angle at its end, if the write fits.
    pub angle: Option<f64>,
    /// No skew lies between it and the previous write.
    pub sure: bool,
    /// Period, from the last writes that ended on one track.
    pub period: Option<f64>,
}

/// The learned tracks around the last write.
#[derive(Clone, Debug)]
pub struct Learned {
    turn: f64,
    /// End of the last write, and its angle.
    at: (u64, f64),
    grid: Option<Grid>,
    cylinders: Cylinders,
    ranges: Ranges,
    pairs: [Pair; KEPT],
    count: usize,
    next: usize,
    /// Recent writes that did not fit.
    mispredictions: f64,
    /// Writes until the tracks are searched for again.
    pause: u32,
    even: Even,
}

impl Learned {
    /// No track is known.
    pub fn new() -> Self {
        Self {
            turn: 0.0,
            at: (0, 0.0),
            grid: None,
            cylinders: Cylinders::new(),
            ranges: Ranges::new(),
            pairs: [Pair::default(); KEPT],
            count: 0,
            next: 0,
            mispredictions: 0.0,
            pause: 0,
            even: Even::default(),
        }
    }

    /// Starts with the sectors of a revolution that the first writes have revealed; `end` is at `angle`.
    pub fn begin(&mut self, turn: f64, end: u64, angle: f64) {
        self.turn = turn.round();
        self.at = (end, angle);
    }

    /// The track of `sector`, which is not far before the last write's end.
    pub fn find(&self, sector: u64) -> Option<Stretch> {
        let (end, angle) = self.at;
        if self.turn == 0.0 || sector + 1 < end {
            return None;
        }
        let Some(grid) = &self.grid else {
            return Some(Stretch {
                first: end - 1,
                end: u64::MAX >> 16,
                angle: fraction(angle - 1.0 / self.turn),
                turn: self.turn,
                track: 0,
                cylinder: 0,
                group: 1,
            });
        };
        // Tracks from that of the last write on. An uncertain boundary is taken at its latest place.
        let length = u64::from(grid.length);
        let (mut first, mut track) = grid.at();
        let mut gap = self.ranges.next(first);
        let mut jumps = 0.0;
        for _ in 0..FARTHEST {
            let mut next = first + length;
            let mut skew = grid.jump + self.cylinders.extra(track, 1);
            if let Some(near) = gap.filter(|gap| gap.end.1 <= next) {
                next = near.end.1;
                skew = grid.jump + f64::from(near.turns);
                gap = self.ranges.next(next);
            } else if self.cylinders.ends_after(track) {
                next -= self.cylinders.short().min(length - 1);
            }
            if sector < next {
                let first = first.max(end - 1);
                let angle = angle + (first as f64 - end as f64) / self.turn + jumps;
                return Some(Stretch {
                    first,
                    end: next,
                    angle: fraction(angle),
                    turn: self.turn,
                    track,
                    cylinder: self.cylinders.first_track(track),
                    group: self.cylinders.tracks(),
                });
            }
            jumps += skew;
            first = next;
            track += 1;
        }
        None
    }

    /// Notes that a write ended after `end - 1`, at the spindle's `angle`, `time` nanoseconds and `turns` revolutions
    /// after the previous one. `None` if the previous one was elsewhere on the drive.
    pub fn learn(&mut self, end: u64, angle: f64, time: f64, turns: f64) -> Option<Reading> {
        let (before, from) = self.at;
        if end <= before || end - before > 64 * self.turn as u64 {
            // Elsewhere on the drive.
            self.lost(end, angle);
            return None;
        }
        let pair = Pair {
            from: before,
            sectors: (end - before) as u32,
            delta: fraction(angle - from) as f32,
        };
        self.pairs[self.next] = pair;
        self.next = (self.next + 1) % KEPT;
        self.count = (self.count + 1).min(KEPT);
        let fit = self.explain(&pair, time, turns);
        match fit {
            Some(_) => self.mispredictions *= 0.8,
            None => self.mispredictions += 1.0,
        }
        // Skews are less reliable than measurements.
        self.at = match fit {
            Some((0, off)) => (end, fraction(angle - off)),
            _ => (end, angle),
        };
        self.pause = self.pause.saturating_sub(1);
        if self.pause == 0 && self.count >= 12 && self.is_odd() {
            self.pause = 6;
            self.search();
        }
        let period = self.even.period(self.turn);
        Some(Reading {
            angle: fit.map(|(_, off)| fraction(angle - off)),
            sure: fit.is_some_and(|(tracks, _)| tracks == 0),
            period,
        })
    }

    /// The ends of tracks in between, and the rest of the pair's angle, if the tracks explain it.
    fn explain(&mut self, pair: &Pair, time: f64, turns: f64) -> Option<(u64, f64)> {
        let excess = pair.excess(self.turn);
        let Some(grid) = &mut self.grid else {
            if excess.abs() < FIT && f64::from(pair.sectors) < self.turn {
                self.fit_even(pair, time, turns);
                return Some((0, excess));
            }
            return None;
        };
        let fit = grid.explain(
            pair,
            excess,
            self.turn,
            &mut self.cylinders,
            &mut self.ranges,
        )?;
        if fit.slipped {
            return None;
        }
        if fit.tracks == 0 {
            self.fit_even(pair, time, turns);
        }
        Some((fit.tracks, fit.off))
    }

    /// Takes a pair on one track.
    fn fit_even(&mut self, pair: &Pair, time: f64, turns: f64) {
        let sectors = f64::from(pair.sectors);
        let turns = (turns - sectors / self.turn).round();
        self.even.learn(time, sectors, turns);
        if let Some(turn) = self.even.turn()
            && (turn - self.turn).abs() > 0.6
            && (turn / self.turn - 1.0).abs() < 0.05
        {
            if let Some(grid) = &mut self.grid {
                grid.lengthen(turn.round() - self.turn);
            }
            self.turn = turn.round();
        }
        if let Some(grid) = &mut self.grid {
            grid.limit(self.turn, pair.to());
        }
    }

    /// True when the tracks do not explain the recent writes, or are not known.
    fn is_odd(&self) -> bool {
        let broken = |grid: &Grid| grid.misses > 3.5;
        self.mispredictions > 3.5 || self.grid.as_ref().is_none_or(broken)
    }

    fn search(&mut self) {
        let pairs = &self.pairs[..self.count];
        // Old writes may be in another zone.
        let recent = self.count.min(16);
        let newest: [Pair; 16] = std::array::from_fn(|k| {
            let back = (k % recent) + 1;
            self.pairs[(self.next + KEPT - back) % KEPT]
        });
        if self.mispredictions > 3.5
            && let Some(turn) = grid::vote(&newest[..recent], self.turn)
            && (turn / self.turn - 1.0).abs() > 0.002
        {
            self.turn = turn;
            self.even.forget();
            self.grid = None;
            self.ranges.lost();
            self.mispredictions = 0.0;
            // The other writes are not in this zone.
            self.count = 0;
            self.next = 0;
            return;
        }
        // Skews that are small compared with a track may have been mistaken for a shorter track.
        let near = if self.turn < 150.0 { 4 } else { 0 };
        let mut best: Option<(usize, f64, Grid, Option<f64>)> = None;
        for off in -near..=near {
            let turn = self.turn + f64::from(off);
            for pairs in [pairs, &newest[..recent]] {
                let Some((explained, grid, extra)) = Grid::fit(pairs, turn, self.at.0) else {
                    continue;
                };
                let explained = explained * KEPT / pairs.len();
                let even = off == 0;
                if best
                    .as_ref()
                    .is_none_or(|b| explained > b.0 + usize::from(!even))
                {
                    best = Some((explained, turn, grid, extra));
                }
            }
        }
        if let Some((_, turn, grid, extra)) = best {
            if turn != self.turn {
                self.turn = turn;
                self.even.forget();
            }
            self.grid = Some(grid);
            self.mispredictions = 0.0;
            self.cylinders.lost();
            self.cylinders.set_extra(extra);
        } else if self.mispredictions > 8.0 {
            self.grid = None;
            self.mispredictions = 0.0;
        }
    }

    fn lost(&mut self, end: u64, angle: f64) {
        self.at = (end, angle);
        self.count = 0;
        self.next = 0;
        if let Some(grid) = &mut self.grid {
            grid.anywhere(end);
        }
        self.cylinders.lost();
        self.ranges.lost();
    }
}
