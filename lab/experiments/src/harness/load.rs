//! Processes that write synchronously.

use crate::experiment::Random;
use tonearm_base::{BufPool, Nanos, Slice};

/// When a process writes again (Trail 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// As soon as its last write is done.
    Clustered,
    /// A random time between this time and twice it, after the last write is done.
    Sparse(Nanos),
}

/// Some processes, each with one write at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// How many processes.
    pub processes: u32,
    /// When they write.
    pub arrivals: Arrivals,
    /// Sectors of a write.
    pub sectors: u32,
    /// Writes of all processes together that are measured.
    pub writes: u64,
    /// Writes before those.
    pub warm_up: u64,
}

impl Arrivals {
    /// When the next write of a process comes, if its last one was done at `done`.
    pub fn after(self, done: Nanos, random: &mut Random) -> Nanos {
        match self {
            Self::Clustered => done,
            Self::Sparse(pause) => Nanos(done.0 + pause.0 + random.below(pause.0 + 1)),
        }
    }
}

/// The next write of each process.
pub struct Processes {
    arrivals: Vec<Nanos>,
}

impl Processes {
    /// All begin at `now`.
    pub fn new(count: u32, now: Nanos) -> Self {
        Self {
            arrivals: vec![now; count as usize],
        }
    }

    /// When the next write comes.
    ///
    /// # Panics
    /// When there are no processes.
    pub fn next(&self) -> Nanos {
        *self.arrivals.iter().min().expect("there are processes")
    }

    /// Those that wait at `now`, in order of arrival.
    pub fn waiting(&self, now: Nanos) -> Vec<(Nanos, usize)> {
        let arrivals = self.arrivals.iter().copied().zip(0..);
        let mut waiting: Vec<_> = arrivals.filter(|(at, _)| *at <= now).collect();
        waiting.sort_unstable();
        waiting
    }

    /// The next write of `process` comes at `at`.
    pub fn again(&mut self, process: usize, at: Nanos) {
        self.arrivals[process] = at;
    }
}

/// A block of 4 KiB whose first `changed` bytes have words that no block of another `number` has. The others are zeroes.
pub fn numbered_block(pool: &BufPool, number: u64, changed: usize) -> Slice {
    let word = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut buf = pool.alloc_zeroed(4096);
    for place in buf[..changed].chunks_exact_mut(8) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    buf.share()
}
