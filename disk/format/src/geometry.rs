//! Where the structures lie on the members. See `docs/format/members.md`.
//!
//! A member is a header area (superblock slots 0 and 1), then, on the log member, the log, then, on data
//! members, groups: each group is two table slots and as many home blocks as a slot has entries. Its last whole MiB is
//! the trailer area (superblock slots 2 and 3).

use crate::table::slot_entries;

/// Bytes of a sector: of each structure of one sector, and of a log sector unless the superblock says otherwise. Log
/// addresses and the escape of first bytes count in log sectors.
pub const SECTOR: usize = 4096;
/// Smallest log sector in bytes.
pub const LOG_SECTOR_MIN: usize = 512;
/// Bytes of the header area, before anything else on each member, and of the trailer area, after everything else.
pub const HEADER_AREA_BYTES: u64 = 1 << 20;
/// Superblock copies on each member: a pair in the header area, and one in the trailer area. An update goes first to the
/// pair that lacks the newest generation, so that a torn update never damages the only whole copies.
pub const SUPERBLOCK_SLOTS: u64 = 4;
/// Bytes from a superblock slot to the other one of its pair. After the superblock they hold a copy of the track sheet
/// and of the array's descriptor.
pub(crate) const SLOT_BYTES: u64 = HEADER_AREA_BYTES / SUPERBLOCK_SLOTS;
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

/// Byte offset of the trailer area of a member of `member_bytes` bytes: the last MiB that begins at a whole MiB. What the
/// member holds ends there at the latest.
pub const fn trailer_offset(member_bytes: u64) -> u64 {
    (member_bytes / HEADER_AREA_BYTES * HEADER_AREA_BYTES).saturating_sub(HEADER_AREA_BYTES)
}

/// Bytes of the smallest member that has room for a trailer area after content that ends at `end`.
pub const fn bytes_with_trailer(end: u64) -> u64 {
    end.next_multiple_of(HEADER_AREA_BYTES) + HEADER_AREA_BYTES
}

/// Byte offset of superblock slot `slot` on a member of `member_bytes` bytes: 0 and 1 begin the header area, 2 and 3 the
/// trailer area.
pub const fn superblock_offset(slot: u64, member_bytes: u64) -> u64 {
    let area = if slot < SUPERBLOCK_SLOTS / 2 {
        0
    } else {
        trailer_offset(member_bytes)
    };
    area + slot % (SUPERBLOCK_SLOTS / 2) * SLOT_BYTES
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
