//! Errors of a store.

use tonearm_base::Lsn;
use tonearm_device::raid::RaidError;
use tonearm_format::FormatError;
use tonearm_layout::{HomeError, PlanError};
use tonearm_rt::IoError;
use tonearm_trail::TrailError;

/// An error of the store; each message says what, where, and what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// A member has no usable superblock.
    #[error("{member} is not a member of a Tonearm store: {cause}")]
    NotAStore {
        /// Its path.
        member: String,
        /// What is there instead.
        cause: FormatError,
    },
    /// A member has superblocks, all damaged.
    #[error(
        "{member}: all {copies} copies of the superblock are damaged ({cause}); restore the member from a backup"
    )]
    SuperblockLost {
        /// Its path.
        member: String,
        /// Copies looked at.
        copies: u64,
        /// Why the last one was refused.
        cause: FormatError,
    },
    /// No copy of a member's superblock is valid, and some cannot be read.
    #[error(
        "no copy of the superblock can be used: {}; restore the member from a backup, or try the drive in another place",
        list(slots)
    )]
    SuperblocksUnreadable {
        /// Path of the member.
        member: String,
        /// Those that cannot be read; the others are damaged.
        slots: Vec<UnreadableSlot>,
    },
    /// The superblock that would have to be written is not valid.
    #[error(
        "{member}: the store cannot be opened for writing: {cause}; copy its volumes to a new store"
    )]
    SuperblockRefused {
        /// Path of the member with the log.
        member: String,
        /// The rule that it breaks.
        cause: FormatError,
    },
    /// A restore has not completed the store.
    #[error(
        "{member} is no store yet: a restore has not written all of its content; run the same `tonearm restore` again to go \
         on, or remove it"
    )]
    Incomplete {
        /// Path of the primary member.
        member: String,
    },
    /// The members do not belong together.
    #[error("{member}: {why}")]
    WrongMember {
        /// Path of the member.
        member: String,
        /// What does not fit and what to do.
        why: String,
    },
    /// The member is shorter than the store made it.
    #[error(
        "{member} is truncated: it has {found} bytes, the store needs {needed}; restore it from a backup or \
         give it back its size if only the end was cut off"
    )]
    Truncated {
        /// Path of the member.
        member: String,
        /// Bytes that it has.
        found: u64,
        /// Bytes that it must have.
        needed: u64,
    },
    /// The members or sizes asked for at creation do not work.
    #[error("{0}")]
    Create(String),
    /// A superblock could not be read or written.
    #[error("{member}: {what} of the superblock failed: {error}")]
    Superblock {
        /// Path of the member.
        member: String,
        /// The operation.
        what: &'static str,
        /// The cause.
        error: IoError,
    },
    /// Space that must read as zeroes could not be cleared.
    #[error("{member}: clearing the space of the store failed: {error}")]
    Clear {
        /// Path of the member.
        member: String,
        /// The cause.
        error: IoError,
    },
    /// The store cannot grow while it is open, for this reason.
    #[error("the store cannot grow, because {0}")]
    CannotGrow(&'static str),
    /// The size of the store is about to change.
    #[error("the store grows at the moment; try again")]
    Growing,
    /// The file of a member could not be made longer.
    #[error(
        "{member}: cannot be made {size_bytes} bytes long: {error}; make space on its file system, or choose a smaller size"
    )]
    Lengthen {
        /// Path of the member.
        member: String,
        /// Bytes that it was to have.
        size_bytes: u64,
        /// The cause.
        error: IoError,
    },
    /// The sheet of a log drive could not be read or written.
    #[error("{member}: {what} of the track sheet failed: {error}")]
    Sheet {
        /// Path of the member.
        member: String,
        /// The operation.
        what: &'static str,
        /// The cause.
        error: IoError,
    },
    /// Both copies of the sheet of a log drive are gone.
    #[error(
        "{member}: both copies of the track sheet are damaged ({cause}): it alone says where the log's \
         tracks are; restore the first MiB or the last one of the member from a backup"
    )]
    SheetLost {
        /// Path of the member.
        member: String,
        /// Why the last one was refused.
        cause: FormatError,
    },
    /// A log drive cannot write single sectors of the log.
    #[error(
        "{member} writes whole sectors of {drive} bytes, and the log has sectors of {log} bytes: the store was made on \
         a drive with smaller ones; move this member back to such a drive"
    )]
    Sector {
        /// Path of the member.
        member: String,
        /// Bytes of its sectors.
        drive: u32,
        /// Bytes of a log sector.
        log: usize,
    },
    /// The tracks of the log make no sense.
    #[error("{member}: {why}; restore the first MiB of the member from a backup")]
    Tracks {
        /// Path of the member.
        member: String,
        /// What is wrong.
        why: tonearm_trail::GeometryError,
    },
    /// The parity of an array could not be made right after a crash.
    #[error("{member}: making its parity right failed: {error}")]
    Redundancy {
        /// The member.
        member: String,
        /// The cause.
        error: RaidError,
    },
    /// The descriptor of the store's array is gone.
    #[error(
        "{member}: no copy of the array's descriptor is valid; it alone says which members the array has; restore the \
         first MiB or the last one of the member from a backup"
    )]
    ArrayDescriptorLost {
        /// Path of the primary member.
        member: String,
    },
    /// A member of an array cannot be read.
    #[error("{member}: the array's descriptor cannot be read: {error}")]
    ArrayMember {
        /// Its path.
        member: String,
        /// The cause.
        error: IoError,
    },
    /// The state of an array could not be saved.
    #[error("{member}: the array's state cannot be written: {error}")]
    ArrayState {
        /// Path of the member.
        member: String,
        /// The cause.
        error: IoError,
    },
    /// Too many members of an array are missing.
    #[error(
        "{array} cannot be opened without these members: {lacking}; connect them again, name their places with --member \
         if they were moved, or restore from a backup"
    )]
    ArrayIncomplete {
        /// The array.
        array: String,
        /// The members, each with the reason.
        lacking: String,
    },
    /// A member is not there, and without it blocks would be lost.
    #[error(
        "member {index} of the array, last at {member}, is missing ({why}), and after a crash the parity cannot be \
         corrected without it; connect it, or name its place with --member, and open the store again: then nothing is \
         lost. If it is lost for good, --degraded opens the store without it: its blocks beside those that were being \
         written at the crash, also old ones, may be lost then"
    )]
    ArrayUnclean {
        /// Its number in the array.
        index: usize,
        /// Where it was last.
        member: String,
        /// Why it is not used.
        why: String,
    },
    /// An array cannot be used.
    #[error(transparent)]
    Raid(#[from] RaidError),
    /// The log failed or is damaged.
    #[error(transparent)]
    Log(#[from] TrailError),
    /// The home failed or is damaged.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The log holds a commit that does not fit the store.
    #[error(
        "the log holds a commit for block {block}, beyond the store's {size_blocks} blocks: the log is not this store's"
    )]
    ForeignCommit {
        /// The block.
        block: u64,
        /// Blocks of the store.
        size_blocks: u64,
    },
    /// The content that a durable commit has in the data area is damaged or cannot be read.
    #[error(
        "commit {lsn} is durable in the log, and its content in the data area is lost: {error}; opening would lose \
         acknowledged writes. Restore the member from a backup, or run `tonearm check --repair` to open the store without that \
         content"
    )]
    IndirectLost {
        /// The commit.
        lsn: Lsn,
        /// What is damaged.
        error: HomeError,
    },
    /// The store was opened for reading only.
    #[error("the store is open read-only")]
    OpenReadOnly,
    /// The store needs recovery, which a read-only opening does not do.
    #[error("the store was not shut down in order and needs recovery; open it for writing once")]
    NeedsRecovery,
    /// A failure has made the store read-only.
    #[error("the store is read-only since a failure: {0}")]
    Failed(String),
    /// A commit is not in the archive, and will not be.
    #[error("commit {0} is not archived: {1}")]
    NotArchived(Lsn, String),
    /// An archive of the store is running.
    #[error("the store is archived at {0} already; stop that archive first")]
    Archived(String),
    /// A commit that the log cannot hold.
    #[error(
        "a commit that takes {bytes} bytes of the log is larger than the log allows ({max_bytes} bytes); change less at \
         once, or create the store with a larger --log-size"
    )]
    CommitTooLarge {
        /// Bytes of log that it takes.
        bytes: u64,
        /// Most bytes of log that a commit may take.
        max_bytes: u64,
    },
    /// The number that was waited for is that of no commit.
    #[error("there is no commit {lsn} yet: the last one is {appended}")]
    NotCommitted {
        /// The number.
        lsn: Lsn,
        /// The last commit.
        appended: Lsn,
    },
    /// The store is being closed: what has been committed is kept, nothing else is taken.
    #[error("the store is being closed")]
    Closing,
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// A superblock slot that the device could not read. Another valid slot is enough to open the store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{member}: copy {slot} of the superblock, at byte {offset}, cannot be read: {error}")]
pub struct UnreadableSlot {
    /// Path of the member.
    pub member: String,
    /// Number of the slot.
    pub slot: u64,
    /// Its byte offset.
    pub offset: u64,
    /// What the device said.
    pub error: IoError,
}

impl From<PlanError> for EngineError {
    fn from(error: PlanError) -> Self {
        Self::Create(error.to_string())
    }
}

fn list(slots: &[UnreadableSlot]) -> String {
    let texts: Vec<String> = slots.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
