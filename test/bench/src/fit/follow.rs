//! Where the real platter was, from how late the requests before were.
//!
//! A request that waits for a sector ends when that sector has passed, whatever the command's overheads
//! are. If the simulated platter is ahead of the real one by some angle, each such request is wrong by the
//! time of that angle, give or take whole revolutions. The error, taken as an angle and averaged over a few
//! dozen requests as a vector, is the correction. It is made after the request from which it was learnt,
//! so no request is told its own answer.

use std::f64::consts::TAU;
use tonearm_base::Nanos;

/// From this coherence on a trace has kept the phase. Those known have 0.9 and more, or 0.2 and less.
pub const KEPT: f64 = 0.5;

/// A request shorter than this share of a revolution may not have waited for the platter.
const SHORTEST: f64 = 0.45;
/// Weight of the newest request in the average.
const NEWEST: f64 = 0.07;
/// From this length on the average is believed.
const BELIEVED: f64 = 0.55;
/// Beyond this angle (in revolutions) the phase is wrong, and corrected at once.
const WRONG: f64 = 0.06;
/// Errors below this angle are of the phase alone, and correct it gently, by the share below.
const GENTLE: f64 = 0.1;
const SHARE: f64 = 0.08;
/// Share of a gentle error that is put down to the speed.
const SPEED: f64 = 0.002;
/// Least time, in ns, over which an error of the speed is taken to have grown.
const SHORTEST_GAP: f64 = 1e6;

/// Follows the phase of a platter.
pub struct Follower {
    /// Time of a revolution, ns.
    period: f64,
    /// The average error: cosine and sine.
    average: (f64, f64),
    /// Revolutions that the simulated platter gains in a nanosecond.
    gain: f64,
    /// Issue of the request at hand, ns.
    issued: Nanos,
    /// Time from the issue of the request before, ns.
    gap: f64,
    lengths: f64,
    counted: u32,
}

impl Follower {
    /// Of a platter that turns once in `period`.
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

    /// A request is issued at `at`: by how much the simulated platter has to be turned before, since it is
    /// not of quite the same speed.
    pub fn drift_until(&mut self, at: Nanos) -> f64 {
        self.gap = (at.0 - self.issued.0) as f64;
        self.issued = at;
        -self.gain * self.gap
    }

    /// The request took `simulated` instead of `measured`: by how much the platter has to be turned now.
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
            // The errors to come will be smaller by what is corrected now.
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

    /// Mean length of the average: 1 when errors agree, near 0.2 when they are anything.
    pub fn coherence(&self) -> f64 {
        self.lengths / f64::from(self.counted.max(1))
    }
}
