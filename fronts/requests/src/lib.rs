//! What clients of a block device have asked for: counters, latencies, and recordings for traces. NBD and the disks of virtual machines
//! are counted alike.
//!
//! All is for the engine's thread, which also exports it.

#![forbid(unsafe_code)]

mod counters;
mod recording;

pub use counters::{CommandCounters, CommandKind, Counters, Latency, RequestMetrics};
pub use recording::{REQUESTS_MAX, Recorded, RecordedRequest, Recorder};

use tonearm_base::Nanos;

/// A request that has its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Its kind.
    pub kind: CommandKind,
    /// First byte of its range; 0 for a flush.
    pub offset: u64,
    /// Length of its range in bytes; 0 for a flush.
    pub bytes: u64,
    /// It was answered when its change was durable.
    pub fua: bool,
    /// The answer was an error.
    pub failed: bool,
    /// When it came.
    pub arrived: Nanos,
}
