//! Binary search for the youngest record (Trail 3.3): O(lg N) tracks are read.
//!
//! The key of a track is the highest number among its records of this epoch. In ring order from the start of the
//! epoch, keys grow up to the youngest record. After it are older keys, or none: a rotated sorted sequence.
//!
//! **Torn tail.** With a volatile cache, tracks written after the last flush may be there or not, in any
//! pattern: the predicate is not monotone there. Let `f` be the track of the last durable record. Up to `f` every
//! probe says "current lap". The search ends at neighbours `lo` (current) and `hi` (not), so `lo >= f` whatever
//! the tail looks like. The log start that a record on `lo` names is valid: tracks are reused only before the log
//! start of a *durable* record (invariant 2 of the crate).
//!
//! **Base.** A base in the torn tail that still holds the older lap would break the predicate: torn tracks
//! follow it *before* `f`. So the base is the younger of two opposite tracks. Of two tracks half a ring apart at
//! most one lies in the tail, which is at most a quarter of the ring. If that one holds the older lap, the other
//! one is younger. When neither has a key, nothing durable has been written in this epoch.

use tonearm_base::RecordSeq;

/// The search as a state machine. The caller reads the track that [`Search::probe`] names and reports its key with
/// [`Search::feed`].
#[derive(Debug)]
pub struct Search {
    tracks: u64,
    start: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Reads the track where the epoch started.
    Start,
    /// Reads the opposite track; the key of the first one is known.
    Opposite(Option<RecordSeq>),
    /// Narrows the range. At offset `low` from the base is the current lap, at offset `high` it is not.
    Narrow {
        base: u64,
        key: RecordSeq,
        low: u64,
        high: u64,
    },
    Done(Option<u64>),
}

impl Search {
    /// A search over `tracks` tracks for an epoch that started on track `start`.
    pub fn new(tracks: u64, start: u64) -> Self {
        Self {
            tracks,
            start,
            phase: Phase::Start,
        }
    }

    /// Index of the track to read next; `None` when the search has ended.
    pub fn probe(&self) -> Option<u64> {
        match self.phase {
            Phase::Start => Some(self.start),
            Phase::Opposite(_) => Some(self.opposite()),
            Phase::Narrow {
                base, low, high, ..
            } => Some((base + low.midpoint(high)) % self.tracks),
            Phase::Done(_) => None,
        }
    }

    /// Takes the key of the track that [`Search::probe`] named.
    pub fn feed(&mut self, found: Option<RecordSeq>) {
        self.phase = match &self.phase {
            Phase::Start => Phase::Opposite(found),
            Phase::Opposite(at_start) => {
                let base = if found > *at_start {
                    self.opposite()
                } else {
                    self.start
                };
                match found.max(*at_start) {
                    Some(key) => Phase::Narrow {
                        base,
                        key,
                        low: 0,
                        high: self.tracks,
                    },
                    None => Phase::Done(None),
                }
            }
            Phase::Narrow {
                base,
                key,
                low,
                high,
            } => {
                let middle = low.midpoint(*high);
                let current = found.is_some_and(|found| found >= *key);
                let (low, high) = if current {
                    (middle, *high)
                } else {
                    (*low, middle)
                };
                Phase::Narrow {
                    base: *base,
                    key: *key,
                    low,
                    high,
                }
            }
            Phase::Done(result) => Phase::Done(*result),
        };
        if let Phase::Narrow {
            base, low, high, ..
        } = self.phase
            && high - low == 1
        {
            self.phase = Phase::Done(Some((base + low) % self.tracks));
        }
    }

    /// The track with the youngest record; `None` when the medium has no record of the epoch.
    pub fn result(&self) -> Option<u64> {
        match self.phase {
            Phase::Done(result) => result,
            _ => None,
        }
    }

    fn opposite(&self) -> u64 {
        (self.start + self.tracks / 2) % self.tracks
    }
}
