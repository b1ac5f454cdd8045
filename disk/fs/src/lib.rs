//! A POSIX file system on the disk. Its whole metadata is one tree.

mod tree;

pub use tree::{
    Key, OWNER_WORDS, Pages, Report, Tree, TreeError, TreeHeader, Wait, format, max_value,
};

#[cfg(test)]
mod tree_test;
