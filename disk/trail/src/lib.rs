//! Trail: the log (Chiueh and Huang, "Track-Based Disk Logging"). A write is durable as soon as it is here.
//!
//! Policy is plain (ring, packing, durability, release, search, decision table); orchestration is a
//! writer and a flusher task ([`Trail`]) and the reader that recovery pulls commits from ([`Replay`]).
//!
//! Invariants:
//! 1. Records are numbered consecutively and written in order; `appended >= flushed >= durable`.
//! 2. Tracks are used strictly in turn. A track is opened only when a *durable* record names a log head
//!    beyond everything that the track still holds: whatever durable record recovery starts from, the
//!    tracks between its log head and itself are whole.
//! 3. At most [`unflushed_tracks_max`] tracks are written beyond the last durable record: the ragged
//!    tail that a power cut can leave is bounded.
//! 4. The last sector of each track is kept for a record without entries, so that a new log head can be
//!    made durable even when no other track is free.

mod decide;
mod durability;
mod error;
mod geometry;
mod log;
mod pack;
mod release;
mod replay;
mod ring;
mod scan;
mod search;

pub use decide::{Case, Finding, decide};
pub use durability::Durability;
pub use error::TrailError;
pub use geometry::{GeometryError, LogGeometry, LogTracks, sheet_run, track_lengths};
pub use log::{Admission, Trail, TrailOptions, TrailStart, TrailStats, WriteCache};
pub use pack::{Change, RecordPlace, Word, patch_slots};
pub use release::Releases;
pub use replay::{GivenUp, RecoveredChange, RecoveredCommit, RecoveredTail, Replay, ReplayStats};
pub use ring::Ring;
pub use scan::{FoundRecord, scan_track};
pub use search::Search;

/// Most tracks written beyond the last durable record (invariant 3), for a log of `tracks` tracks.
pub const fn unflushed_tracks_max(tracks: u64) -> u64 {
    let quarter = tracks / 4;
    if quarter > 16 { 16 } else { quarter }
}

#[cfg(test)]
mod tests;
