//! Where the structures lie on the members. See `docs/format/members.md`.
//!
//! A member is a header area (superblock slots), then, on the log member, the log, then, on data
//! members, groups: each group is two table slots and as many home blocks as a slot has entries.

use crate::table::slot_entries;

/// Bytes of a sector: of each structure of one sector, and of a log sector unless the superblock says otherwise. Log
/// addresses and the escape of first bytes count in log sectors.
pub const SECTOR: usize = 4096;
/// Smallest log sector in bytes.
pub const LOG_SECTOR_MIN: usize = 512;
/// Bytes before anything else on each member.
pub const HEADER_AREA_BYTES: u64 = 1 << 20;
/// Superblock copies on each member. An update goes first to the pair of slots that lacks the newest generation, so
/// that a torn update never damages the only whole copies.
pub const SUPERBLOCK_SLOTS: u64 = 4;
/// Smallest block size in bytes.
pub const BLOCK_SIZE_MIN: u32 = 4096;
/// Largest block size in bytes.
pub const BLOCK_SIZE_MAX: u32 = 65536;
/// Largest generation, epoch, and number of a record or commit with which a store opens. It is far below the limits of
/// the arithmetic and of records. A store that counts a million a second needs 36,000 years to reach it.
pub const COUNTER_MAX: u64 = 1 << 60;
/// Home blocks at the start of the address space that hold the volume table.
pub const SYSTEM_BLOCKS: u64 = 256;
/// Most volumes of a store: one system block each.
pub const VOLUMES_MAX: usize = SYSTEM_BLOCKS as usize;

/// Byte offset of superblock slot `slot`.
pub const fn superblock_offset(slot: u64) -> u64 {
    slot * (HEADER_AREA_BYTES / SUPERBLOCK_SLOTS)
}

/// Arithmetic of groups on one data member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a home block.
    pub block_size: u32,
    /// Byte offset of the first group.
    pub data_offset: u64,
    /// Groups on this member.
    pub groups: u64,
}

impl Geometry {
    /// Home blocks of one group.
    pub const fn group_blocks(&self) -> u64 {
        slot_entries(self.block_size) as u64
    }

    /// Home blocks of the member.
    pub const fn blocks(&self) -> u64 {
        self.groups * self.group_blocks()
    }

    /// Bytes of one group with its table slots.
    pub const fn group_bytes(&self) -> u64 {
        (self.group_blocks() + 2) * self.block_size as u64
    }

    /// Byte offset of the end of the last group.
    pub const fn end_offset(&self) -> u64 {
        self.data_offset + self.groups * self.group_bytes()
    }

    /// Byte offset of table slot `slot` (0 or 1) of group `group`.
    pub const fn slot_offset(&self, group: u64, slot: u64) -> u64 {
        self.data_offset + group * self.group_bytes() + slot * self.block_size as u64
    }

    /// Byte offset of member block `block`.
    pub const fn block_offset(&self, block: u64) -> u64 {
        let group = block / self.group_blocks();
        let within = block % self.group_blocks();
        self.data_offset + group * self.group_bytes() + (2 + within) * self.block_size as u64
    }
}
