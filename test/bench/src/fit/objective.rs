//! What a fit makes small, in ms.
//!
//! Where the trace has lost the spindle's phase (the host's clock stopped between requests, or was read
//! too coarsely), only distributions can be compared: the demerit figure of Ruemmler and Wilkes, of all
//! requests and of reads and writes apart, since their errors may cancel each other in the sum. One run is
//! one draw of rotational latencies; several with other phases keep the fit from chasing that draw.
//!
//! Where the trace has kept the phase, nearly every request can be predicted, and its error tells more
//! than a distribution. It counts up to 1 ms: a request that just misses its sector is wrong by a
//! revolution, and a few of those must not outweigh all the others. The distributions count as well, of
//! the closed loop and of the followed clock.

use crate::accuracy::demerit_ms;
use crate::replay::{closed_loop, followed, random_phase};
use crate::requests::Request;
use tonearm_base::Nanos;
use tonearm_drive::DriveSpec;
use tonearm_world::Kind;

/// Runs with a random phase, beside the closed loop.
const RANDOM_RUNS: u64 = 4;
/// Weight of the demerit of reads, and of that of writes, against that of all.
const KIND_WEIGHT: f64 = 0.5;
/// Weights of the mean error of single requests, and of demerits, when the phase is followed.
const SINGLE_WEIGHT: f64 = 0.7;
const DEMERIT_WEIGHT: f64 = 0.3;
/// What a single request's error counts at most, ms.
const SINGLE_MOST_MS: f64 = 1.0;

/// Measured requests, and how they are looked at.
pub struct Objective<'a> {
    requests: &'a [Request],
    follow: bool,
}

impl<'a> Objective<'a> {
    /// That of `requests`; `follow`: the trace has kept the phase.
    pub fn new(requests: &'a [Request], follow: bool) -> Self {
        Self { requests, follow }
    }

    /// How far the drive is from the measured one, ms.
    pub fn of(&self, spec: &DriveSpec) -> f64 {
        if self.follow {
            self.single_requests(spec)
        } else {
            self.distributions(spec)
        }
    }

    fn distributions(&self, spec: &DriveSpec) -> f64 {
        let random = (1..=RANDOM_RUNS).map(|seed| random_phase(spec, self.requests, seed));
        let runs = std::iter::once(closed_loop(spec, self.requests)).chain(random);
        let squares = runs.map(|times| {
            let [all, reads, writes] = self.demerits(&times).map(|demerit| demerit * demerit);
            all + KIND_WEIGHT * (reads + writes)
        });
        (squares.sum::<f64>() / (RANDOM_RUNS + 1) as f64).sqrt()
    }

    fn single_requests(&self, spec: &DriveSpec) -> f64 {
        let times = followed(spec, self.requests).times;
        let pairs = self.requests.iter().zip(&times);
        let errors = pairs.map(|(request, time)| {
            let error = request.response.0.abs_diff(time.0) as f64 / 1e6;
            error.min(SINGLE_MOST_MS)
        });
        let single = errors.sum::<f64>() / times.len() as f64;
        let mut demerit = 0.0;
        for times in [times, closed_loop(spec, self.requests)] {
            let [all, reads, writes] = self.demerits(&times);
            demerit += all + KIND_WEIGHT * (reads + writes);
        }
        SINGLE_WEIGHT * single + DEMERIT_WEIGHT * demerit
    }

    /// Of all, of reads and of writes.
    fn demerits(&self, times: &[Nanos]) -> [f64; 3] {
        [None, Some(Kind::Read), Some(Kind::Write)]
            .map(|kind| demerit_ms(self.requests, times, kind).unwrap_or(0.0))
    }
}
