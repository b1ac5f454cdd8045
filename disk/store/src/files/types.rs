//! What callers of files name and get.

use serde::{Deserialize, Serialize};

/// An open file of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FileId(pub u64);

/// An open atomic recovery unit of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AruId(pub u64);

/// SQLite's five lock levels, the weakest first.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Level {
    /// No lock.
    #[default]
    None,
    /// May read; others may read too.
    Shared,
    /// Is going to write; others may still begin to read.
    Reserved,
    /// Waits until the last readers have finished; no new readers may begin. Callers do not ask for it: `Files::lock`
    /// to `Exclusive` takes it first, and keeps it when readers are still there.
    Pending,
    /// Writes, alone.
    Exclusive,
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Open {
    /// Make it, empty, when there is none.
    pub create: bool,
    /// With `create`: fail when there is one.
    pub exclusive: bool,
}

/// Attributes of a file or directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its name in its directory. Bytes that are not text are replaced.
    pub name: String,
    /// Its size in bytes; for a directory, the number of its names.
    pub size_bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// When its content was changed last, in seconds since 1970.
    pub modified_unix_s: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl FileInfo {
    /// It is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode >> 12 == 0o04
    }

    /// It is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode >> 12 == 0o10
    }

    /// It is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.mode >> 12 == 0o12
    }
}

/// New attributes of a file or directory; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NewAttr {
    /// Permissions: the lowest 12 bits of `st_mode`. Others are ignored.
    pub mode: Option<u32>,
    /// Last change of the content, in seconds since 1970.
    pub modified_unix_s: Option<u64>,
}

/// A part of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Files and directories, in no order that means anything.
    pub files: Vec<FileInfo>,
    /// Where the next part begins; `None` after the last one.
    pub after: Option<u64>,
}
