//! The state that an array needs at its next opening, and its errors.

use super::geometry::Stripes;
use crate::events::StoreEvent;
use std::future::Future;
use std::pin::Pin;
use tonearm_format::ArrayLevel;
use tonearm_rt::IoError;

/// Error of an operation on an array that has lost two members (`ENODEV`). [`RaidError::Lost`] names them.
pub const ARRAY_LOST: IoError = IoError { errno: 19 };

/// True for an error by which a member refuses an operation (no space, a quota, not that operation) and stays in use. The
/// medium has not failed.
pub(super) fn is_refusal(error: IoError) -> bool {
    error.is_no_space() || [IoError::EOPNOTSUPP, IoError::EINVAL].contains(&error)
}

/// True for an error by which a drive reports that it cannot read a place: an I/O error, or one that Linux gives for an
/// unreadable medium, a wrong checksum or a time limit.
pub(super) fn is_of_medium(error: IoError) -> bool {
    const ENODATA: i32 = 61;
    const EILSEQ: i32 = 84;
    const ETIMEDOUT: i32 = 110;
    const EREMOTEIO: i32 = 121;
    error == IoError::EIO || [ENODATA, EILSEQ, ETIMEDOUT, EREMOTEIO].contains(&error.errno)
}

/// A member that does not, or not yet, have the array's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Its index.
    pub member: usize,
    /// Number of stripes, from the first on, that a rebuild has restored; more than 0 only with a replacement.
    pub rebuilt_rows: u64,
}

/// The state of a RAID-5 array, which its user keeps. The array reports changes to a [`StateSink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Raid5State {
    /// The array was closed in order ([`super::Raid5::close`]). Otherwise parity and data may differ wherever a write was
    /// under way.
    pub clean: bool,
    /// The member that has failed, if any.
    pub missing: Option<Missing>,
}

impl Raid5State {
    /// The state of an opening with the members that are there, which have these `names`.
    ///
    /// # Errors
    /// When two members are gone, or the state names one that there cannot be.
    pub(super) fn at_opening(
        mut self,
        is_there: &[bool],
        names: &[String],
    ) -> Result<Self, RaidError> {
        if let Some(missing) = &mut self.missing {
            match is_there.get(missing.member) {
                Some(true) => {}
                Some(false) => missing.rebuilt_rows = 0,
                None => {
                    let why = format!("its state names member {}", missing.member);
                    return Err(RaidError::Shape(why));
                }
            }
        }
        for member in (0..is_there.len()).filter(|index| !is_there[*index]) {
            let missing = *self.missing.get_or_insert(Missing {
                member,
                rebuilt_rows: 0,
            });
            if missing.member != member {
                return Err(RaidError::Lost {
                    first: names[missing.member].clone(),
                    second: names[member].clone(),
                    error: IoError::EIO,
                });
            }
        }
        Ok(self)
    }
}

/// A save in progress. It ends with the members on which it could not be saved, each with its error. If there are any, nothing is
/// saved.
pub type Saving = Pin<Box<dyn Future<Output = Result<Vec<(usize, IoError)>, IoError>>>>;

/// Where the state is kept.
pub trait StateSink {
    /// Makes `state` durable. A write that depends on the state (a member has failed, the array is in use) ends after the
    /// save. Saves do not overlap. `present` says of each member whether the array uses it: a sink that keeps a part of
    /// the state on the members writes to these alone. A member on which it cannot be saved counts as failed, and the array saves
    /// again, with a state that names it.
    fn save(&self, state: Raid5State, present: &[bool]) -> Saving;

    /// Something has happened to a member, or to the array. It may not be saved yet.
    fn note(&self, event: StoreEvent) {
        drop(event);
    }
}

