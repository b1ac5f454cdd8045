//! Period and sectors of a revolution from writes that end on one track.
//!
//! From the end of one write to the end of the next, on the same track, `d` sectors and a time `t` pass, and
//! `m` whole turns: `t / period - d / turn = m`. That is linear in the two inverses; the sums of least squares
//! over the last such pairs give both, whatever was believed before.

/// Share of the sums that a further pair leaves.
const MEMORY: f64 = 0.96;
/// Most whole turns of a pair: more cannot be counted surely.
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
    /// A pair that took `time` nanoseconds and `sectors` sectors, `turns` turns and the part that they explain.
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

    /// Sectors of a revolution, when the pairs tell.
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
