//! The search for delta (Trail 3.1): after a reference request, single-sector requests at growing distances, until one
//! does not wait for a whole revolution.

use tonearm_base::Nanos;
use tonearm_head::{Access, Delta, Track};

/// The operation of a request of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A request to be sent at once after the previous one, or a few microseconds later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeltaTrial {
    /// The operation.
    pub kind: AccessKind,
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u32,
}

/// A search for one delta. Reference requests and trials alternate. The caller sends each as soon as the previous one
/// is done. The caller's delay becomes part of delta, so it should be much less than a sector.
#[derive(Clone, Debug)]
pub struct DeltaSearch {
    tracks: Vec<Track>,
    turn: Nanos,
    before: AccessKind,
    of: AccessKind,
    tries: u32,
    /// The distance that is being tried, in sectors.
    delta: u32,
    hits: u32,
    /// Total time by which these were shorter than expected from their distance.
    shorter_ns: i64,
    /// Reference requests so far.
    round: usize,
    /// Where and when the reference request ended; `None` when a reference request is due.
    reference: Option<(u64, Nanos)>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Searching,
    Found,
    Failed,
}

impl DeltaSearch {
    /// A search for the delta of a request of kind `of` after one of kind `before`. It uses `tracks` in turn, all of
    /// one zone. For reads there should be many, in descending order, so that none comes from the drive's buffer, into
    /// which the drive reads ahead. A distance is found when `tries` trials with it hit.
    ///
    /// # Panics
    /// Without a track, or with tracks of fewer than two sectors or of different numbers in a revolution.
    pub fn new(
        tracks: Vec<Track>,
        turn: Nanos,
        before: AccessKind,
        of: AccessKind,
        tries: u32,
    ) -> Self {
        let shape = tracks.first().map(|track| track.turn_sectors);
        assert!(shape.is_some(), "a search needs a track");
        assert!(
            tracks.iter().all(|track| track.sectors >= 2),
            "a track of a search has room for two requests"
        );
        assert!(
            tracks.iter().all(|track| Some(track.turn_sectors) == shape),
            "the tracks of a search are of one zone"
        );
        Self {
            tracks,
            turn,
            before,
            of,
            tries: tries.max(1),
            delta: 0,
            hits: 0,
            shorter_ns: 0,
            round: 0,
            reference: None,
            state: State::Searching,
        }
    }

    /// The next request; `None` at the end of the search. It stays the same until it is [done](Self::done).
    pub fn trial(&self) -> Option<DeltaTrial> {
        if self.state != State::Searching {
            return None;
        }
        let (kind, first) = match self.reference {
            Some((end, _)) => (self.of, end + u64::from(self.delta)),
            None => {
                let track = self.track();
                // Another place each time, with space for the trial after it.
                let room = u64::from(track.sectors - 1 - self.delta);
                (self.before, track.first + (self.round as u64 * 7) % room)
            }
        };
        Some(DeltaTrial {
            kind,
            first,
            sectors: 1,
        })
    }

    /// The request of [`Self::trial`] is done.
    pub fn done(&mut self, access: &Access) {
        if self.state != State::Searching {
            return;
        }
        let Some((_, before)) = self.reference.take() else {
            self.reference = Some((access.end(), access.done));
            return;
        };
        self.round += 1;
        // From end to end the platter turns by the distance and the sector itself, and by one more revolution after a
        // miss. A threshold of half a revolution distinguishes the two, whatever the two kinds of requests take after
        // their sectors.
        let turn_sectors = u64::from(self.track().turn_sectors);
        let way = self.turn.0 * u64::from(self.delta + 1) / turn_sectors;
        let turned = access.done.since(before).0;
        if turned < way + self.turn.0 / 2 {
            self.hits += 1;
            self.shorter_ns += way as i64 - turned as i64;
            if self.hits == self.tries {
                self.state = State::Found;
            }
            return;
        }
        (self.hits, self.shorter_ns) = (0, 0);
        self.delta += 1;
        if self
            .tracks
            .iter()
            .any(|track| self.delta + 2 > track.sectors)
        {
            self.state = State::Failed;
        }
    }

    /// The smallest distance without the wait for a revolution; `None` during the search, and when there is no such
    /// distance on a track.
    pub fn found(&self) -> Option<Delta> {
        (self.state == State::Found).then_some(Delta {
            sectors: self.delta,
            turn_sectors: self.track().turn_sectors,
        })
    }

    /// By how much longer a request of kind `before` takes from its last sector to its end than one of kind
    /// `of`, in nanoseconds.
    pub fn lag_ns(&self) -> Option<i64> {
        (self.state == State::Found).then(|| self.shorter_ns / i64::from(self.hits))
    }

    fn track(&self) -> &Track {
        &self.tracks[self.round % self.tracks.len()]
    }
}

#[cfg(test)]
#[path = "delta_search_test.rs"]
mod delta_search_test;
