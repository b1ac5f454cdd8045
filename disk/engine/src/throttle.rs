//! Gradual back-pressure. Each round of write-back frees memory and log at once, and a round that has to clean first
//! takes ten times as long as others. If writers were admitted until memory or log are used up, all of them would then
//! wait for such a round. Instead, once memory or log are short, writes are delayed to the pace at which blocks have
//! gone home of late: from twice this pace, when they have just become short, to two thirds of it, when nothing is
//! left.

use std::cell::Cell;
use tonearm_base::Nanos;

/// Shorter delays are carried over to the next write: they are not worth a timer.
const LEAST: Nanos = Nanos::from_millis(1);
/// Longest delay. Beyond it writers wait for memory and log, which have queues of their own.
pub(crate) const MOST: Nanos = Nanos::from_secs(1);
/// Rounds over which the pace is averaged.
const ROUNDS: u64 = 32;
/// Writes over which the strain is averaged: the use of tracks and memory moves in steps.
const WRITES: u64 = 256;
/// Strain at which nothing is left.
pub(crate) const FULL: u64 = 1024;

#[derive(Default)]
pub(crate) struct Throttle {
    /// The time that the last rounds took, and the bytes that they brought home; both decay.
    took: Cell<u64>,
    bytes: Cell<u64>,
    /// Average strain of the last writes, in parts of [`WRITES`] * [`FULL`].
    strain: Cell<u64>,
    /// When the next write may go on.
    turn: Cell<Nanos>,
}

/// How much of what lies between `from`, from which on it is short, and `end` is used, in parts of [`FULL`].
pub(crate) fn strain(used: u64, from: u64, end: u64) -> u64 {
    let all = end.saturating_sub(from).max(1);
    used.saturating_sub(from).min(all) * FULL / all
}

impl Throttle {
    /// A round has brought `bytes` home.
    pub fn drained(&self, took: Nanos, bytes: u64) {
        let mean = |sum: &Cell<u64>, new: u64| sum.set(sum.get() - sum.get() / ROUNDS + new);
        mean(&self.took, took.0);
        mean(&self.bytes, bytes);
    }

    /// How long a write of `bytes` is delayed.
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
