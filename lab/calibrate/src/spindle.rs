//! The rotation of the platter, from the times at which the same sector passes.

use crate::error::Error;
use crate::probe::{Method, Probe};
use std::f64::consts::TAU;
use tonearm_base::Nanos;
use tonearm_rt::Op;

/// Shortest and longest revolution that is tried, in nanoseconds (40,000 and 1200 turns a minute).
const PERIODS: (f64, f64) = (1.5e6, 50e6);
/// Age after which an anchor is timed again, in nanoseconds.
const ANCHOR_AGE: u64 = 100_000_000;
/// Age after which an anchor's timing is useless, in nanoseconds, because the period is not known well enough.
const ANCHOR_MEMORY: u64 = 1_000_000_000;
/// Timings of an anchor, if response times are irregular. Each is used for many angles, so none may be late.
const ANCHORS: u32 = 3;
/// Timings of both sectors of an unexpected angle, if response times are irregular.
const AGAIN: u32 = 3;
/// The same for an angle on which much depends.
const SURE: u32 = 5;
/// Noise, in nanoseconds, from which on one timing is not reliable.
const NOISY: f64 = 100.0;
/// Coherence from which on a dozen times agree with a period; one in 50,000 random dozens reaches it.
const COHERENT: f64 = 0.95;
/// Coherence of some hundred times, some of which may have other causes; random ones never reach it.
const MOSTLY_COHERENT: f64 = 0.6;
/// Longest of the irregular pauses between timings, in nanoseconds.
const PAUSE: u64 = 20_000_000;
/// Timings in which a period is looked for.
const DOZEN: u32 = 12;
/// Places that are read again in turn: more than a drive's buffer holds.
const PLACES: usize = 128;
/// Adjacent places of which the last one is read again first.
const TURNED: usize = 16;
/// Random coherence of 16 sectors that no platter has: the angles of a platter would reach it once in 25,000.
const TICKING: f64 = 0.8;
/// Relative change of the speed that an anchor's next passing is assumed to show without noise.
const WANDER: f64 = 2e-7;

/// Speed of the platter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spindle {
    /// Nanoseconds of a revolution.
    pub period: f64,
    /// Standard deviation of a request's end from an even rotation, in nanoseconds.
    pub noise: f64,
}

impl Spindle {
    /// The fraction of a revolution, in [0, 1), in `span` nanoseconds.
    pub fn turns(&self, span: f64) -> f64 {
        (span / self.period).rem_euclid(1.0)
    }
}

/// The same, in [-0.5, 0.5).
pub(crate) fn centred(turns: f64) -> f64 {
    (turns + 0.5).rem_euclid(1.0) - 0.5
}

/// How well the times agree with a period: 1 perfectly, 0 not at all.
fn coherence(times: &[f64], period: f64) -> f64 {
    let (mut sin, mut cos) = (0.0, 0.0);
    for time in times {
        let (s, c) = (time / period * TAU).sin_cos();
        sin += s;
        cos += c;
    }
    sin.hypot(cos) / times.len() as f64
}

/// The longest period with which times, the outermost of which are `span` apart, agree by more than `least`. Its
/// fractions agree, too.
fn longest_period(times: &[f64], span: f64, least: f64) -> Option<f64> {
    let step = 0.05 / span;
    let (fastest, slowest) = (1.0 / PERIODS.0, 1.0 / PERIODS.1);
    let steps = ((fastest - slowest) / step) as u64;
    let (mut best, mut first) = (None, 0.0);
    for index in 0..steps {
        let rate = slowest + index as f64 * step;
        let found = coherence(times, 1.0 / rate);
        match best {
            // With similar waits, periods near the right one also agree, so the best one is taken.
            Some(_) if rate > 1.4 * first => break,
            Some((most, _)) if found <= most => {}
            Some(_) => best = Some((found, rate)),
            None if found > least => {
                first = rate;
                best = Some((found, rate));
            }
            None => {}
        }
    }
    best.map(|(_, rate)| 1.0 / rate)
}

