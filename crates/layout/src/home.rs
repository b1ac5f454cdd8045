//! The home of all blocks, in either layout.

use crate::error::HomeError;
use crate::overwrite::Overwrite;
use crate::report::{GroupReport, RepairOptions, RepairReport};
use base::{BufPool, Slice};
use device::{Device, Interrupted};
use format::Geometry;
use rt::Rt;
use std::collections::BTreeSet;
use std::rc::Rc;

/// One data member of the overwrite layout.
pub struct HomeMember {
    /// Its device.
    pub device: Rc<dyn Device>,
    /// Where its groups lie.
    pub geometry: Geometry,
}

/// A part of what was read.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Whole blocks, verified.
    Data(Slice),
    /// So many zero bytes.
    Zero(usize),
}

/// Blocks to make zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroRange {
    /// First block.
    pub first: u64,
    /// Blocks.
    pub count: u64,
    /// Keep the space allocated, so that a later write does not run out of it.
    pub keep_space: bool,
}

/// A block to write home.
#[derive(Clone, Debug)]
pub struct HomeBlock {
    /// Its number.
    pub block: u64,
    /// Its content, exactly one block.
    pub data: Slice,
    /// CRC-32C of the content.
    pub crc: u32,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeStats {
    /// Device reads, those of tables included.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Device writes, those of tables included.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Punch and zero operations.
    pub zeroes: u64,
    /// Device flushes.
    pub flushes: u64,
    /// Tables read from the devices.
    pub table_loads: u64,
    /// Tables found in the cache.
    pub table_hits: u64,
    /// Tables written.
    pub table_writes: u64,
    /// Tables with one damaged slot, read from the other.
    pub table_fallbacks: u64,
    /// Tables with no valid slot that a write-back began anew.
    pub tables_lost: u64,
    /// Blocks that failed their checksum.
    pub checksum_errors: u64,
    /// Bytes of the tables in the cache now.
    pub map_cache_bytes: usize,
}

/// The home of all blocks; clones are handles on the same one.
#[derive(Clone)]
pub enum Home {
    /// Every block has one fixed place.
    Overwrite(OverwriteHome),
}

/// The overwrite layout, opaque.
#[derive(Clone)]
pub struct OverwriteHome(pub(crate) Overwrite);

impl Home {
    /// The overwrite layout of `size_blocks` blocks on `members` in their order. Nothing is read yet.
    /// Tables take at most `map_cache_bytes` of memory, and those in use a little more.
    ///
    /// # Panics
    /// When the members do not cover the size or differ in block size.
    pub fn overwrite(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<HomeMember>,
        size_blocks: u64,
        map_cache_bytes: usize,
    ) -> Self {
        Self::Overwrite(OverwriteHome(Overwrite::new(
            rt,
            pool,
            members,
            size_blocks,
            map_cache_bytes,
        )))
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        match self {
            Self::Overwrite(home) => home.0.block_size(),
        }
    }

    /// Blocks of the store.
    pub fn size_blocks(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.size_blocks(),
        }
    }

    /// Groups of the store.
    pub fn groups(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.groups(),
        }
    }

    /// Blocks of a group; the last one may have fewer.
    pub fn group_blocks(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.group_blocks(),
        }
    }

    /// Counters, and the memory of the map cache.
    pub fn stats(&self) -> HomeStats {
        match self {
            Self::Overwrite(home) => home.0.stats(),
        }
    }

    /// Reads and verifies `count` blocks from `first` on; the pieces are in order. A piece of data is
    /// one device read of at most 1 MiB.
    ///
    /// # Errors
    /// The first block (in order) that cannot be read or fails its checksum, or whose table or map page does.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    pub async fn read(&self, first: u64, count: u64) -> Result<Vec<Piece>, HomeError> {
        match self {
            Self::Overwrite(home) => home.0.read(first, count).await,
        }
    }

    /// Runs of allocated blocks (true) and holes (false) that together are `count` blocks from
    /// `first` on. Blocks whose table or map page is damaged count as allocated: reads tell more.
    ///
    /// # Errors
    /// When a table or map page cannot be read from its device.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    pub async fn status(&self, first: u64, count: u64) -> Result<Vec<(u64, bool)>, HomeError> {
        match self {
            Self::Overwrite(home) => home.0.status(first, count).await,
        }
    }

    /// Makes `zeroes`, then `blocks` (ascending, each once) durable at home; they are when it returns
    /// `Ok`. Calls wait for each other.
    ///
    /// # Errors
    /// When a device fails or has no space. Nothing is under way then, and what is at home of the
    /// call's blocks is unknown; the call can be made again, also with newer content.
    ///
    /// # Panics
    /// When blocks are not ascending, of another length, or beyond the store's end.
    pub async fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Result<(), HomeError> {
        match self {
            Self::Overwrite(home) => home.0.write_back(zeroes, blocks).await,
        }
    }

    /// Ends the use of the home in order, so that the next opening has nothing to recover here.
    ///
    /// # Errors
    /// When a device fails.
    pub async fn close(&self) -> Result<(), HomeError> {
        match self {
            Self::Overwrite(_) => Ok(()),
        }
    }

    /// Checks `group` on the medium, past the cache. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When the group's table or map page cannot be read at all; unreadable blocks are in the report.
    pub async fn check_group(&self, group: u64) -> Result<GroupReport, HomeError> {
        match self {
            Self::Overwrite(home) => home.0.check_group(group).await,
        }
    }

    /// Repairs `group` and makes that durable. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When a device fails or has no space; the call can be made again.
    pub async fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Result<RepairReport, HomeError> {
        match self {
            Self::Overwrite(home) => home.0.repair_group(group, options).await,
        }
    }

    /// Bytes of each member, in their order, that an interrupted write-back of `zeroes` and `blocks` may
    /// have changed.
    ///
    /// # Panics
    /// When a range or block goes beyond the store's end.
    pub fn interrupted(&self, zeroes: Vec<ZeroRange>, blocks: &BTreeSet<u64>) -> Vec<Interrupted> {
        match self {
            Self::Overwrite(home) => home.0.interrupted(zeroes, blocks),
        }
    }
}
