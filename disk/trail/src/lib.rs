//! Trail: the log (Chiueh and Huang, "Track-Based Disk Logging"). A write that is durable in the log is durable.
//!
//! Policy is plain code without I/O: the ring of tracks, packing, durability, retained commits, the writer's plan,
//! the search for the youngest record, the decision table. Two tasks write and flush ([`Trail`]), and a reader
//! returns the commits at recovery ([`Replay`]).
//!
//! Invariants:
//! 1. Records are numbered consecutively and written in order; `appended >= flushed >= durable`.
//! 2. Tracks are used strictly in turn. A track is opened only when a *durable* record names a log start beyond
//!    everything that the track still holds. So the tracks from the log start of any durable record up to that
//!    record are whole.
//! 3. At most `unflushed_tracks_max` tracks are written beyond the last durable record. This bounds the torn
//!    tail that a power cut can leave.
//! 4. The last sector of each track is kept for a record without entries, so that a new log start can become
//!    durable even when no other track is free.

mod decide;
mod error;
mod geometry;
mod log;
mod pack;
mod replay;
mod ring;
mod scan;
mod search;
mod streams;

pub use decide::Case;
pub use error::TrailError;
pub use geometry::{GeometryError, LogGeometry, LogTracks, sheet_run, track_lengths};
pub use log::cause::{FlushCause, FlushCounts};
pub use log::{Admission, IndirectSink, Trail, TrailOptions, TrailStart, TrailStats, WriteCache};
pub use pack::{Change, IndirectBlock, RecordPlace, Word, patch_slots};
pub use replay::{
    GivenUp, History, HistoryError, RecoveredChange, RecoveredCommit, RecoveredTail, Replay,
    ReplayStats,
};
pub use scan::{FoundRecord, scan_track};
pub use search::Search;

/// Most tracks written beyond the last durable record (invariant 3), for a log of `tracks` tracks.
const fn unflushed_tracks_max(tracks: u64) -> u64 {
    let quarter = tracks / 4;
    if quarter > 16 { 16 } else { quarter }
}

#[cfg(test)]
mod tests;