/// Fits `times` by least squares to whole numbers of revolutions near `period`. Returns a better period, and the
/// standard deviation of the residuals.
fn fit(times: &[f64], period: f64) -> (f64, f64) {
    let first = times[0];
    let count = times.len() as f64;
    let turns: Vec<f64> = times
        .iter()
        .map(|time| ((time - first) / period).round())
        .collect();
    let mean_turn = turns.iter().sum::<f64>() / count;
    let mean_time = times.iter().map(|time| time - first).sum::<f64>() / count;
    let (mut above, mut below) = (0.0, 0.0);
    for (turn, time) in turns.iter().zip(times) {
        above += (turn - mean_turn) * (time - first - mean_time);
        below += (turn - mean_turn).powi(2);
    }
    if below == 0.0 {
        return (period, 0.0);
    }
    let period = above / below;
    let mut left: Vec<f64> = turns
        .iter()
        .zip(times)
        .map(|(turn, time)| (time - first - mean_time - (turn - mean_turn) * period).abs())
        .collect();
    left.sort_by(f64::total_cmp);
    // The median, so that a few late ones do not count, times the factor that makes it a standard deviation.
    (period, 1.5 * left[left.len() / 2])
}

/// Whether most of `more` times are within a twentieth of a revolution of the prediction of `times`. Two thirds of a
/// random dozen are once in a million.
fn foretold(times: &[f64], more: &[f64], period: f64) -> bool {
    let first = times[0];
    let mut phases: Vec<f64> = times
        .iter()
        .map(|time| centred((time - first) / period))
        .collect();
    phases.sort_by(f64::total_cmp);
    let phase = phases[phases.len() / 2];
    let near = |time: &&f64| centred((**time - first) / period - phase).abs() < 0.05;
    3 * more.iter().filter(near).count() >= 2 * more.len()
}

impl Probe {
    /// Times of `count` passings of sector `lba`, with irregular pauses in between.
    async fn passings(&mut self, lba: u64, count: u32) -> Result<Vec<f64>, Error> {
        let mut times = Vec::new();
        for _ in 0..count {
            if let Method::Read(reads) = self.method {
                self.forget(reads).await?;
            }
            let wait = self.random(PAUSE);
            self.sleep(Nanos(wait)).await;
            let timed = self.sample(lba).await?;
            times.push(timed.done.0 as f64);
        }
        Ok(times)
    }

    /// Whether requests by the present method show a rotating platter, and its period; `None` when they do not.
    pub async fn find_spindle(&mut self, lba: u64) -> Result<Option<Spindle>, Error> {
        let method = self.method;
        let question = format!("period {method:?} {lba}");
        let answer = self
            .ask(question, async |probe: &mut Self| {
                let mut all = probe.passings(lba, DOZEN).await?;
                let span = all[all.len() - 1] - all[0];
                let Some(rough) = longest_period(&all, span, COHERENT) else {
                    return Ok(vec![0.0, 0.0]);
                };
                let (mut period, mut noise) = fit(&all, rough);
                // From times over a second, the period is found to some millionths. From there on ever longer waits
                // improve it. Times that were not used to find it must agree with it.
                for (seconds, count) in [(0, DOZEN), (1, 6), (3, 6), (8, 6)] {
                    probe.sleep(Nanos::from_secs(seconds)).await;
                    let more = probe.passings(lba, count).await?;
                    if !foretold(&all, &more, period) {
                        return Ok(vec![0.0, 0.0]);
                    }
                    all.extend(more);
                    let (better, left) = fit(&all, period);
                    period = better;
                    if seconds > 0 {
                        continue;
                    }
                    noise = left;
                    // A host or a virtual disk may end all requests at the ticks of a clock. On a platter, other
                    // sectors are at other angles.
                    let mut elsewhere = Vec::new();
                    let span = probe.region.end - probe.region.start;
                    for _ in 0..16 {
                        let place = probe.region.start + probe.random(span);
                        elsewhere.extend(probe.passings(place, 1).await?);
                    }
                    if coherence(&elsewhere, period) > TICKING {
                        return Ok(vec![0.0, 0.0]);
                    }
                }
                Ok(vec![period, noise])
            })
            .await?;
        let (period, noise) = (answer[0], answer[1]);
        Ok((period > 0.0).then_some(Spindle { period, noise }))
    }

