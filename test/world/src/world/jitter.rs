//! The simplest timing model: a fixed latency and a random part, which reorders completions.

use crate::timing::{Done, DriveRequest, Kind, Timing};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use tonearm_base::Nanos;

const PAGE_SECTORS: u64 = 8;

/// Times of [`Jitter`], in nanoseconds for each operation.
#[derive(Clone, Copy, Debug)]
pub struct JitterTimes {
    /// Fixed part of any operation.
    pub latency: Nanos,
    /// Upper bound of the random part.
    pub jitter: Nanos,
    /// Added for each page of 4 KiB moved.
    pub per_page: Nanos,
    /// Fixed part of a flush.
    pub flush: Nanos,
}

impl Default for JitterTimes {
    fn default() -> Self {
        Self {
            latency: Nanos::from_micros(70),
            jitter: Nanos::from_micros(40),
            per_page: Nanos(500),
            flush: Nanos::from_micros(60),
        }
    }
}

/// A drive without mechanics. It handles any number of operations at once, each with its own latency.
pub struct Jitter {
    times: JitterTimes,
    /// Shared by the drives of one world.
    rng: Rc<RefCell<ChaCha8Rng>>,
    under_way: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    serial: u64,
}

impl Jitter {
    /// A drive with `times`. `seed` determines the random parts.
    pub fn new(times: JitterTimes, seed: u64) -> Self {
        let rng = Rc::new(RefCell::new(ChaCha8Rng::seed_from_u64(seed)));
        Self::sharing(times, &rng)
    }

    pub(crate) fn sharing(times: JitterTimes, rng: &Rc<RefCell<ChaCha8Rng>>) -> Self {
        Self {
            times,
            rng: rng.clone(),
            under_way: BinaryHeap::new(),
            serial: 0,
        }
    }
}

impl Timing for Jitter {
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        let fixed = match request.kind {
            Kind::Flush => self.times.flush,
            Kind::Read | Kind::Write => self.times.latency,
        };
        let jitter = match self.times.jitter.0 {
            0 => 0,
            bound => self.rng.borrow_mut().next_u64() % bound,
        };
        let pages = u64::from(request.sectors) / PAGE_SECTORS;
        let at = now + fixed.0 + jitter + pages * self.times.per_page.0;
        self.under_way.push(Reverse((at, self.serial, request.id)));
        self.serial += 1;
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.peek().map(|Reverse((at, _, _))| *at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(Reverse((at, _, id))) = self.under_way.peek().copied()
            && at <= now
        {
            self.under_way.pop();
            done.push(Done { id, at });
        }
    }
}
