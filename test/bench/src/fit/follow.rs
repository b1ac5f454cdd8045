//! Estimates where the real platter was, from the errors of earlier requests.
//!
//! A request that waits for a sector ends when that sector has passed, whatever the command's overheads are. If the
//! simulated platter is ahead of the real one by some angle, the error of each such request is the time of that angle
//! plus a whole number of revolutions. The correction is the error as an angle, averaged as a vector over a few dozen
//! requests. It is applied after the request from which it was learnt, so no request's own measured time enters its
//! prediction.

use std::f64::consts::TAU;
use tonearm_base::Nanos;

/// At this coherence or more, the trace has kept the phase. Known traces have at least 0.9 or at most 0.2.
pub const KEPT: f64 = 0.5;

/// A request shorter than this share of a revolution may not have waited for the platter, and is not used.
const SHORTEST: f64 = 0.45;
/// Weight of the newest request in the average.
const NEWEST: f64 = 0.07;
/// The average is used when its vector is at least this long.
const BELIEVED: f64 = 0.55;
/// When the average angle, in revolutions, is larger than this, the phase is wrong and is corrected at once.
const WRONG: f64 = 0.06;
/// An error below `GENTLE` is an error of the phase only. `SHARE` of it is corrected with each request.
const GENTLE: f64 = 0.1;
const SHARE: f64 = 0.08;
/// Share of such an error that is attributed to the speed.
const SPEED: f64 = 0.002;
/// Least time, in ns, over which an error of the speed accumulates.
const SHORTEST_GAP: f64 = 1e6;

/// Estimator of a platter's phase.
pub struct Follower {
    /// Time of a revolution, ns.
    period: f64,
    /// The average error as a vector: cosine and sine.
    average: (f64, f64),
    /// Revolutions that the simulated platter gains on the real one in a nanosecond.
    gain: f64,
    /// When the current request was issued, ns.
    issued: Nanos,
    /// Time since the issue of the previous request, ns.
    gap: f64,
    lengths: f64,
    counted: u32,
}

impl Follower {
    /// A follower of a platter that turns once in `period`.
    pub fn new(period: Nanos) -> Self {
        Self {
            period: period.0 as f64,
            average: (0.0, 0.0),
            gain: 0.0,
            issued: Nanos(0),
            gap: 0.0,
            lengths: 0.0,
            counted: 0,
        }
    }

    /// Called when a request is issued at `at`. Returns the angle by which to turn the simulated platter first, because
    /// its speed differs slightly from the real one.
    pub fn drift_until(&mut self, at: Nanos) -> f64 {
        self.gap = (at.0 - self.issued.0) as f64;
        self.issued = at;
        -self.gain * self.gap
    }

    /// Called when the request took `simulated` instead of `measured`. Returns the angle by which to turn the platter.
    pub fn learn(&mut self, measured: Nanos, simulated: Nanos) -> f64 {
        let (measured, simulated) = (measured.0 as f64, simulated.0 as f64);
        if measured.min(simulated) <= SHORTEST * self.period {
            return 0.0;
        }
        let error = (measured - simulated) / self.period;
        let error = error - error.round();
        self.average(error);
        let length = self.average.0.hypot(self.average.1);
        self.lengths += length;
        self.counted += 1;
        let angle = self.average.1.atan2(self.average.0) / TAU;
        if length <= BELIEVED {
            0.0
        } else if angle.abs() > WRONG {
            // Later errors will be smaller by this correction.
            self.average = (length, 0.0);
            -angle
        } else if error.abs() < GENTLE {
            self.gain += SPEED * error / self.gap.max(SHORTEST_GAP);
            -SHARE * error
        } else {
            0.0
        }
    }

    fn average(&mut self, error: f64) {
        let (sine, cosine) = (error * TAU).sin_cos();
        let mix = |old: f64, new: f64| old * (1.0 - NEWEST) + new * NEWEST;
        self.average = (mix(self.average.0, cosine), mix(self.average.1, sine));
    }

    /// Mean length of the average: 1 when the errors agree, about 0.2 when they are random.
    pub fn coherence(&self) -> f64 {
        self.lengths / f64::from(self.counted.max(1))
    }
}
