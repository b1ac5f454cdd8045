//! Period and sectors of a revolution from writes that end on one track.
//!
//! Between the ends of two consecutive writes on the same track, `d` sectors, a time `t` and `m` whole turns pass, with
//! `t / period - d / turn = m`. This is linear in the two inverses, so the sums of least squares over the last such
//! pairs give both, independent of earlier estimates.

/// Factor by which each further pair reduces the sums.
const MEMORY: f64 = 0.96;
/// Most whole turns of a pair. More cannot be counted reliably.
const MOST_TURNS: f64 = 40.0;

/// Sums over pairs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Even {
    tt: f64,
    td: f64,
    dd: f64,
    tm: f64,
    dm: f64,
    weight: f64,
}

impl Even {
    /// Adds a pair: `time` in nanoseconds, `sectors`, and `turns`, whole turns and the explained part of one.
    pub fn learn(&mut self, time: f64, sectors: f64, turns: f64) {
        if turns > MOST_TURNS {
            return;
        }
        for (sum, more) in [
            (&mut self.tt, time * time),
            (&mut self.td, time * sectors),
            (&mut self.dd, sectors * sectors),
            (&mut self.tm, time * turns),
            (&mut self.dm, sectors * turns),
            (&mut self.weight, 1.0),
        ] {
            *sum = *sum * MEMORY + more;
        }
    }

    /// Sectors of a revolution, if the pairs determine it.
    pub fn turn(&self) -> Option<f64> {
        // (tt, -td; -td, dd) (u, v) = (tm, -dm)
        let determinant = self.tt * self.dd - self.td * self.td;
        if self.weight < 6.0 || determinant < 0.02 * self.tt * self.dd {
            return None;
        }
        let per_sector = (self.td * self.tm - self.tt * self.dm) / determinant;
        (per_sector > 0.0).then(|| 1.0 / per_sector)
    }

    /// The period, when so many sectors make a revolution.
    pub fn period(&self, turn: f64) -> Option<f64> {
        let turns = self.tm + self.td / turn;
        (self.weight > 3.0 && turns > 0.0).then(|| self.tt / turns)
    }

    /// Forgets what belongs to another zone.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}
