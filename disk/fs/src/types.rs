//! Types and numbers that all parts of the file system use.

use tonearm_format::Inode;

/// Type of a directory, in `st_mode`.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// Type of a regular file.
pub(crate) const REGULAR: u32 = 0o100_000;
/// Type of a symbolic link.
pub(crate) const SYMLINK: u32 = 0o120_000;
/// Set-group-ID: new files get the group of a directory with this bit.
pub(crate) const SET_GID: u32 = 0o2000;
/// Only the owner of a file, or of its directory with this bit, takes the file's names away.
pub(crate) const STICKY: u32 = 0o1000;
/// Bits of the type.
pub(crate) const TYPE: u32 = 0o170_000;

/// Most extended attributes of a file.
pub(crate) const XATTRS_MAX: usize = 1024;
/// Most bytes of their names, with a zero byte after each: Linux lists no more.
pub(crate) const XATTR_NAMES_MAX: usize = 1 << 16;

/// A file's number and attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Its number, which no other file gets.
    pub ino: u64,
    /// Its attributes.
    pub inode: Inode,
}

/// The size of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks, used and free ones.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// A path by which programs reach files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessPath {
    /// The mount. The kernel keeps content, attributes and names.
    Mount,
    /// Sessions with the files of a store, which have locks of their own.
    Session,
}

impl AccessPath {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Mount => Self::Session,
            Self::Session => Self::Mount,
        }
    }
}

/// Files, and names in directories, that sessions have changed.
#[derive(Default, Debug)]
pub struct Invalidation {
    /// Files whose attributes and content may be others.
    pub files: Vec<u64>,
    /// Names in directories that may stand for other files.
    pub names: Vec<(u64, Vec<u8>)>,
}

/// The owner's numbers in the tree's header.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    /// The inode that is made next. Numbers are never used again.
    NextIno = 0,
    /// Inodes.
    Inodes = 1,
    /// Blocks of data.
    Blocks = 2,
    /// The key of the hash of names.
    HashKey = 3,
    /// Its second half.
    HashKey1 = 4,
}
