//! The interface of a timing model: it says when each request is done.

use tonearm_base::Nanos;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads sectors.
    Read,
    /// Writes sectors.
    Write,
    /// Empties the volatile write cache.
    Flush,
}

/// A request, in sectors of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveRequest {
    /// The caller's number for it.
    pub id: u64,
    /// The operation.
    pub kind: Kind,
    /// True for a write that is done only when it is on the medium (FUA).
    pub fua: bool,
    /// First sector; 0 for a flush.
    pub lba: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The caller's number for it.
    pub id: u64,
    /// When it was done.
    pub at: Nanos,
}

/// A timing model. It is pure: time is an argument and never goes back.
pub trait Timing {
    /// Takes a request at `now`. `now` never decreases from call to call.
    fn submit(&mut self, now: Nanos, request: DriveRequest);

    /// Time of the next event inside the model; `None` if nothing happens without a further request.
    fn next(&self) -> Option<Nanos>;

    /// Processes all events up to and including `now`. Appends the requests that are done, in order of time.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>);
}
