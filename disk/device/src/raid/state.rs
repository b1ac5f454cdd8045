//! What an array must know when it is opened again, and what can go wrong with it.

use std::future::Future;
use std::pin::Pin;
use tonearm_rt::IoError;

/// Error of an operation on an array that has lost two members (`ENODEV`); [`RaidError::Lost`] tells which.
pub const ARRAY_LOST: IoError = IoError { errno: 19 };

/// A member without, or not yet with, the array's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Which.
    pub member: usize,
    /// Stripes from the first on that a rebuild has brought back; more than 0 only with a replacement.
    pub rebuilt_rows: u64,
}

/// The state of a RAID-5 array, kept outside of it. The array says when it changes ([`StateSink`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Raid5State {
    /// The array was closed in order ([`super::Raid5::close`]). Else parity and data may differ wherever
    /// a write was under way.
    pub clean: bool,
    /// The member that has failed, if any.
    pub missing: Option<Missing>,
}

/// A save under way.
pub type Saving = Pin<Box<dyn Future<Output = Result<(), IoError>>>>;

/// Where the state is kept.
pub trait StateSink {
    /// Makes `state` durable. A write that depends on it (a member has failed, the array is in use) does
    /// not end before this has; saves do not overlap.
    fn save(&self, state: Raid5State) -> Saving;
}

/// Why an array cannot be opened, used or rebuilt.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RaidError {
    /// The members do not make an array.
    #[error("this is no array: {0}")]
    Shape(String),
    /// Two members are gone.
    #[error(
        "the array has lost {second} ({error}) after {first}: what was on both cannot be told any more; \
         restore from a backup, or start it again with a member that is still readable"
    )]
    Lost {
        /// The member that was lost first.
        first: String,
        /// The second.
        second: String,
        /// What the second one told.
        error: IoError,
    },
    /// A stripe cannot be made whole.
    #[error(
        "stripe {row} cannot be made whole: {member} at byte {offset} ({error}), and another member \
         is missing or unreadable there"
    )]
    Unreadable {
        /// Which stripe.
        row: u64,
        /// The member that failed.
        member: String,
        /// First byte on it.
        offset: u64,
        /// What it told.
        error: IoError,
    },
    /// A replacement cannot be used.
    #[error("{member} cannot replace the missing member: {why}")]
    Replacement {
        /// Its name.
        member: String,
        /// Why not.
        why: String,
    },
    /// The replacement failed in the rebuild.
    #[error("rebuild: {member} failed ({error}); replace it again")]
    RebuildFailed {
        /// Its name.
        member: String,
        /// What it told.
        error: IoError,
    },
    /// The device for parity records failed.
    #[error("parity records on {member}: {error}")]
    Journal {
        /// Its name.
        member: String,
        /// What it told.
        error: IoError,
    },
    /// The state could not be saved, or an operation of the array failed.
    #[error("array {array}: {error}")]
    Array {
        /// Its name.
        array: String,
        /// What went wrong.
        error: IoError,
    },
}

/// What an array has done. Counts only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RaidStats {
    /// Updates of whole stripes, without reading.
    pub full_writes: u64,
    /// Updates that read the old data and parity.
    pub read_modify_writes: u64,
    /// Updates that read what they leave alone.
    pub reconstruct_writes: u64,
    /// Requests that went with another one's update of the same stripe.
    pub coalesced: u64,
    /// Ranges computed from all other members, since theirs was missing or unreadable.
    pub reconstructed: u64,
    /// Unreadable ranges that were written again.
    pub repaired: u64,
    /// Parity records written.
    pub records: u64,
    /// Updates of a degraded stripe without a parity record: there is no device for them.
    pub unprotected: u64,
    /// Ranges whose parity was made right after a crash or by a resync.
    pub parity_fixed: u64,
}