    /// Whether reads show a rotating platter: the same sectors, read again when they are no longer in the buffer, come
    /// after whole revolutions.
    pub async fn reads_show_turns(&mut self) -> Result<bool, Error> {
        let answer = self
            .ask("reads again".into(), async |probe: &mut Self| {
                let span = probe.region.end - probe.region.start;
                let mut places = Vec::new();
                for _ in 0..PLACES {
                    places.push((probe.region.start + probe.random(span), 0.0));
                }
                let (mut firsts, mut between) = (Vec::new(), Vec::new());
                for round in 0..2 {
                    for (lba, last) in &mut places {
                        let wait = probe.random(PAUSE);
                        probe.sleep(Nanos(wait)).await;
                        let done = probe.io(Op::Read, *lba, 1).await?.done.0 as f64;
                        match round {
                            0 => firsts.push(done),
                            _ => between.push(done - *last),
                        }
                        *last = done;
                    }
                    // Times between reads of the same sector must differ by many revolutions.
                    places.chunks_mut(TURNED).for_each(<[_]>::reverse);
                }
                let most = between.iter().copied().fold(0.0, f64::max);
                let least = between.iter().copied().fold(f64::MAX, f64::min);
                let period = longest_period(&between, most - least, MOSTLY_COHERENT);
                // If the first reads were coherent, the cause would be the ticks of a clock.
                let turns = period.is_some_and(|period| coherence(&firsts, period) < TICKING);
                Ok(vec![f64::from(u8::from(turns))])
            })
            .await?;
        Ok(answer[0] > 0.0)
    }

    /// The turn of the platter from the end of sector `from` to the end of sector `to`, in [0, 1), which should be
    /// `expected`. A result that differs by more than `tolerance` has been measured twice, the second time with new
    /// timings of both sectors alone.
    pub async fn turn(
        &mut self,
        from: u64,
        to: u64,
        expected: f64,
        tolerance: f64,
    ) -> Result<f64, Error> {
        let question = format!("turn {from} {to}");
        let answer = self
            .ask(question, async |probe: &mut Self| {
                let turn = probe.measure(from, to, 1).await?;
                if centred(turn - expected).abs() <= tolerance {
                    return Ok(vec![turn]);
                }
                let again = if probe.is_noisy() { AGAIN } else { 2 };
                Ok(vec![probe.measure_anew(from, to, again).await?])
            })
            .await?;
        Ok(answer[0])
    }

    /// The same without an expectation, with care, because much depends on it.
    pub async fn turn_surely(&mut self, from: u64, to: u64) -> Result<f64, Error> {
        let question = format!("turn {from} {to}");
        let answer = self
            .ask(question, async |probe: &mut Self| {
                if !probe.is_noisy() {
                    return Ok(vec![probe.measure(from, to, 1).await?]);
                }
                Ok(vec![probe.measure_anew(from, to, SURE).await?])
            })
            .await?;
        Ok(answer[0])
    }

    /// Whether one timing is not reliable.
    fn is_noisy(&self) -> bool {
        self.spindle.noise > NOISY
    }

    /// The turn from `from` to `to`, from new timings of both.
    async fn measure_anew(&mut self, from: u64, to: u64, least: u32) -> Result<f64, Error> {
        let wait = self.random(self.spindle.period as u64);
        self.anchor = None;
        self.sleep(Nanos(wait)).await;
        self.measure(from, to, least).await
    }

