//! Errors of the file system.

use crate::types::{AccessPath, XATTR_NAMES_MAX, XATTRS_MAX};
use tonearm_disk::{DiskError, ErrorKind};

/// Why an operation has failed. Nothing has changed then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FsError {
    /// There is no such file or name.
    #[error("there is no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("there is a file of this name already")]
    Exists,
    /// A directory is needed.
    #[error("it is not a directory")]
    NotDirectory,
    /// It must not be a directory.
    #[error("it is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A name has at most 255 bytes.
    #[error("the name or target is too long")]
    NameTooLong,
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The directory has the sticky bit, and neither it nor the file is the user's.
    #[error("only the owner of the file or of its directory may take the name away")]
    NotOwner,
    /// The operation is not one for this kind of file.
    #[error("{0}")]
    NotPermitted(&'static str),
    /// A file has this many names at most.
    #[error("the file has as many names as a file may have")]
    TooManyLinks,
    /// The offset is beyond what a file can have.
    #[error("a file cannot be as large as this")]
    TooLarge,
    /// There is no extended attribute of this name.
    #[error("there is no extended attribute of this name")]
    NoAttribute,
    /// The value does not fit.
    #[error("the extended attribute is larger than {0} bytes, name and value together")]
    AttributeTooLarge(usize),
    /// The file has as many attributes as it can.
    #[error(
        "the file has as many extended attributes as a file may have: {}, with names of {} bytes",
        XATTRS_MAX,
        XATTR_NAMES_MAX
    )]
    TooManyAttributes,
    /// Nothing there: a search for data or a hole beyond the end.
    #[error("there is nothing beyond this offset")]
    NothingBehind,
    /// The file system does not do this.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The file is open through another access path.
    #[error("{}", busy(*.0))]
    Busy(AccessPath),
    /// Others have changed what the unit has read or changed. Nothing of it has happened.
    #[error(
        "others have changed {0}, which the unit uses; nothing of it has happened: begin it again"
    )]
    Conflict(String),
    /// The unit takes no more operations.
    #[error("the unit takes no operations: {0}")]
    UnitEnded(&'static str),
    /// The memory for units is used up.
    #[error(
        "the unit needs more memory than units may hold; change less in one, or give the store more memory (--memory)"
    )]
    UnitTooLarge,
    /// Further ones have to wait.
    #[error("there are {0} open units; end some")]
    TooManyUnits(usize),
    /// The tree contradicts itself.
    #[error("the tree of files is damaged: {0}; `tonearm check` reports more")]
    Damaged(String),
    /// The change would have to wait.
    #[error("there is no space left below the store; make some there, or delete files")]
    NoSpaceBelow,
    /// From the disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A file without a name that an opening could not delete. The next one tries again.
#[derive(Clone, Debug)]
pub struct LeftOrphan {
    /// Its number; `None` when those that there are could not be found.
    pub ino: Option<u64>,
    /// The reason.
    pub why: FsError,
}

pub(crate) fn damaged(what: &str) -> FsError {
    FsError::Damaged(what.to_string())
}

fn busy(access: AccessPath) -> &'static str {
    match access {
        AccessPath::Mount => "the file is open on the mount; close it there first",
        AccessPath::Session => {
            "the file is open through SQLite's VFS or `tonearm files`, whose locks the mount does not have; close it there \
             first"
        }
    }
}

impl FsError {
    /// The store has no room for it.
    pub fn is_full(&self) -> bool {
        match self {
            Self::NoSpaceBelow => true,
            Self::Disk(error) => error.kind() == ErrorKind::NoSpace,
            _ => false,
        }
    }

    /// What is on the medium is damaged, or an inode is missing that something names.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) | Self::NotFound => true,
            Self::Disk(error) => matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotFound),
            _ => false,
        }
    }

    /// Another unit has changed the same.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Disk(error) => error.kind() == ErrorKind::Conflict,
            _ => false,
        }
    }

    /// The store or the medium takes no changes.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Disk(error) if error.kind() == ErrorKind::ReadOnly)
    }
}
