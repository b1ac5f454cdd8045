//! By how much later a read ends after the passing of its last sector than a write, and whether a read came from the medium.

use super::angles::Angles;
use super::spindle::Spindle;
use crate::Access;
use tonearm_base::Nanos;

/// Reads with about the same lag after which it is known.
const SURE: u8 = 3;
/// Reads that contradict it after which it is unknown again.
const STRIKES: u8 = 8;
/// Lags that differ by a smaller part of a revolution are the same.
const SAME: f64 = 1.0 / 128.0;
/// Above this uncertainty, as a part of a revolution, the phase does not show whether a read came from the medium.
const DOUBT: f64 = 1.0 / 16.0;

/// The lag, as far as known.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReadLag {
    /// Nanoseconds, which may be negative.
    lag: f64,
    /// Reads in a row that agreed, until there are enough.
    agreed: u8,
    strikes: u8,
}

impl ReadLag {
    /// True when reads show the phase of the platter.
    pub fn is_known(&self) -> bool {
        self.agreed >= SURE
    }

    /// When `read` would have ended if it had been a write. `None` when it cannot have come from the medium.
    pub fn write_done(
        &mut self,
        spindle: &Spindle,
        angles: &Angles,
        read: &Access,
    ) -> Option<Nanos> {
        let on = angles.find(read.end() - 1)?;
        let (period, doubt) = (spindle.period(), spindle.doubt(read.done));
        let lag = -spindle.error(on.angle_of(read.end()), read.done);
        let off = (lag - self.lag).abs();
        let off = off.min(period - off);
        let is_same = off < SAME * period + 3.0 * doubt;
        let is_sharp = doubt < SAME * period / 4.0;
        if !self.is_known() {
            match (is_sharp, is_same) {
                // It may have come from the buffer.
                (false, _) => return Some(read.done),
                (true, true) => self.agreed += 1,
                (true, false) => (self.lag, self.agreed) = (lag, 1),
            }
        } else if doubt < DOUBT * period && !is_same {
            self.strikes += 1;
            if self.strikes >= STRIKES {
                *self = Self::default();
            }
            return None;
        } else if is_sharp {
            self.lag += (lag - self.lag) / 8.0;
        }
        self.strikes = 0;
        Some(self.as_write(read))
    }

    fn as_write(&self, read: &Access) -> Nanos {
        Nanos(read.done.0.saturating_add_signed(-self.lag as i64)).max(read.sent)
    }
}
