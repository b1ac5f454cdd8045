//! Predictors of the position of a drive's head, which choose the place of a log's next write.
//!
//! The log reports each completed write to a [`Head`] and asks it for the place of the next one. All code here is pure:
//! no I/O and no clock; times are arguments. All sectors have 512 bytes and are counted from the start of the drive.
//!
//! | predictor | needs |
//! | --- | --- |
//! | [`Sequential`] | no data: the next sector, for flash |
//! | [`Formula`] | the map of the tracks, the time of a revolution, [`Deltas`] (Trail 3.1) |
//! | [`Mimic`] | the [`Table`] of a [`Profile`] |
//! | [`Online`] | no data: it learns from each completed request |
//!
//! The predictors that only experiments compare are in `lab/head-study`, as are the measurements of drives.

mod formula;
mod mimic;
mod online;
mod profile;
mod sequential;
mod span;
mod table;
#[cfg(test)]
mod testing;
mod track;

pub use formula::{Delta, Deltas, Formula};
pub use mimic::{Mimic, SkipModel};
pub use online::{Online, OnlineStatus};
pub use profile::{Cell, Grid, Profile, ProfileError, Steps};
pub use sequential::Sequential;
pub use span::{Span, first_fit};
pub use table::Table;
pub use track::{Track, TrackMap, TrackMapError, TrackRun};

use tonearm_base::Nanos;

/// Tracks of the log among which refreshing reads take turns: more than the segments of a drive's buffer, which would answer a
/// repeated read.
const REFRESHED: u64 = 32;

/// Without a request for this long a prediction is too old (Trail 3.1): the drift is one or two sectors.
const STALE: Nanos = Nanos::from_secs(2);

/// A request that the drive has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When it was sent to the drive.
    pub sent: Nanos,
    /// When the drive reported it done: on the medium, not in a cache.
    pub done: Nanos,
}

impl Access {
    /// The sector after the last one.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }
}

/// The answer of a predictor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First sector of the write.
    pub sector: u64,
    /// Time that the write is expected to take from its sending to its end, if the predictor knows it.
    pub response: Option<Nanos>,
}

/// Where the read number `reads` that refreshes a prediction goes: how many tracks after the next one, and the sector of that
/// track. The drive reads on after a read, so each one goes to an earlier track than the one before.
pub fn refresh_place(reads: u64) -> (u64, u64) {
    (REFRESHED - 1 - reads % REFRESHED, reads / REFRESHED % 7)
}

/// A predictor of the head's position.
pub trait Head {
    /// Its name in reports and on the command line.
    fn name(&self) -> &'static str;

    /// Notes a completed write. Called for each write of the log, in order of completion. The log sends one request to
    /// the drive at a time.
    fn written(&mut self, write: &Access);

    /// Notes a completed read that was sent to move the head or to find its position (Trail 3.1). False when the drive has
    /// answered from its buffer, so that the read shows nothing and has not moved the head.
    fn read(&mut self, read: &Access) -> bool;

    /// Where a write of `sectors` sectors that is sent at `now` should begin, within one of the free ranges
    /// `free`, which are in the order in which the log would use them; `None` when it fits into none.
    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place>;

    /// The sector of `track` (a free track that the log will use next) to read at `now`, so that the head moves there
    /// without waiting for the platter (Trail 3.1); `None` if the move gains no time.
    fn reposition(&mut self, now: Nanos, track: Span) -> Option<u64> {
        let _ = (now, track);
        None
    }

    /// Time without a request after which a read should refresh the prediction; `None` for a predictor that needs no
    /// refresh.
    fn stale_after(&self) -> Option<Nanos> {
        None
    }

    /// Bytes of memory that the prediction needs: tables and state.
    fn memory_bytes(&self) -> usize;
}
