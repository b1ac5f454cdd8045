//! The tracks of one zone: their length, the start of the current track, and the skew from each to the next.

use super::bootstrap::TURNS;
use super::cylinders::Cylinders;
use super::pairs::{FIT, KEPT, Pair};
use super::ranges::Ranges;
use super::spindle::{fraction, nearest};
use super::starts::{Fit, Rule, Starts};

/// Number of the first track that is found. It is large because there are tracks before it.
const FIRST_TRACK: u64 = 1 << 30;

/// Regular tracks.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Sectors of a track that have numbers.
    pub length: u32,
    /// Start of the track on which the last write ended.
    starts: Starts,
    /// Revolutions from where a track's last sector ends to where the next one's first begins.
    pub jump: f64,
    /// Recent writes that ended outside of the bounds.
    pub misses: f64,
    /// How many such writes in a row fit longer tracks (or, if negative, shorter ones).
    phase_drift: i32,
}

/// The sectors of a revolution that explain `pairs` best, from 0.6 to 1.6 times `now`. Two pairs of nearly the same
/// length often cross the same skews, and then their angles differ as their sectors do.
pub fn vote(pairs: &[Pair], now: f64) -> Option<f64> {
    let none = Pair::default();
    let score = |turn: f64| {
        let mut sum = 0.0;
        for (index, a) in pairs.iter().enumerate() {
            for b in pairs[..index].iter().chain([&none]) {
                let sectors = f64::from(a.sectors) - f64::from(b.sectors);
                if sectors.abs() < 3.0 || sectors.abs() > 0.7 * now {
                    continue;
                }
                let off = nearest(f64::from(a.delta - b.delta) - sectors / turn) / FIT;
                sum += 1.0 / (1.0 + off * off * 4.0);
            }
        }
        sum
    };
    let (low, high) = ((now * 0.6).max(TURNS.0), (now * 1.6).min(TURNS.1));
    let step = (now / 500.0).ceil();
    let (mut best, mut total, mut count) = ((0.0, now), 0.0, 0.0);
    let mut turn = low.round();
    while turn < high {
        let value = score(turn);
        total += value;
        count += 1.0;
        if value > best.0 {
            best = (value, turn);
        }
        turn += step;
    }
    (best.0 >= 4.0 && best.0 > 2.0 * total / count && best.0 > score(now) * 1.2).then_some(best.1)
}

impl Grid {
    /// The tracks that explain `pairs`, the last of which ended at `end`, if most pairs can be explained. Also the
    /// additional skew at the end of a cylinder, if some pairs show one.
    pub fn fit(pairs: &[Pair], turn: f64, end: u64) -> Option<(usize, Self, Option<f64>)> {
        if pairs.len() < 10 {
            return None;
        }
        let excess: [f64; KEPT] =
            std::array::from_fn(|k| pairs.get(k).map_or(0.0, |p| p.excess(turn)));
        let excess = &excess[..pairs.len().min(KEPT)];
        let mut best: Option<(usize, u64, u64, f64, f64)> = None;
        let mut longest = 0;
        for length in (0..3).map(|spares| turn.round() as u64 - spares) {
            let stride = (length / 96).max(1);
            let (mut run, mut run_score) = (0, 0);
            for place in 0..length / stride {
                let offset = place * stride;
                let track = |sector: u64| (sector + length - 1 - offset) / length;
                let mut tracks = [0_u64; KEPT];
                for (slot, pair) in tracks.iter_mut().zip(pairs) {
                    *slot = track(pair.to()) - track(pair.from);
                }
                let (explained, jump, extra) = skews(excess, &tracks[..excess.len()]);
                run = if explained == run_score { run + 1 } else { 0 };
                run_score = explained;
                let better = best.is_none_or(|b| {
                    explained > b.0 || explained == b.0 && run > longest && b.1 == length
                });
                if better {
                    longest = run;
                    best = Some((explained, length, offset - (run / 2) * stride, jump, extra));
                }
            }
        }
        let (explained, length, offset, jump, extra) = best?;
        if explained * 10 < excess.len() * 7 {
            return None;
        }
        let start = (end - 1).saturating_sub((end - 1 + length - offset) % length);
        let doubt = (longest / 2 + 2) * (length / 96).max(1);
        let grid = Self {
            length: length as u32,
            starts: Starts::new(
                (start.saturating_sub(doubt), (start + doubt).min(end - 1)),
                FIRST_TRACK,
                end,
                length,
            ),
            jump,
            misses: 0.0,
            phase_drift: 0,
        };
        Some((explained, grid, (extra != 0.0).then_some(extra)))
    }

    /// Allows the track to begin anywhere within a track's length before `end`.
    pub fn anywhere(&mut self, end: u64) {
        let length = u64::from(self.length);
        let start = (end.saturating_sub(length), end - 1);
        self.starts = Starts::new(start, self.starts.best().track, end, length);
    }

    /// Notes that a track began `sectors` sectors farther on than expected (or less far). With longer tracks, each
    /// track begins a few sectors farther on.
    fn phase_drift(&mut self, farther: bool, sectors: u64) {
        if sectors > u64::from(self.length) / 16 + 1 {
            return;
        }
        let way = if farther { 1 } else { -1 };
        self.phase_drift = if self.phase_drift * way >= 0 {
            self.phase_drift + way
        } else {
            way
        };
        if self.phase_drift.abs() >= 3 {
            self.length = self.length.saturating_add_signed(way).max(2);
            self.phase_drift = 0;
        }
    }

