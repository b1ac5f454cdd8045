//! The rotation of the platter: period and phase, tracked from completions.
//!
//! A write that is the only request under way is done a constant time after its end passes under the head. With the
//! angle of that end each completion measures the phase. A Kalman filter of two states (phase, relative error of the
//! period) weighs the measurements. Its uncertainty grows with idle time, so the first writes after a pause count most,
//! and the speed may drift.

use tonearm_base::Nanos;

/// Variance that the relative error of the period gains in a nanosecond, before the drive has shown its own: 4 parts in 10^6 in
/// a second.
const WANDER: f64 = 16e-21;
/// The same at least and at most, as a multiple.
const STEADY: (f64, f64) = (1e-3, 1e3);
/// Standard deviation of the period's relative error without further knowledge.
const PERIOD_ERROR: f64 = 2e-3;
/// Least standard deviation of a reading, in nanoseconds.
const LEAST_NOISE: f64 = 100.0;
/// Consecutive readings that do not fit, after which the filter accepts them.
const STRIKES: u8 = 4;

/// Period and phase of the platter. Angles are in revolutions, from 0 to below 1; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Spindle {
    period: f64,
    /// Angle at `at`.
    angle: f64,
    at: u64,
    /// Covariance of phase (ns) and relative error of the period.
    phase_variance: f64,
    covariance: f64,
    period_variance: f64,
    /// Variance that the relative error of the period gains in a nanosecond.
    wander: f64,
    /// Variance of a reading.
    noise: f64,
    strikes: u8,
}

/// The fractional part of `x`, from 0 to below 1.
pub fn fraction(x: f64) -> f64 {
    let part = x - x.floor();
    if part < 1.0 { part } else { 0.0 }
}

/// The smallest rotation, forwards or backwards, that equals `x` revolutions.
pub fn nearest(x: f64) -> f64 {
    x - x.round()
}

fn since(from: u64, to: u64) -> f64 {
    to.wrapping_sub(from).cast_signed() as f64
}

impl Spindle {
    /// A platter with a revolution of `period` nanoseconds that is at `angle` at `at`.
    pub fn new(period: f64, angle: f64, at: Nanos) -> Self {
        Self {
            period,
            angle,
            at: at.0,
            phase_variance: (period / 100.0) * (period / 100.0),
            covariance: 0.0,
            period_variance: PERIOD_ERROR * PERIOD_ERROR,
            wander: WANDER,
            noise: 10_000.0 * 10_000.0,
            strikes: 0,
        }
    }

    /// Nanoseconds of a revolution.
    pub fn period(&self) -> f64 {
        self.period
    }

    /// Sets a period that is known better from elsewhere. The angle at `now` stays.
    pub fn set_period(&mut self, period: f64, now: Nanos) {
        if (period / self.period - 1.0).abs() < 0.01 {
            self.angle = self.angle(now);
            self.at = now.0;
            self.period = period;
        }
    }

    /// Revolutions, with whole ones, from `from` to `to`.
    pub fn turns(&self, from: Nanos, to: Nanos) -> f64 {
        since(from.0, to.0) / self.period
    }

    /// Angle at `at`.
    pub fn angle(&self, at: Nanos) -> f64 {
        fraction(self.angle + since(self.at, at.0) / self.period)
    }

    /// Time from `from` until `angle` passes.
    pub fn until(&self, angle: f64, from: Nanos) -> f64 {
        fraction(angle - self.angle(from)) * self.period
    }

    /// Standard deviation of the phase at `at`, in nanoseconds, at most that without any knowledge.
    pub fn doubt(&self, at: Nanos) -> f64 {
        let time = since(self.at, at.0).max(0.0);
        let variance = self.phase_variance
            + 2.0 * self.covariance * time
            + self.period_variance * time * time
            + self.wander_in(time);
        variance.max(0.0).sqrt().min(self.period / 3.0)
    }

    /// Variance of the phase by the wander of `time` nanoseconds.
    fn wander_in(&self, time: f64) -> f64 {
        self.wander * time * time * time / 3.0
    }

    /// Learns the wander from the error after `time` nanoseconds, if that is much of what was to be expected.
    fn learn_wander(&mut self, error: f64, time: f64) {
        let (wandered, others) = (self.wander_in(time), self.phase_variance + self.noise);
        if wandered < others {
            return;
        }
        let ratio = (error * error / (wandered + others)).min(16.0);
        let wander = self.wander * (1.0 + (ratio - 1.0) / 8.0);
        self.wander = wander.clamp(WANDER * STEADY.0, WANDER * STEADY.1);
    }

    /// Nanoseconds after the last reading in which the uncertainty of the phase grows to `doubt` nanoseconds, at least `least`.
    pub fn steady_for(&self, doubt: f64, least: f64) -> f64 {
        let mut time = least;
        while time < 1e12 && self.doubt(Nanos(self.at.saturating_add(time as u64))) < doubt {
            time *= 1.125;
        }
        time
    }

    /// Time by which the platter is ahead of the expectation when `angle` passes at `at`.
    pub fn error(&self, angle: f64, at: Nanos) -> f64 {
        nearest(angle - self.angle(at)) * self.period
    }

    /// True when `error` at `at` is within the uncertainty of phase and readings.
    pub fn fits(&self, error: f64, at: Nanos) -> bool {
        let doubt = self.doubt(at);
        error * error <= 36.0 * (doubt * doubt + self.noise) + 1e6
    }

    /// Adds a reading: `angle` passed at `at`. False when it did not fit and was ignored.
    pub fn read(&mut self, angle: f64, at: Nanos) -> bool {
        let error = self.error(angle, at);
        if !self.fits(error, at) {
            self.strikes += 1;
            if self.strikes >= STRIKES {
                self.relock(angle, at);
            }
            return false;
        }
        self.strikes = 0;
        let time = since(self.at, at.0).max(0.0);
        if self.doubt(at) > self.period / 8.0 {
            // After such a pause the whole turns cannot be counted, so the reading gives only the phase.
            let period_variance = self.period_variance + self.wander * time;
            self.relock(angle, at);
            self.period_variance = period_variance.min(PERIOD_ERROR * PERIOD_ERROR);
            return true;
        }
        self.learn_wander(error, time);
        self.phase_variance = self.doubt(at) * self.doubt(at);
        self.covariance += self.period_variance * time + self.wander * time * time / 2.0;
        self.period_variance =
            (self.period_variance + self.wander * time).min(PERIOD_ERROR * PERIOD_ERROR);
        self.angle = self.angle(at);
        self.at = at.0;

        let total = self.phase_variance + self.noise;
        let (phase_gain, period_gain) = (self.phase_variance / total, self.covariance / total);
        self.angle = fraction(self.angle + phase_gain * error / self.period);
        self.period /= (1.0 + period_gain * error).clamp(0.99, 1.01);
        self.period_variance -= period_gain * self.covariance;
        self.period_variance = self.period_variance.max(1e-18);
        self.covariance *= 1.0 - phase_gain;
        self.phase_variance *= 1.0 - phase_gain;
        let innovation = (error * error).min(9.0 * total) - self.phase_variance;
        self.noise += (innovation - self.noise) / 64.0;
        self.noise = self.noise.max(LEAST_NOISE * LEAST_NOISE);
        true
    }

    /// Sets the phase so that `angle` passes at `at`. The period stays.
    pub fn relock(&mut self, angle: f64, at: Nanos) {
        self.angle = fraction(angle);
        self.at = at.0;
        self.phase_variance = self.noise;
        self.covariance = 0.0;
        self.period_variance = self.period_variance.max(1e-6);
        self.strikes = 0;
    }
}
