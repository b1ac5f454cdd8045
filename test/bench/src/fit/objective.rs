//! The objective that a fit minimises, in ms.
//!
//! Some traces have lost the spindle's phase, because the host's clock stopped between requests or was read too
//! coarsely. Then only distributions can be compared. The measure is the demerit figure of Ruemmler and Wilkes of all
//! requests, and of reads and of writes separately, since their errors may cancel in the sum. Each run is one sample of
//! rotational latencies. Several runs with different phases keep the fit from adapting to one sample.
//!
//! Where the trace has kept the phase, nearly every request can be predicted, and its error says more than a
//! distribution. An error counts up to 1 ms: a request that just misses its sector is wrong by a revolution, and a few
//! such requests must not outweigh all others. The distributions of the closed loop and of the followed clock count as
//! well.

use crate::accuracy::demerit_ms;
use crate::replay::{closed_loop, followed, random_phase};
use crate::requests::Request;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveSpec;
use tonearm_world::Kind;

/// Runs with a random phase, in addition to the closed loop.
const RANDOM_RUNS: u64 = 4;
/// Weight of the demerit of reads, and of writes, relative to that of all requests.
const KIND_WEIGHT: f64 = 0.5;
/// Weights of the mean error of single requests and of the demerits when the phase is followed.
const SINGLE_WEIGHT: f64 = 0.7;
const DEMERIT_WEIGHT: f64 = 0.3;
/// The most that the error of a single request counts, in ms.
const SINGLE_MOST_MS: f64 = 1.0;

/// Measured requests, and whether their phase is followed.
pub struct Objective<'a> {
    requests: &'a [Request],
    follow: bool,
}

impl<'a> Objective<'a> {
    /// The objective for `requests`. With `follow` the trace has kept the phase.
    pub fn new(requests: &'a [Request], follow: bool) -> Self {
        Self { requests, follow }
    }

    /// Distance of the drive's times from the measured ones, in ms.
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

    /// Demerits of all requests, of reads and of writes.
    fn demerits(&self, times: &[Nanos]) -> [f64; 3] {
        [None, Some(Kind::Read), Some(Kind::Write)]
            .map(|kind| demerit_ms(self.requests, times, kind).unwrap_or(0.0))
    }
}
