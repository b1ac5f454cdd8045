//! Finds the period and the sectors of a revolution of a drive whose tracks are shorter than the log's writes. There
//! most writes cross ends of tracks, and skews hide both values.
//!
//! The places are chosen so that each write ends the same number of sectors after the previous one, or a few sectors
//! more. Times between ends at the same distance cross about the same skews, so they differ by whole turns. The other
//! times are longer by the few sectors.

use super::bootstrap::{Found, PERIODS};
use super::spindle::nearest;

/// Intervals that are kept.
const KEPT: usize = 36;
/// A longer period must explain times as well as this one, in nanoseconds.
const CLOSE: f64 = 6e6;
/// Sectors more, in turn.
const TEETH: [u64; 8] = [0, 3, 0, 7, 0, 13, 0, 21];
/// Sectors of a track that are looked for.
const TURNS: (u32, u32) = (40, 400);

/// Intervals of one distance, and of little more.
#[derive(Clone, Debug)]
pub struct Comb {
    distance: u64,
    /// Nanoseconds, and sectors above the distance.
    times: [(u32, u32); KEPT],
    count: usize,
    writes: usize,
}

impl Comb {
    /// The state before the first write.
    pub fn new() -> Self {
        Self {
            distance: 64,
            times: [(0, 0); KEPT],
            count: 0,
            writes: 0,
        }
    }

    /// Sectors to leave out before a write of `sectors`.
    pub fn skip(&mut self, sectors: u32) -> u64 {
        let sectors = u64::from(sectors);
        if sectors > self.distance {
            self.distance = sectors.next_multiple_of(64);
            self.count = 0;
        }
        self.distance - sectors + TEETH[self.writes % TEETH.len()]
    }

    /// Adds an interval. Returns the platter if enough intervals agree.
    pub fn learn(&mut self, time: f64, sectors: u64) -> Option<Found> {
        self.writes += 1;
        let more = sectors
            .checked_sub(self.distance)
            .filter(|more| *more < 32)?;
        if self.count < KEPT {
            self.times[self.count] = (time as u32, more as u32);
            self.count += 1;
        }
        if self.count < KEPT * 2 / 3 || !self.count.is_multiple_of(4) {
            return None;
        }
        self.search()
    }

    fn search(&self) -> Option<Found> {
        let times = &self.times[..self.count];
        let equal = || times.iter().filter(|t| t.1 == 0).map(|t| f64::from(t.0));
        let count = equal().count();
        let longest = equal().fold(0.0, f64::max);
        let agree = |period: f64, from: f64| {
            equal()
                .filter(|t| nearest((t - from) / period).abs() < 0.015)
                .count()
        };
        let step = |period: f64| period * (1.0 - 0.01 * (period / longest).min(1.0));
        let score = |period: f64| {
            let most = equal().map(|from| (agree(period, from), from));
            most.max_by_key(|(count, _)| *count).unwrap_or((0, 0.0))
        };
        let mut most = 0;
        let mut period = PERIODS.1;
        while period > PERIODS.0 {
            most = most.max(score(period).0);
            period = step(period);
        }
        if most < 6 || most * 10 < count * 4 {
            return None;
        }
        // The longest period that fits as well, because parts of it fit, too.
        period = PERIODS.1;
        while period > PERIODS.0 {
            let (agreeing, from) = score(period);
            if agreeing >= most {
                let (period, whole) = fit(equal(), period, from)?;
                if whole >= 2.0 {
                    return turn(times, period, from).map(|turn| Found { period, turn });
                }
            }
            period = step(period);
        }
        None
    }
}

/// `time` is whole turns of `period` from `from`.
fn agrees(time: f64, from: f64, period: f64) -> bool {
    let off = nearest((time - from) / period) * period;
    off.abs() < 0.015 * period.min(CLOSE)
}

/// The period by least squares over the times that agree with it, and how many turns they span.
fn fit(times: impl Iterator<Item = f64>, period: f64, from: f64) -> Option<(f64, f64)> {
    let (mut sum, mut squares, mut count) = ((0.0, 0.0), (0.0, 0.0), 0.0);
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for time in times {
        let turns = ((time - from) / period).round();
        if agrees(time, from, period) {
            sum = (sum.0 + turns, sum.1 + time - from);
            squares = (squares.0 + turns * turns, squares.1 + turns * (time - from));
            count += 1.0;
            low = low.min(turns);
            high = high.max(turns);
        }
    }
    let spread = squares.0 - sum.0 * sum.0 / count;
    (spread > 0.0).then(|| ((squares.1 - sum.0 * sum.1 / count) / spread, high - low))
}

/// The sectors of a revolution by which most of the other times are later.
fn turn(times: &[(u32, u32)], period: f64, from: f64) -> Option<f64> {
    let score = |turn: f64| {
        let fits = times.iter().filter(|t| t.1 > 0).map(|(time, more)| {
            let off = nearest((f64::from(*time) - from) / period - f64::from(*more) / turn) / 0.006;
            1.0 / (1.0 + off * off)
        });
        fits.sum::<f64>()
    };
    let mut best = (3.0, None);
    for turn in TURNS.0..TURNS.1 {
        let value = score(f64::from(turn));
        if value > best.0 {
            best = (value, Some(f64::from(turn)));
        }
    }
    best.1
}
