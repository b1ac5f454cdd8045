//! What callers commit. What the log records of it is another type, `tonearm_trail::Change` (`recording.rs`).

use tonearm_base::Slice;

/// One change of a commit. Blocks are home blocks.
#[derive(Clone, Debug)]
pub enum CommitChange {
    /// Adjacent blocks get new content.
    Write {
        /// First block.
        first: u64,
        /// Content, a whole number of blocks.
        data: Slice,
    },
    /// A range becomes holes.
    Trim {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// A range reads as zeroes and keeps its space.
    Zero {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// Adjacent blocks get the content of others, which is durable at home and stays as it is until no recovery sees
    /// this change any more ([`Engine::spill`](crate::Engine::spill)).
    Move {
        /// First block that gets content.
        to: u64,
        /// First block that has it.
        from: u64,
        /// CRC-32C of each block.
        crcs: Vec<u32>,
    },
}

impl CommitChange {
    /// First block that changes, and how many do.
    ///
    /// # Panics
    /// When a write is not a whole number of blocks, or nothing changes.
    pub(crate) fn blocks(&self, block_size: usize) -> (u64, u64) {
        match self {
            Self::Write { first, data } => {
                let whole = !data.is_empty() && data.len().is_multiple_of(block_size);
                assert!(whole, "whole blocks");
                (*first, (data.len() / block_size) as u64)
            }
            Self::Trim { first, count } | Self::Zero { first, count } => (*first, *count),
            Self::Move { to, crcs, .. } => {
                assert!(!crcs.is_empty(), "some blocks");
                (*to, crcs.len() as u64)
            }
        }
    }

    /// Zeroes may make space at home.
    pub(crate) fn is_zeroes(&self) -> bool {
        matches!(self, Self::Trim { .. } | Self::Zero { .. })
    }
}
