//! WebLogic's linear predictor: skip = (C + think time) * L (Disk Mimic 2.3).
//!
//! As published it ignores the revolution: after a long think time it skips as far as the platter has turned.

use tonearm_base::Nanos;
use tonearm_head::{Access, Head, Place, Span, first_fit};

/// The linear predictor.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// C: the least response observed.
    least_response: Nanos,
    /// L: sectors that pass under the head in a nanosecond.
    speed: f64,
    /// Where and when the last request ended.
    last: Option<(u64, Nanos)>,
}

/// The speed from one write is used when it differs from the present one by at most this share. Adjacent zones differ
/// by less. A write that waited for a revolution, or was on another track than the previous one, gives a very different
/// speed.
const PLAUSIBLE: f64 = 0.1;

/// Share of the difference by which the speed is corrected after a write.
const FOLLOW: f64 = 1.0 / 16.0;

impl Linear {
    /// A predictor that has seen `least_response`, on tracks of `turn_sectors` that turn in `turn`.
    pub fn new(least_response: Nanos, turn: Nanos, turn_sectors: u32) -> Self {
        Self {
            least_response,
            speed: f64::from(turn_sectors) / turn.0 as f64,
            last: None,
        }
    }

    /// Sectors to leave out before a write that is sent `think` after the end of the last one.
    pub fn skip(&self, think: Nanos) -> u64 {
        let time = self.least_response.0 as f64 + think.0 as f64;
        // More than any drive has.
        ((time * self.speed) as u64).min(1 << 48)
    }

    /// The block speed L, in sectors a second.
    pub fn speed(&self) -> f64 {
        self.speed * 1e9
    }
}

impl Head for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    /// Adjusts L, which the papers do not describe. From the end of one write to that of the next, the platter turns by
    /// the distance between them. This gives L if both were on one track and the second one did not miss its place.
    fn written(&mut self, write: &Access) {
        let response = write.done.since(write.sent);
        self.least_response = self.least_response.min(response);
        if let Some((end, done)) = self.last
            && write.end() > end
            && write.done > done
        {
            let observed = (write.end() - end) as f64 / write.done.since(done).0 as f64;
            if (observed / self.speed - 1.0).abs() <= PLAUSIBLE {
                self.speed += (observed - self.speed) * FOLLOW;
            }
        }
        self.last = Some((write.end(), write.done));
    }

    fn read(&mut self, read: &Access) -> bool {
        self.last = Some((read.end(), read.done));
        true
    }

    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        let target = match self.last {
            Some((end, done)) => end + self.skip(now.since(done)),
            None => 0,
        };
        let sector = first_fit(free, target, sectors)?;
        Some(Place {
            sector,
            response: None,
        })
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

#[cfg(test)]
#[path = "linear_test.rs"]
mod linear_test;
