//! The first writes to an unknown drive: their places are chosen so that they reveal the period.

use super::comb::Comb;
use super::spindle::nearest;

/// Intervals that are kept.
const KEPT: usize = 16;
/// Intervals that a search needs.
const ENOUGH: usize = 14;
/// Periods that a platter may have, in nanoseconds: 30,000 to 3,300 revolutions a minute.
pub const PERIODS: (f64, f64) = (2e6, 18.2e6);
/// Sectors of a track, least and most.
pub const TURNS: (f64, f64) = (40.0, 7_000.0);
/// Intervals of more nanoseconds, or of more sectors, are of little use.
const LONGEST: f64 = 3e8;
const WIDEST: f64 = 8192.0;
/// After so many rounds the drive probably does not rotate, or its completions do not show it.
const PATIENCE: u32 = 3;
/// From then on only one of so many rounds is tried.
const REST: u32 = 16;
/// Sectors left out before the writes, in turn.
const SKIPS: [u64; 16] = [0, 16, 3, 48, 8, 96, 24, 160, 1, 32, 5, 64, 12, 128, 200, 40];

/// From the end of one write to the end of the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Nanoseconds.
    pub time: f64,
    /// Sectors, when the angle is not known.
    pub sectors: f64,
    /// Fraction of a revolution, if a map gives the angle.
    pub turns: Option<f64>,
}

/// The result of the first writes.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    intervals: [Interval; KEPT],
    count: usize,
    writes: usize,
    /// Intervals since the last search.
    new: usize,
    comb: Comb,
    combing: bool,
    /// Rounds without result.
    rounds: u32,
}

/// A platter that explains the intervals.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Nanoseconds of a revolution.
    pub period: f64,
    /// Sectors of a revolution.
    pub turn: f64,
}

impl Bootstrap {
    /// The state before the first write.
    pub fn new() -> Self {
        Self {
            intervals: [Interval::default(); KEPT],
            count: 0,
            writes: 0,
            new: 0,
            comb: Comb::new(),
            combing: false,
            rounds: 0,
        }
    }

    /// Sectors to leave out before a write of `sectors`.
    pub fn skip(&mut self, sectors: u32) -> u64 {
        if self.rounds >= PATIENCE && !self.rounds.is_multiple_of(REST) {
            return 0;
        }
        if self.combing {
            return self.comb.skip(sectors);
        }
        SKIPS[self.writes % SKIPS.len()]
    }

    /// Adds an interval. Returns the platter if enough intervals agree.
    pub fn learn(&mut self, seen: Interval) -> Option<Found> {
        if !(0.0..LONGEST).contains(&seen.time) || !(0.0..WIDEST).contains(&seen.sectors) {
            return None;
        }
        if seen.turns.is_none() && self.writes >= 2 * KEPT {
            self.writes += 1;
            self.combing = self.writes < 5 * KEPT;
            if !self.combing {
                self.rounds += 1;
                self.writes = 0;
                self.count = 0;
                self.new = 0;
                self.comb = Comb::new();
            }
            return self.comb.learn(seen.time, seen.sectors as u64);
        }
        self.writes += 1;
        let known = &mut self.intervals[..self.count];
        if self.count < KEPT {
            self.intervals[self.count] = seen;
            self.count += 1;
            self.new += 1;
        } else if let Some(worst) = known.iter_mut().max_by(|a, b| cost(a).total_cmp(&cost(b))) {
            // Intervals that are short in time and distance are the most useful.
            if cost(&seen) < cost(worst) {
                *worst = seen;
                self.new += 1;
            }
        }
        if self.count < ENOUGH || self.new < 2 {
            return None;
        }
        self.new = 0;
        let found = search(&self.intervals[..self.count]);
        if self.writes >= 2 * KEPT {
            // Too many of these cross ends of tracks, or they are from another time.
            self.count = 0;
            self.combing = seen.turns.is_none();
        }
        found
    }
}

fn cost(interval: &Interval) -> f64 {
    interval.time / 1e7 + interval.sectors / 100.0
}

/// How well the intervals agree, 0 to 1, and the share of those that fit well.
fn agreement(intervals: &[Interval], period: f64, per_sector: f64, width: f64) -> f64 {
    let fit = |interval: &Interval| {
        let turns = interval.turns.unwrap_or(interval.sectors * per_sector);
        let off = nearest(interval.time / period - turns) / width;
        1.0 / (1.0 + off * off)
    };
    intervals.iter().map(fit).sum::<f64>() / intervals.len() as f64
}

fn search(intervals: &[Interval]) -> Option<Found> {
    let mapped = intervals.iter().all(|i| i.turns.is_some());
    let longest = intervals.iter().map(|i| i.time).fold(0.0, f64::max);
    let widest = intervals.iter().map(|i| i.sectors).fold(1.0, f64::max);
    let (most, least) = (1.0 / TURNS.0, 1.0 / TURNS.1);
    let mut best: Option<(f64, Found)> = None;
    // The longest of the periods that agree, because a half of it agrees, too.
    let mut period = PERIODS.1;
    while period > PERIODS.0 {
        let mut per_sector = least;
        let step = 0.06 / widest;
        while per_sector < most {
            let score = agreement(intervals, period, per_sector, 0.05);
            if score > 0.5 {
                let refined = refine(intervals, period, per_sector, longest, widest);
                if refined.0 > 0.62 && best.is_none_or(|b| refined.0 > b.0 * 1.15) {
                    best = Some(refined);
                }
            }
            if mapped {
                break;
            }
            per_sector += step;
        }
        period *= 1.0 - 0.06 * PERIODS.0.max(period) / longest.max(period);
    }
    best.map(|(_, found)| found)
}

/// Climbs from a rough guess.
fn refine(
    intervals: &[Interval],
    period: f64,
    per_sector: f64,
    longest: f64,
    widest: f64,
) -> (f64, Found) {
    let mut at = (period, per_sector);
    let mut width = 0.05;
    let mut score = agreement(intervals, at.0, at.1, width);
    let (mut across, mut along) = (0.03 * period * period / longest, 0.03 / widest);
    for _ in 0..7 {
        loop {
            let mut next = (score, at);
            for (p, s) in [
                (1.0, 0.0),
                (-1.0, 0.0),
                (0.0, 1.0),
                (0.0, -1.0),
                (1.0, 1.0),
                (-1.0, -1.0),
                (1.0, -1.0),
                (-1.0, 1.0),
            ] {
                let there = (at.0 + p * across, (at.1 + s * along).max(1.0 / TURNS.1));
                let value = agreement(intervals, there.0, there.1, width);
                if value > next.0 + 1e-9 {
                    next = (value, there);
                }
            }
            if next.0 <= score {
                break;
            }
            (score, at) = next;
        }
        across /= 2.0;
        along /= 2.0;
        width = (width * 0.7).max(0.01);
        score = agreement(intervals, at.0, at.1, width);
    }
    let found = Found {
        period: at.0,
        turn: 1.0 / at.1,
    };
    // An interval of less than a turn does not determine the period.
    let turned = intervals.iter().filter(|i| i.time > 0.7 * at.0).count();
    if turned * 3 < intervals.len() {
        return (0.0, found);
    }
    (score, found)
}
