//! What the simulated world asks of a model: when is each request done?

use tonearm_base::Nanos;

/// What a request does.
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
    /// The caller's name for it.
    pub id: u64,
    /// What it does.
    pub kind: Kind,
    /// A write that is done only when it is on the medium (force unit access).
    pub fua: bool,
    /// First sector; 0 for a flush.
    pub lba: u64,
    /// How many; 0 for a flush.
    pub sectors: u32,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The caller's name for it.
    pub id: u64,
    /// When it was done.
    pub at: Nanos,
}

/// A model that gives times. Pure: time comes in as an argument and never goes back.
pub trait Timing {
    /// Takes a request at `now`, which is not before any earlier call's.
    fn submit(&mut self, now: Nanos, request: DriveRequest);

    /// When something next happens inside, if anything ever does without a further request.
    fn next(&self) -> Option<Nanos>;

    /// Lets everything happen up to and including `now`; appends what is done, in order of time.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>);
}
