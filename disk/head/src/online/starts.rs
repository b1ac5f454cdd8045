//! The start of the current track: all possibilities that the last writes leave.
//!
//! Each write that crosses ends of tracks bounds their places, by the number of skews in its angle. Sectors without
//! numbers (spare ones at the end of one or several cylinders, tracks that are left out) shift all later ends. The
//! angle shows the amount only if the number of skews is known. So several guesses are kept, each with a cost, which is
//! minus the logarithm of its likelihood. A guess that does not explain the following writes gets a higher cost.

use super::cylinders::Cylinders;
use super::pairs::{FIT, Pair};
use super::ranges::{Gap, Ranges};
use super::spindle::fraction;

/// Guesses that are kept.
const KEPT: usize = 6;
/// A gap where none was expected: about one write in 50.
const SURPRISE: f32 = 4.0;
/// The same gap as before, at another place; also a missing gap where one was expected.
const ODD: f32 = 2.0;
/// A skew that is not known. It is more frequent than a gap, because each drive has several.
const SKEW: f32 = 3.0;
/// Guesses that are less likely than the best one by this factor, 1 to 20,000, are dropped.
const HOPELESS: f32 = 10.0;

/// One possibility.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// First sector of the track on which the last write ended: the least and greatest possible one.
    pub start: (u64, u64),
    /// Number of that track.
    pub track: u64,
    /// Minus the logarithm of the likelihood, up to a constant.
    cost: f32,
    /// The last gap, and the number of writes since then that fitted.
    gap: Option<(Gap, u8)>,
    /// How the last write is explained.
    fit: Fit,
}

/// How a write is explained.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Ends of tracks in between.
    pub tracks: u64,
    /// The unexplained rest of the angle.
    pub off: f64,
    /// The part of the angle that skews within cylinders do not explain.
    pub rest: f64,
    /// Sectors by which bounds were exceeded, positive if the track began farther on.
    pub beyond: i64,
    /// The write crossed unexpected sectors without numbers.
    pub slipped: bool,
    /// Some were, whether expected or not.
    pub gap: bool,
    /// None were, though expected.
    pub missed: bool,
}

const NO_FIT: Fit = Fit {
    tracks: 0,
    off: 0.0,
    rest: 0.0,
    beyond: 0,
    slipped: false,
    gap: false,
    missed: false,
};

/// All guesses, the most likely first.
#[derive(Clone, Debug)]
pub struct Starts {
    guesses: [Guess; KEPT],
    count: usize,
}

/// The data that all guesses share.
pub struct Rule<'a> {
    /// Sectors of a revolution.
    pub turn: f64,
    /// Sectors of a track.
    pub length: u64,
    /// Skew, in revolutions.
    pub jump: f64,
    pub cylinders: &'a Cylinders,
    pub ranges: &'a Ranges,
}

impl Starts {
    /// The track that `start` bounds, with number `track`, or one of `length` sectors that begins anywhere before `end`.
    pub fn new(start: (u64, u64), track: u64, end: u64, length: u64) -> Self {
        let guess = |start, cost| Guess {
            start,
            track,
            cost,
            gap: None,
            fit: NO_FIT,
        };
        let mut guesses = [guess(start, 0.0); KEPT];
        guesses[1] = guess((end.saturating_sub(length), end - 1), ODD);
        Self { guesses, count: 2 }
    }

    /// The most likely one.
    pub fn best(&self) -> &Guess {
        &self.guesses[0]
    }

    /// Follows a write whose angle exceeds that of its sectors by `excess`. False if no guess explains it.
    pub fn follow(&mut self, pair: &Pair, excess: f64, rule: &Rule) -> Option<Fit> {
        let mut next = Self {
            guesses: self.guesses,
            count: 0,
        };
        for guess in &self.guesses[..self.count] {
            next.spread(guess, pair, excess, rule);
        }
        if next.count == 0 {
            return None;
        }
        next.guesses[..next.count].sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let least = next.guesses[0].cost;
        next.guesses[..next.count]
            .iter_mut()
            .for_each(|g| g.cost -= least);
        while next.guesses[next.count - 1].cost > HOPELESS {
            next.count -= 1;
        }
        *self = next;
        Some(self.best().fit)
    }

    /// A gap that the last writes have confirmed, once.
    pub fn confirmed(&mut self) -> Option<Gap> {
        let best = &mut self.guesses[0];
        let (gap, _) = best.gap.filter(|(_, fits)| *fits >= 2)?;
        best.gap = None;
        Some(gap)
    }

