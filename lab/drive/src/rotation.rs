//! The angle of the platter over time.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive_file::Angle;

/// Fixed-point digits of a time.
const DIGITS: u32 = 16;

/// Nanoseconds from one knot of the jitter to the next.
const KNOT: u64 = 1_000_000_000;

/// A slow change of the spindle's speed, for example while a drive warms up: the speed approaches its new value
/// exponentially.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Drift {
    /// Relative change of the speed in the end; with 0.001 the platter turns faster by a thousandth.
    pub relative: f64,
    /// Time after which 1/e of the change is left; 0 for a step.
    pub time_constant: Nanos,
    /// When it begins, in whole seconds, rounded up.
    pub start: Nanos,
}

/// A platter that rotates, possibly with small changes of its speed.
#[derive(Clone)]
pub struct Rotation {
    /// Angle for each nanosecond, without drift.
    speed: u64,
    /// Nanoseconds of a revolution times 2^16.
    period: u64,
    phase: Angle,
    wander: Option<Wander>,
}

/// Phase error as straight lines between points, one a second: random ones, and those of a drift.
#[derive(Clone)]
struct Wander {
    rng: ChaCha8Rng,
    /// Greatest change of the phase in a second.
    step: u64,
    /// The same in a revolution, rounded up.
    slack: Angle,
    knot: u64,
    from: Angle,
    slope: i64,
    drift: Option<Drifting>,
}

/// A drift and how far it is.
#[derive(Clone)]
struct Drifting {
    /// Relative change of the speed in the end.
    relative: f64,
    /// Knot at which it begins.
    start: u64,
    /// Share of the change that is left at the next knot.
    left: f64,
    /// Factor by which a second reduces that share.
    decay: f64,
    /// Mean of that share over a second, relative to its start.
    mean: f64,
    /// Angle of a nanosecond, and 2^16 times the nanoseconds of a revolution, before the change.
    speed: f64,
    period: f64,
}

impl Rotation {
    /// A platter of `rpm` revolutions a minute, at `phase` (in revolutions) at time 0. With a `jitter_ns`
    /// its phase drifts by up to that much in each second, one way or the other.
    pub fn new(rpm: f64, phase: f64, jitter_ns: u64, seed: u64) -> Self {
        let period_ns = 60e9 / rpm;
        let revolution = 18_446_744_073_709_551_616.0;
        let speed = (revolution / period_ns) as u64;
        let step = speed.saturating_mul(jitter_ns);
        let wander = (jitter_ns > 0).then(|| Wander {
            rng: ChaCha8Rng::seed_from_u64(seed),
            step,
            slack: ((step as f64 * period_ns / 1e9) as u64).saturating_add(2 * speed),
            knot: 0,
            from: 0,
            slope: 0,
            drift: None,
        });
        Self {
            speed,
            period: (period_ns * f64::from(1 << DIGITS)) as u64,
            phase: ((phase.rem_euclid(1.0) * revolution / 2.0) as u64).wrapping_mul(2),
            wander,
        }
    }

    /// The same platter with a change of its speed. Like jitter, it costs a line for each second.
    pub fn with_drift(mut self, drift: &Drift) -> Self {
        let seconds = drift.time_constant.0 as f64 / KNOT as f64;
        let decay = if seconds > 0.0 {
            (-1.0 / seconds).exp()
        } else {
            0.0
        };
        let drifting = Drifting {
            relative: drift.relative,
            start: drift.start.0.div_ceil(KNOT),
            left: 1.0,
            decay,
            mean: (1.0 - decay) * seconds,
            speed: self.speed as f64,
            period: self.period as f64,
        };
        let wander = self.wander.get_or_insert_with(|| Wander {
            rng: ChaCha8Rng::seed_from_u64(0),
            step: 0,
            slack: 2 * self.speed,
            knot: 0,
            from: 0,
            slope: 0,
            drift: None,
        });
        wander.drift = Some(drifting);
        self
    }

    /// The angle of a nanosecond.
    pub fn speed(&self) -> u64 {
        self.speed
    }

    /// Time of a revolution.
    pub fn period(&self) -> Nanos {
        Nanos(self.period >> DIGITS)
    }

    /// Nanoseconds of a revolution times 2^16.
    pub fn period_fixed(&self) -> u64 {
        self.period
    }

    /// The angle under the heads at `at`. If the speed varies, `at` must not go back by more than a second from call to
    /// call.
    #[inline]
    pub fn angle(&mut self, at: Nanos) -> Angle {
        let even = at.0.wrapping_mul(self.speed).wrapping_add(self.phase);
        match &mut self.wander {
            None => even,
            Some(wander) => even.wrapping_add(wander.at(at.0, &mut self.period)),
        }
    }

    /// Time that the platter takes to turn by `angle`.
    #[inline]
    pub fn time(&self, angle: Angle) -> Nanos {
        Nanos(((u128::from(angle) * u128::from(self.period)) >> (64 + DIGITS)) as u64)
    }

    /// Time from `now` until `angle` is under the heads. A platter whose speed varies may be slightly ahead of its mean
    /// speed; an angle right after an access is not missed for that reason.
    #[inline]
    pub fn latency(&mut self, now: Nanos, angle: Angle) -> Nanos {
        let ahead = angle.wrapping_sub(self.angle(now));
        match &self.wander {
            Some(wander) if ahead.wrapping_neg() <= wander.slack => Nanos(0),
            _ => self.time(ahead),
        }
    }

    /// Turns the platter by `revolutions`, to adjust it to an outside clock.
    pub fn turn(&mut self, revolutions: f64) {
        let revolution = 9_223_372_036_854_775_808.0;
        let angle = ((revolutions.rem_euclid(1.0) * revolution) as u64).wrapping_mul(2);
        self.phase = self.phase.wrapping_add(angle);
    }
}

impl Wander {
    #[inline]
    fn at(&mut self, now: u64, period: &mut u64) -> Angle {
        let knot = now / KNOT;
        while self.knot <= knot {
            self.next_line(period);
        }
        let into = now.saturating_sub((self.knot - 1) * KNOT);
        self.from
            .wrapping_add_signed(self.slope.wrapping_mul(into as i64))
    }

    fn next_line(&mut self, period: &mut u64) {
        // The end of the line that ends here.
        self.from = self
            .from
            .wrapping_add_signed(self.slope.wrapping_mul(KNOT as i64));
        let span = 2 * (self.step / KNOT) + 1;
        self.slope = (self.rng.next_u64() % span) as i64 - (span / 2) as i64;
        if let Some(drift) = &mut self.drift
            && drift.start <= self.knot
        {
            let change = drift.relative * (1.0 - drift.left * drift.mean);
            drift.left *= drift.decay;
            self.slope = self.slope.wrapping_add((drift.speed * change) as i64);
            *period = (drift.period / (1.0 + change)) as u64;
        }
        self.knot += 1;
    }
}
