//! Where the head of a drive is: predictors that tell where the next write of a log should go.
//!
//! A [`Head`] is told of each completed write and asked for the place of the next one. Everything here is
//! pure: no I/O, no clock; times come in as arguments. All sectors are of 512 bytes and counted from the
//! start of the drive.
//!
//! | predictor | needs |
//! | --- | --- |
//! | [`Sequential`] | nothing: the next sector, for flash |
//! | [`Formula`] | the map of the tracks, the time of a revolution, [`Deltas`] (Trail 3.1) |
//! | [`Mimic`] | the [`Table`] of a [`Profile`] |
//! | [`Online`] | nothing: it learns from each completed request |
//!
//! The predictors that only experiments compare are in `lab/head-study`, with the measurements of a drive.

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

/// A request that the drive has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When it was sent to the drive.
    pub sent: Nanos,
    /// When the drive said that it was done: on the medium, not in a cache.
    pub done: Nanos,
}

impl Access {
    /// The sector behind the last one.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.sectors)
    }
}

/// The answer of a predictor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First sector of the write.
    pub sector: u64,
    /// Time that the write is expected to take, from its sending to its end, when the predictor knows.
    pub response: Option<Nanos>,
}

/// A predictor of the head's position.
pub trait Head {
    /// Its name in reports and on the command line.
    fn name(&self) -> &'static str;

    /// A write is done. Called for each write of the log, in order of completion; requests are sent to the
    /// drive one at a time.
    fn written(&mut self, write: &Access);

    /// A read is done that was sent to move the head or to look where it is (Trail 3.1).
    fn read(&mut self, read: &Access);

    /// Where a write of `sectors` sectors that is sent at `now` should begin, within one of the free ranges
    /// `free`, which are in the order in which the log would use them; `None` when it fits into none.
    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place>;

    /// The sector of `track` (a track that the log will use next, free) to read at `now` so that the head
    /// moves there without waiting for the platter (Trail 3.1); `None` when moving it beforehand gains
    /// nothing.
    fn reposition(&mut self, now: Nanos, track: Span) -> Option<u64> {
        let _ = (now, track);
        None
    }

    /// Time without a request after which the prediction should be refreshed by a read; `None` for a
    /// predictor that needs none.
    fn stale_after(&self) -> Option<Nanos> {
        None
    }

    /// Bytes of memory that the prediction needs: tables and state.
    fn memory_bytes(&self) -> usize;
}
