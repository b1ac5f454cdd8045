//! Back-pressure by degrees. Memory and log become free in lumps, a round of the write-back at a time, of which one in a
//! few has to clean first and takes ten times as long. Were writers let in until either is used up, all of them
//! would then wait for such a round. So from where memory or log press on, each write waits for its turn, and turns
//! come at the pace at which blocks have gone home of late: slower the nearer the end is, faster the farther. Half way
//! writers are as fast as the write-back.

use std::cell::Cell;
use tonearm_base::Nanos;

/// Shorter waits are put off until they are worth a timer.
const LEAST: Nanos = Nanos::from_millis(1);
/// Longer waits are left to memory and log, which have queues of their own.
pub(crate) const MOST: Nanos = Nanos::from_secs(1);
/// Rounds over which the pace is a mean.
const ROUNDS: u64 = 32;
/// Writes over which the strain is a mean: tracks and rounds are steps.
const WRITES: u64 = 256;
/// Strain at which nothing is left.
pub(crate) const FULL: u64 = 1024;

#[derive(Default)]
pub(crate) struct Throttle {
    /// What the last rounds have taken, and the bytes that went home, both decaying.
    took: Cell<u64>,
    bytes: Cell<u64>,
    /// Mean of the strain over the last writes, in parts of [`WRITES`] * [`FULL`].
    strain: Cell<u64>,
    /// When the next turn comes.
    turn: Cell<Nanos>,
}

/// How much of what is between `from`, where it begins to press, and `end` is used, in parts of [`FULL`].
pub(crate) fn strain(used: u64, from: u64, end: u64) -> u64 {
    let room = end.saturating_sub(from).max(1);
    used.saturating_sub(from).min(room) * FULL / room
}

impl Throttle {
    /// A round of the write-back has taken `bytes` home.
    pub fn drained(&self, took: Nanos, bytes: u64) {
        let mean = |sum: &Cell<u64>, new: u64| sum.set(sum.get() - sum.get() / ROUNDS + new);
        mean(&self.took, took.0);
        mean(&self.bytes, bytes);
    }

    /// How long a write of `bytes` waits for its turn.
    pub fn wait(&self, now: Nanos, bytes: u64, strain: u64) -> Nanos {
        let mean = self.strain.get();
        self.strain.set(mean - mean / WRITES + strain);
        let strain = mean / WRITES;
        if strain == 0 || self.bytes.get() == 0 {
            return Nanos(0);
        }
        let turn = Nanos(self.turn.get().0.max(now.0));
        let at_pace =
            u128::from(bytes) * u128::from(self.took.get()) / u128::from(self.bytes.get());
        let cost = at_pace * u128::from(FULL / 2 + strain) / u128::from(FULL);
        let wait = turn.since(now);
        if wait.0 < MOST.0 {
            self.turn.set(turn + cost.min(u128::from(MOST.0)) as u64);
        }
        match wait.0 < LEAST.0 {
            true => Nanos(0),
            false => Nanos(wait.0.min(MOST.0)),
        }
    }
}