    /// Lengthens a revolution, and so a track, by `sectors`.
    pub fn lengthen(&mut self, sectors: f64) {
        self.length = self.length.saturating_add_signed(sectors as i32).max(2);
    }

    /// Limits a track to the `turn` sectors of a revolution; it may have fewer.
    pub fn limit(&mut self, turn: f64, end: u64) {
        let turn = turn as u32;
        if self.length > turn || self.length + 3 < turn {
            self.length = turn;
            self.anywhere(end);
        }
    }

    /// First sector of the track on which the last write ended, the latest that is possible, and the number of that
    /// track.
    pub fn at(&self) -> (u64, u64) {
        let best = self.starts.best();
        (best.start.1, best.track)
    }

    /// Explains a pair, whose angle exceeds that of its sectors by `excess`, and follows it. A revolution has `turn`
    /// sectors.
    pub fn explain(
        &mut self,
        pair: &Pair,
        excess: f64,
        turn: f64,
        cylinders: &mut Cylinders,
        ranges: &mut Ranges,
    ) -> Option<Fit> {
        let rule = Rule {
            turn,
            length: u64::from(self.length),
            jump: self.jump,
            cylinders,
            ranges,
        };
        let track = self.starts.best().track;
        self.misses *= 0.93;
        let Some(fit) = self.starts.follow(pair, excess, &rule) else {
            self.misses += 1.0;
            let tracks = u64::from(pair.sectors) / u64::from(self.length);
            cylinders.surprise(tracks, excess - tracks as f64 * self.jump);
            self.anywhere(pair.to());
            cylinders.misplaced(self.length);
            return None;
        };
        if fit.missed {
            ranges.lost();
        }
        if let Some(gap) = self.starts.confirmed() {
            ranges.learn(gap, u64::from(self.length));
        }
        if fit.slipped {
            cylinders.surprise(fit.tracks, fit.rest);
        }
        if fit.slipped || fit.gap {
            cylinders.misplaced(self.length);
            return Some(fit);
        }
        if fit.beyond != 0 {
            self.misses += 1.0;
            self.phase_drift(fit.beyond > 0, fit.beyond.unsigned_abs());
        }
        cylinders.learn(track, fit.tracks, fit.rest, pair.sectors, self.length);
        if fit.tracks > 0 && fit.tracks < 4 {
            self.jump = nearest(self.jump + 0.1 * fit.off / fit.tracks as f64);
        }
        Some(fit)
    }
}

/// The skew that explains most pairs, each of which crosses `tracks` ends of tracks and has an `excess`. Also the
/// number of these pairs, and the amount by which another skew of some pairs is larger (0 for none).
fn skews(excess: &[f64], tracks: &[u64]) -> (usize, f64, f64) {
    let mut bins = [0_u16; BINS];
    let mut vote = |skew: f64| bins[bin(skew)] += 1;
    for (index, (e, t)) in excess.iter().zip(tracks).enumerate() {
        if *t == 1 {
            vote(*e);
            vote(*e);
        }
        for (other, u) in excess[..index].iter().zip(tracks) {
            match t.wrapping_sub(*u) {
                1 => vote(e - other),
                u64::MAX => vote(other - e),
                _ => {}
            }
        }
    }
    let jump = top(&bins);
    // More precisely: the mean of the values of single ends nearby.
    let near = |t: f64, e: f64, skew: f64| nearest(e - t * skew);
    let refine = |guess: f64| {
        let (mut sum, mut count) = (0.0, 0.0);
        for (e, t) in excess.iter().zip(tracks) {
            let off = near(*t as f64, *e, guess);
            if *t > 0 && off.abs() < 0.01 * *t as f64 && off.abs() < 0.1 {
                sum += off * *t as f64;
                count += (*t * *t) as f64;
            }
        }
        if count > 0.0 {
            guess + sum / count
        } else {
            guess
        }
    };
    let jump = refine(refine(jump));
    let mut bins = [0_u16; BINS];
    let mut explained = 0;
    for (e, t) in excess.iter().zip(tracks) {
        let off = near(*t as f64, *e, jump);
        if off.abs() < FIT {
            explained += 1;
        } else if *t > 0 {
            bins[bin(off)] += 1;
        }
    }
    let guess = top(&bins);
    let (mut sum, mut count) = (0.0, 0);
    for (e, t) in excess.iter().zip(tracks) {
        let off = nearest(near(*t as f64, *e, jump) - guess);
        if *t > 0 && off.abs() < 2.0 * FIT && near(*t as f64, *e, jump).abs() > FIT {
            sum += off;
            count += 1;
        }
    }
    if count < 3 {
        return (explained, jump, 0.0);
    }
    let extra = guess + sum / f64::from(count);
    let second = excess.iter().zip(tracks).filter(|(e, t)| {
        let off = near(**t as f64, **e, jump);
        **t > 0 && off.abs() >= FIT && nearest(off - extra).abs() < FIT
    });
    (explained + second.count(), jump, extra)
}

const BINS: usize = 128;

fn bin(turns: f64) -> usize {
    (fraction(turns) * BINS as f64) as usize % BINS
}

/// The middle of the two fullest neighbouring bins.
fn top(bins: &[u16; BINS]) -> f64 {
    let both = |at: usize| bins[at] + bins[(at + 1) % BINS];
    let best = (0..BINS)
        .max_by_key(|at| (both(*at), std::cmp::Reverse(*at)))
        .unwrap_or(0);
    let (low, high) = (f64::from(bins[best]), f64::from(bins[(best + 1) % BINS]));
    let share = high / (low + high).max(1.0);
    nearest((best as f64 + 0.5 + share) / BINS as f64)
}
