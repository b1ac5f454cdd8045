//! Binary search for the youngest record (Trail 3.3): O(lg N) tracks are read.
//!
//! The key of a track is the highest number among its records of this epoch. From the start of the epoch
//! on, in ring order, keys grow up to the youngest record, and after it are older ones (or none): a rotated
//! sorted sequence.
//!
//! **The trap of the ragged tail.** On a volatile cache, tracks written after the last flush may be there
//! or not, in any pattern: the predicate is not monotone there. Let `f` be the track of the last durable
//! record. Up to `f` every probe says "current lap"; the search ends at neighbours `lo` (current) and `hi`
//! (not), so `lo >= f` whatever the tail looks like. A record on `lo` names a log head that is good: tracks
//! are reused only beyond the head of a *durable* record (invariant 2 of the crate).
//!
//! **The trap of the base.** A base in the ragged tail that still holds the older lap is followed by torn
//! tracks *before* `f`, and the predicate breaks there. So the base is the younger of two opposite tracks:
//! of two tracks half a ring apart at most one lies in the tail (it is at most a quarter of the ring), and
//! if that one holds the older lap, the other one is younger. When neither has a key, nothing durable has
//! been written in this epoch.

use tonearm_base::RecordSeq;

/// The search as a state machine: ask for [`Search::probe`], answer with [`Search::feed`].
#[derive(Debug)]
pub struct Search {
    tracks: u64,
    start: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Looking at the track where the epoch started.
    Start,
    /// Looking at the opposite track; the key of the start is known.
    Opposite(Option<RecordSeq>),
    /// Offsets from the base: `low` is of the current lap, `high` is not.
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

    /// Tells the key of the track that was asked for.
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

    /// The youngest track that was found; `None` when the epoch has written nothing that is left.
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