    /// The turn from `from` to `to`, from at least `least` timings of `to`.
    async fn measure(&mut self, from: u64, to: u64, least: u32) -> Result<f64, Error> {
        let count = least.max(self.repeats);
        if let Method::Read(reads) = self.method {
            let mut found = Vec::new();
            for _ in 0..count {
                found.push(self.turn_of_reads(from, to, reads).await?);
            }
            return Ok(middle(&mut found));
        }
        let anchors = if self.is_noisy() { ANCHORS } else { 1 };
        let at = self.anchored(from, anchors.max(count) as usize).await?;
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(self.sample(to).await?.done);
        }
        let turns = earliest(&times, self.spindle.period) - at;
        Ok(self.spindle.turns(turns))
    }

    /// When sector `from` last passed, in nanoseconds, from its last `count` timings. It is timed again if these are
    /// too few or too old.
    async fn anchored(&mut self, from: u64, count: usize) -> Result<f64, Error> {
        let mut times = match self.anchor.take() {
            Some((lba, times)) if lba == from => times,
            _ => Vec::new(),
        };
        let now = self.rt.now();
        times.retain(|at| now.0 - at.0 <= ANCHOR_MEMORY);
        let mut stale = times.last().is_some_and(|at| now.0 - at.0 > ANCHOR_AGE);
        while stale || times.len() < count {
            stale = false;
            let timed = self.sample(from).await?;
            if let Some(last) = times.last() {
                self.follow((timed.done.0 - last.0) as f64);
            }
            times.push(timed.done);
        }
        times.drain(..times.len() - count);
        let at = earliest(&times, self.spindle.period);
        self.anchor = Some((from, times));
        Ok(at)
    }

    /// Follows a slow change of the speed: the same sector passed again after `span` nanoseconds.
    fn follow(&mut self, span: f64) {
        let turns = (span / self.spindle.period).round();
        if !(4.0..=100.0).contains(&turns) {
            return;
        }
        let believed = (WANDER * self.spindle.period).powi(2);
        let noise = 2.0 * (self.spindle.noise.max(1.0) / turns).powi(2);
        let error = span / turns - self.spindle.period;
        if error.abs() < 1e-4 * self.spindle.period {
            self.spindle.period += error * believed / (believed + noise);
        }
    }

    /// The turn between two sectors that may be too near each other to be read one after the other, because the second
    /// would be in the buffer. Each is timed against a third one, far away.
    async fn turn_of_reads(&mut self, from: u64, to: u64, reads: u32) -> Result<f64, Error> {
        let (start, end) = (self.region.start, self.region.end);
        let far = if from < start.midpoint(end) {
            end - 1
        } else {
            start
        };
        let mut turns = [0.0; 2];
        for (turn, lba) in turns.iter_mut().zip([from, to]) {
            self.forget(reads).await?;
            let reference = self.sample(far).await?;
            let timed = self.sample(lba).await?;
            *turn = (timed.done.0 - reference.done.0) as f64;
        }
        Ok(self.spindle.turns(turns[1] - turns[0]))
    }
}

/// The last passing of a sector, in nanoseconds, from the ends of requests for it. Ends may be late and never early, so
/// the earliest one, modulo the period, is the most exact.
fn earliest(times: &[Nanos], period: f64) -> f64 {
    let last = times[times.len() - 1].0 as f64;
    let turns = times
        .iter()
        .map(|at| centred((at.0 as f64 - last) / period));
    last + turns.fold(0.0, f64::min) * period
}

/// The mean of the middle half of angles that are close together, in [0, 1).
fn middle(turns: &mut [f64]) -> f64 {
    let first = turns[0];
    for turn in turns.iter_mut() {
        *turn = centred(*turn - first);
    }
    turns.sort_by(f64::total_cmp);
    let quarter = turns.len() / 4;
    let kept = &turns[quarter..turns.len() - quarter];
    (first + kept.iter().sum::<f64>() / kept.len() as f64).rem_euclid(1.0)
}
