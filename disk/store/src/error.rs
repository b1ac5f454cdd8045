//! Why a store cannot be opened or used.

use crate::files::{FilesError, FilesErrorKind};
use std::path::PathBuf;
use tonearm_disk::DiskError;
use tonearm_engine::EngineError;
use tonearm_fs::FsError;
use tonearm_uring::{MemberError, UringError};

/// An error of an open store, or of opening one; each message says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// io_uring is not available.
    #[error("cannot start: {0}")]
    Uring(#[from] UringError),
    /// A member cannot be opened.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A member that the store names cannot be opened.
    #[error(
        "member {index} of {} (if it was moved, name its place with --member): {cause}",
        path.display()
    )]
    MemberLost {
        /// The store.
        path: PathBuf,
        /// Number of the member.
        index: usize,
        /// Why not.
        #[source]
        cause: Box<StoreError>,
    },
    /// A named member belongs elsewhere.
    #[error(
        "{} is a member of another store than {}; name the right file with --member",
        member.display(), path.display()
    )]
    OtherStore {
        /// The member.
        member: PathBuf,
        /// The store.
        path: PathBuf,
    },
    /// A member was named twice.
    #[error("{} is a member that was named already", .0.display())]
    NamedTwice(PathBuf),
    /// Two block devices are the same member.
    #[error(
        "{first} and {second} are the same member of the store, and one is a copy of the other; detach the copy, or name the \
         right one with --member"
    )]
    FoundTwice {
        /// Path of the first device.
        first: String,
        /// Path of the second device.
        second: String,
    },
    /// The path is that of another member.
    #[error(
        "{} is member {index} of its store, not the primary one; name the primary member's path",
        path.display()
    )]
    NotPrimary {
        /// The path.
        path: PathBuf,
        /// Number of that member.
        index: usize,
    },
    /// A superblock cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store failed, or refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// An operation on a file failed.
    #[error(transparent)]
    Files(FilesError),
    /// There is no archive.
    #[error("the store is not archived")]
    NotArchived,
    /// The archive has failed, for this reason.
    #[error("{0}")]
    Archive(String),
    /// The system has no thread left.
    #[error("no thread can be started for the store: {0}")]
    Thread(#[source] std::io::Error),
    /// It was closed.
    #[error("the store has been closed; open it again")]
    Closed,
    /// A task of the engine has panicked.
    #[error(
        "the engine of the store has panicked, see the process's standard error; open the store again: it \
         recovers what was durable"
    )]
    Panicked,
    /// An operation of a recovery unit has panicked.
    #[error("the recovery unit is over, since an operation of it has panicked; begin it again")]
    UnitOver,
    /// Two threads have used a recovery unit at a time.
    #[error(
        "the recovery unit is in use by another thread; let each of its operations end before the next"
    )]
    UnitInUse,
    /// The process has forked, and this is the child.
    #[error(
        "this process was forked from the one that has the store open, and cannot use it; open the store after \
         the fork, or serve it with `tonearm serve`"
    )]
    Forked,
    /// Called by a job of the same store.
    #[error("a job of the store called the store, which waits for that job; use the job's context")]
    Nested,
    /// A store over an executor may be used by one thread alone.
    #[error("this store was made for another thread alone")]
    WrongThread,
    /// A store over an executor waits for something that can never happen.
    #[error("nothing is ready, under way or timed in the world of this store: it stands still")]
    Stuck,
}

impl From<FsError> for StoreError {
    fn from(error: FsError) -> Self {
        match error {
            FsError::Disk(error) => Self::Disk(error),
            error => Self::Files(error.into()),
        }
    }
}

impl From<FilesError> for StoreError {
    fn from(error: FilesError) -> Self {
        Self::Files(error)
    }
}

impl From<StoreError> for FilesError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disk(error) => error.into(),
            StoreError::Files(error) => error,
            StoreError::Engine(error) => DiskError::from(error).into(),
            StoreError::Member(MemberError::InUse { .. }) => {
                Self::new(FilesErrorKind::Busy, error.to_string())
            }
            StoreError::Member(MemberError::NotFound { .. }) => {
                Self::new(FilesErrorKind::NotFound, error.to_string())
            }
            _ => Self::new(FilesErrorKind::Failed, error.to_string()),
        }
    }
}