/// Why an array cannot be opened, used or rebuilt.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RaidError {
    /// The members do not make an array.
    #[error("these members do not form an array: {0}")]
    Shape(String),
    /// Two members are gone.
    #[error(
        "the array has lost {second} ({error}) after {first}: the data of both cannot be recovered; \
         restore from a backup, or start it again with a member that is still readable"
    )]
    Lost {
        /// The member that was lost first.
        first: String,
        /// The second.
        second: String,
        /// Error of the second one.
        error: IoError,
    },
    /// A member has failed after a crash, before the parity was corrected.
    #[error(
        "{member} has failed ({error}) after a crash, before the parity was corrected; connect it again, and open the store \
         again: then nothing is lost. If it is lost for good, --degraded opens the store without it: its blocks beside \
         those that were being written at the crash, also old ones, may be lost then"
    )]
    Unrecovered {
        /// Its name.
        member: String,
        /// Its error.
        error: IoError,
    },
    /// A stripe cannot be reconstructed.
    #[error(
        "stripe {row} cannot be reconstructed: {member} at byte {offset} ({error}), and another member \
         is missing or unreadable there"
    )]
    Unreadable {
        /// The stripe.
        row: u64,
        /// The member that failed.
        member: String,
        /// First byte on it.
        offset: u64,
        /// Its error.
        error: IoError,
    },
    /// A replacement cannot be used.
    #[error("{member} cannot replace the missing member: {why}")]
    Replacement {
        /// Its name.
        member: String,
        /// The reason.
        why: String,
    },
    /// There is nothing to rebuild on.
    #[error(
        "{member} is missing, and no replacement is in its place; use `tonearm member replace` first"
    )]
    NoReplacement {
        /// The missing member.
        member: String,
    },
    /// The rebuild is done, but for these places.
    #[error(
        "all stripes are rebuilt, but {count} places could not be read and are lost, each with what it was to restore: \
         {places}; `tonearm scrub` finds the blocks that are damaged by it"
    )]
    RebuiltInPart {
        /// Their number.
        count: u64,
        /// Stripe, member and byte of the first of them.
        places: String,
    },
    /// Another rebuild is running.
    #[error("a rebuild is running already; `tonearm member list` shows how far it is")]
    RebuildRunning,
    /// The rebuild was ended before it was done.
    #[error(
        "the rebuild was stopped after {done} of {rows} stripes; start it again to go on from there"
    )]
    RebuildStopped {
        /// Stripes that are restored.
        done: u64,
        /// Stripes of the array.
        rows: u64,
    },
    /// The replacement failed in the rebuild.
    #[error("rebuild: {member} failed ({error}); replace it again")]
    RebuildFailed {
        /// Its name.
        member: String,
        /// Its error.
        error: IoError,
    },
    /// The replacement refused a write in the rebuild.
    #[error(
        "rebuild: {member} refused a write ({error}); free space there and start the rebuild again, which goes on \
         from there"
    )]
    RebuildRefused {
        /// Its name.
        member: String,
        /// Its error.
        error: IoError,
    },
    /// The device for parity records failed.
    #[error("parity records on {member}: {error}")]
    Journal {
        /// Its name.
        member: String,
        /// Its error.
        error: IoError,
    },
    /// A parity record of a degraded array cannot be read after a crash.
    #[error(
        "the parity record on {member} at byte {offset} cannot be read ({error}): after a crash the array needs it to \
         compute the blocks of the missing member in a stripe that was being written"
    )]
    RecordUnreadable {
        /// The device of the records.
        member: String,
        /// First byte of the record on it.
        offset: u64,
        /// Its error.
        error: IoError,
    },
    /// The state could not be saved, or an operation of the array failed.
    #[error("array {array}: {error}")]
    Array {
        /// Its name.
        array: String,
        /// The cause.
        error: IoError,
    },
}

impl RaidError {
    /// The error of an operation that fails for this reason.
    pub fn io_error(&self) -> IoError {
        match self {
            Self::Lost { .. } | Self::Unrecovered { .. } => ARRAY_LOST,
            Self::Unreadable { error, .. }
            | Self::RebuildRefused { error, .. }
            | Self::RebuildFailed { error, .. }
            | Self::Journal { error, .. }
            | Self::RecordUnreadable { error, .. }
            | Self::Array { error, .. } => *error,
            Self::Shape(_)
            | Self::Replacement { .. }
            | Self::NoReplacement { .. }
            | Self::RebuiltInPart { .. }
            | Self::RebuildRunning
            | Self::RebuildStopped { .. } => IoError::EIO,
        }
    }
}

/// Counters of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RaidStats {
    /// Updates of whole stripes, without reads.
    pub full_writes: u64,
    /// Updates that read the old data and parity.
    pub read_modify_writes: u64,
    /// Updates that read the data that they leave unchanged.
    pub reconstruct_writes: u64,
    /// Requests that shared the update of their stripe with another request.
    pub coalesced: u64,
    /// Ranges computed from all other members, because their member was missing or unreadable.
    pub reconstructed: u64,
    /// Unreadable or rotten ranges that were rewritten.
    pub repaired: u64,
    /// Unreadable sectors that were overwritten with zeroes, because the array could not compute them either.
    pub given_up: u64,
    /// Parity records written.
    pub records: u64,
    /// Updates of a degraded stripe without a parity record, because there is no device for records.
    pub unprotected: u64,
    /// Ranges whose parity was corrected, after a crash or by a scrub.
    pub parity_fixed: u64,
}

/// What an array does with a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It has the array's data.
    InUse,
    /// It is not there, or has failed, or its content is old.
    Missing,
    /// It is a replacement, and has the data of this number of stripes, from the first one on.
    Rebuilding {
        /// Stripes that are restored.
        rebuilt_rows: u64,
    },
}

/// Why a member is not in use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// It is not there, or cannot be used.
    #[error("{0}")]
    Missing(String),
    /// It is there, and its content is of an earlier moment.
    #[error("it is stale: {0}")]
    Stale(String),
    /// An operation on it has failed while the array was in use.
    #[error("it has failed while in use: {0}")]
    Failed(IoError),
}

/// A member of an array, for those who look after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its path.
    pub name: String,
    /// What the array does with it.
    pub state: MemberState,
    /// Why it is not in use.
    pub trouble: Option<Trouble>,
}

/// An array, for those who look after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayStatus {
    /// How it spreads its content.
    pub level: ArrayLevel,
    /// Its division into stripes.
    pub stripes: Stripes,
    /// Bytes that a file or device needs to be a member.
    pub member_bytes: u64,
    /// The members in their order.
    pub members: Vec<MemberStatus>,
    /// Counters.
    pub stats: RaidStats,
    /// Set once more members have failed than the array can do without ([`RaidError::Lost`], [`RaidError::Unrecovered`]).
    pub lost: Option<RaidError>,
}

impl ArrayStatus {
    /// True while a member does not have all of the array's data.
    pub fn is_degraded(&self) -> bool {
        let in_use = |member: &MemberStatus| member.state == MemberState::InUse;
        !self.members.iter().all(in_use)
    }
}