    /// Adds what `guess` makes possible after `pair`.
    fn spread(&mut self, guess: &Guess, pair: &Pair, excess: f64, rule: &Rule) {
        let length = rule.length;
        let last = pair.to() - 1;
        let least = last.saturating_sub(guess.start.1) / length;
        let most = last.saturating_sub(guess.start.0) / length;
        let bound = ((last + 1).saturating_sub(length), last);
        let expected = rule.ranges.between(pair.from, last, length);
        let must = expected.is_some_and(|(_, must)| must);
        let expected = expected.map(|(gap, _)| gap);
        let width = |start: (u64, u64)| (start.1 - start.0 + 1) as f32;
        let run = least.saturating_sub(1)..=most + 1;
        // A write that regular tracks explain needs no gap.
        let regular = run.clone().any(|tracks| {
            let rest = excess - tracks as f64 * rule.jump;
            rule.cylinders.changes_in(guess.track, tracks, rest).1.abs() < FIT
        });
        for tracks in run {
            let rest = excess - tracks as f64 * rule.jump;
            let (changes, off) = rule.cylinders.changes_in(guess.track, tracks, rest);
            let short = rule.cylinders.short() * changes;
            let moved = (
                (guess.start.0 + tracks * length).saturating_sub(short),
                (guess.start.1 + tracks * length).saturating_sub(short),
            );
            let mut child = *guess;
            child.track += tracks;
            child.fit = Fit {
                tracks,
                off,
                rest,
                missed: must,
                ..NO_FIT
            };
            if let Some((_, fits)) = &mut child.gap {
                *fits = fits.saturating_add(1);
            }
            if off.abs() < FIT {
                let mut child = child;
                let start = (moved.0.max(bound.0), moved.1.min(bound.1));
                let scaled = (off / FIT) as f32;
                child.cost += scaled * scaled + if must { ODD } else { 0.0 };
                if start.0 <= start.1 {
                    child.start = start;
                    child.cost += (width(guess.start) / width(start)).ln();
                } else {
                    child.fit.beyond = match moved.1 < bound.0 {
                        true => bound.0.abs_diff(moved.1).cast_signed(),
                        false => -moved.0.abs_diff(bound.1).cast_signed(),
                    };
                    let slack = length / 8;
                    let near = (
                        moved.0.saturating_sub(slack).max(bound.0),
                        (moved.1 + slack).min(bound.1),
                    );
                    let near = if near.0 <= near.1 { near } else { bound };
                    child.start = near;
                    child.cost += SURPRISE;
                }
                self.add(child);
            }
            let start = (moved.0.max(bound.0), moved.1.min(bound.1));
            if tracks == 0 || regular && expected.is_none() {
                continue;
            }
            if !regular && start.0 <= start.1 {
                let mut child = child;
                child.start = start;
                child.cost += SKEW + (width(guess.start) / width(start)).ln();
                child.fit.off = 0.0;
                child.fit.slipped = true;
                self.add(child);
            }
            // The first unknown skew is that at the end of a cylinder.
            if rule.cylinders.one_extra() != 0.0 {
                self.slip(guess, child, pair, bound, expected, rule);
            }
        }
    }

    /// Adds `child`, which is some tracks after `guess`, with sectors without numbers in between.
    fn slip(
        &mut self,
        guess: &Guess,
        mut child: Guess,
        pair: &Pair,
        bound: (u64, u64),
        expected: Option<Gap>,
        rule: &Rule,
    ) {
        let (tracks, rest) = (child.fit.tracks, child.fit.rest);
        // The sectors without numbers lie at the end of a cylinder.
        let skew = rule.cylinders.extra(guess.track, tracks);
        let skew = if skew == 0.0 {
            rule.cylinders.one_extra()
        } else {
            skew
        };
        let turns = fraction(rest - skew);
        let missing = (turns * rule.turn).round();
        let off = (turns - missing / rule.turn).abs();
        if off > FIT || missing < 2.0 || missing + 1.0 >= rule.length as f64 {
            return;
        }
        let missing = missing as u64;
        let short = |start: u64| (start + tracks * rule.length).saturating_sub(missing);
        let start = (
            short(guess.start.0).max(bound.0),
            short(guess.start.1).min(bound.1),
        );
        if start.0 > start.1 {
            return;
        }
        let same = |gap: Option<Gap>| gap.is_some_and(|g| g.missing.abs_diff(missing as u32) <= 1);
        let cost = if same(expected) {
            0.0
        } else if same(rule.ranges.last()) {
            ODD
        } else {
            SURPRISE
        };
        let narrower = (guess.start.1 - guess.start.0 + 1) as f32 / (start.1 - start.0 + 1) as f32;
        child.cost += cost + narrower.ln();
        // The gap ends one of the tracks that were left. After it the last track begins, or some before it.
        let ends = (start.0.saturating_sub((tracks - 1) * rule.length), start.1);
        child.start = start;
        child.fit.off = 0.0;
        child.fit.gap = true;
        child.fit.missed = false;
        child.fit.slipped = !same(expected);
        child.gap = Some((
            Gap {
                end: (ends.0.max(pair.from), ends.1),
                missing: missing as u32,
                turns: fraction(rest) as f32,
            },
            0,
        ));
        self.add(child);
    }

    fn add(&mut self, guess: Guess) {
        let known = &mut self.guesses[..self.count];
        if let Some(same) = known.iter_mut().find(|g| g.start == guess.start) {
            if guess.cost < same.cost {
                *same = guess;
            }
            return;
        }
        if self.count < KEPT {
            self.guesses[self.count] = guess;
            self.count += 1;
        } else if let Some(worst) = known.iter_mut().max_by(|a, b| a.cost.total_cmp(&b.cost))
            && guess.cost < worst.cost
        {
            *worst = guess;
        }
    }
}
