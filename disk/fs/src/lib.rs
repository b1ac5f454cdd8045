//! A POSIX file system on the disk. Each operation is one recovery unit. Its whole metadata is one tree.
//!
//! The tree (`tree.rs`) has inodes, entries of directories, extents and extended attributes as items. The content of a file is
//! blocks of one list, whose order guides where they are placed (Grimm, Hsieh, Kaashoek, de Jonge, "Atomic Recovery Units",
//! 5.1). There is no journal, and nothing to repair after a crash: a unit takes effect atomically.

mod acl;
mod attrs;
mod check;
mod data;
mod error;
mod fs;
mod merge;
mod meta;
mod names;
mod offline;
mod orphans;
mod overlay;
mod owners;
mod paths;
mod refusal;
mod shortage;
mod step;
mod tree;
mod types;
mod unit;
mod uses;

pub use acl::{ACL_ACCESS, ACL_DEFAULT};
pub use attrs::{SetAttr, SetXattr};
pub use check::{FsReport, check};
pub use data::{Allocate, Seek};
pub use error::{FsError, LeftOrphan};
pub use fs::{Fs, has_root};
pub use names::{Dirent, NewInode, Rename};
pub use offline::{OfflineError, OfflineTree, path_text};
pub use owners::{OwnedBlocks, owners};
pub use tonearm_disk::Piece;
pub use tonearm_format::{Inode, ROOT_INO, Time};
pub use tree::{
    Key, OWNER_WORDS, Pages, Report, Tree, TreeError, TreeHeader, Wait, format, max_value,
};
pub use types::{AccessPath, Attr, Invalidation, Space};
pub use unit::{Unit, UnitCounts};

#[cfg(test)]
mod tree_test;
