//! Errors of the disk, for its front ends.

use tonearm_engine::EngineError;
use tonearm_layout::HomeError;

/// An error of the disk or a volume.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DiskError {
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Beyond the volume's end.
    #[error("bytes {offset}..{end} lie beyond volume {volume:?} of {size_bytes} bytes")]
    OutOfRange {
        /// The volume.
        volume: String,
        /// First byte.
        offset: u64,
        /// Behind the last byte.
        end: u64,
        /// Size of the volume.
        size_bytes: u64,
    },
    /// The volume refuses writes.
    #[error(
        "volume {0:?} is read-only; `tonearm volume set STORE {0} --read-write` makes it writable"
    )]
    ReadOnlyVolume(String),
    /// No such volume.
    #[error("there is no volume {0:?}; `tonearm volume list` shows those there are")]
    NoVolume(String),
    /// The name is taken.
    #[error("there is a volume {0:?} already")]
    VolumeExists(String),
    /// The name cannot be one.
    #[error("{name:?} cannot name a volume: {why}")]
    BadName {
        /// The name.
        name: String,
        /// The rule.
        why: &'static str,
    },
    /// Volumes have at least one byte and fit the store.
    #[error("a volume needs a size of at least one byte")]
    BadSize,
    /// The store has no room for the volume, file or list.
    #[error(
        "the store has {free_bytes} bytes free, {needed_bytes} are needed; shrink or delete a volume or file, or make the store larger with `tonearm grow`"
    )]
    StoreFull {
        /// Bytes free.
        free_bytes: u64,
        /// Bytes needed.
        needed_bytes: u64,
    },
    /// All entries of the volume table are taken.
    #[error("the store has its {0} volumes already")]
    TooManyVolumes(usize),
    /// The free space is in too many pieces.
    #[error(
        "the free space is in too many pieces for this volume; delete volumes or choose a smaller size"
    )]
    Fragmented,
    /// The store cannot take a copy of another one.
    #[error(
        "the store cannot be copied there: {0}; name a new store, made with `tonearm create --no-volume`"
    )]
    CopyTarget(String),
    /// The volume was deleted while it was in use.
    #[error("the volume has been deleted")]
    Deleted,
    /// A recovery unit cannot end as it was meant; nothing of it was applied.
    #[error("the recovery unit conflicts with one that ended before it: {0}; begin it again")]
    Conflict(String),
    /// Open recovery units use all the memory that is for them.
    #[error(
        "open recovery units hold {limit_bytes} bytes, as much as they may; end some, write less in one, or give the store more memory (--memory)"
    )]
    ShadowsFull {
        /// Bytes that they may hold together.
        limit_bytes: u64,
    },
    /// No such list.
    #[error("there is no list {0}")]
    NoList(u64),
    /// No such block.
    #[error("there is no block {0}: it is on no list")]
    NoBlock(u64),
    /// A block is on another list.
    #[error("block {block} is not on list {list}")]
    NotOnList {
        /// The block.
        block: u64,
        /// The list that was named.
        list: u64,
    },
    /// Blocks are written as a whole.
    #[error("{bytes} bytes were given for a block of {block_bytes}")]
    BadBlock {
        /// Bytes that were given.
        bytes: usize,
        /// Bytes of a block.
        block_bytes: u64,
    },
    /// The records of lists contradict each other.
    #[error("the lists are damaged: {0}")]
    ListsDamaged(String),
    /// The tree of files names a page that it does not have.
    #[error("the tree of files is damaged: it has no page {0}")]
    NoTreePage(u64),
    /// The function that changes the tree of files has refused. Its caller has the reason.
    #[error("the change of the tree of files is not possible")]
    Refused,
    /// An entry of the volume table cannot be read.
    #[error("entry {slot} of the volume table is damaged: {cause}")]
    Table {
        /// The entry.
        slot: u64,
        /// What is wrong.
        cause: tonearm_format::FormatError,
    },
    /// An entry of the volume table contradicts the store or another entry.
    #[error("the volume table is damaged: {0}; restore the store from a backup")]
    Volume(tonearm_format::VolumeFault),
}

/// What kind of error it is, for the answer of a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// No space below the store or in it.
    NoSpace,
    /// Not writable.
    ReadOnly,
    /// Beyond the end.
    OutOfRange,
    /// Data failed its checksum.
    Damaged,
    /// A device or the store failed.
    Failed,
    /// No such volume.
    NotFound,
    /// There is one already.
    Exists,
    /// The request makes no sense.
    Invalid,
    /// The volume is gone.
    Deleted,
    /// A recovery unit cannot end.
    Conflict,
}

impl DiskError {
    /// The store has no room.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, DiskError::StoreFull { .. } | DiskError::Fragmented)
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            DiskError::Engine(error) => match error {
                EngineError::Home(HomeError::NoSpace { .. } | HomeError::Full { .. }) => {
                    ErrorKind::NoSpace
                }
                EngineError::OpenReadOnly => ErrorKind::ReadOnly,
                EngineError::Home(
                    HomeError::Checksum { .. }
                    | HomeError::Table { .. }
                    | HomeError::MapPage { .. }
                    | HomeError::LostBlock { .. },
                ) => ErrorKind::Damaged,
                EngineError::CommitTooLarge { .. }
                | EngineError::NotCommitted { .. }
                | EngineError::Create(_) => ErrorKind::Invalid,
                _ => ErrorKind::Failed,
            },
            DiskError::OutOfRange { .. } => ErrorKind::OutOfRange,
            DiskError::ReadOnlyVolume(_) => ErrorKind::ReadOnly,
            DiskError::NoVolume(_) | DiskError::NoList(_) | DiskError::NoBlock(_) => {
                ErrorKind::NotFound
            }
            DiskError::NotOnList { .. } | DiskError::BadBlock { .. } | DiskError::Refused => {
                ErrorKind::Invalid
            }
            DiskError::VolumeExists(_) => ErrorKind::Exists,
            DiskError::BadName { .. }
            | DiskError::BadSize
            | DiskError::TooManyVolumes(_)
            | DiskError::CopyTarget(_) => ErrorKind::Invalid,
            DiskError::StoreFull { .. } | DiskError::Fragmented | DiskError::ShadowsFull { .. } => {
                ErrorKind::NoSpace
            }
            DiskError::Conflict(_) => ErrorKind::Conflict,
            DiskError::Deleted => ErrorKind::Deleted,
            DiskError::Table { .. }
            | DiskError::Volume(_)
            | DiskError::ListsDamaged(_)
            | DiskError::NoTreePage(_) => ErrorKind::Damaged,
        }
    }
}
