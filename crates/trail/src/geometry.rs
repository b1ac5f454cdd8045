//! Addresses within the log.

use format::{SECTOR, Superblock, Uuid};

/// Where the log lies and how it is divided. Sectors and tracks are counted from the log's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGeometry {
    /// Store to which the records belong.
    pub store: Uuid,
    /// Byte offset of the log on its device.
    pub offset: u64,
    /// Number of tracks.
    pub tracks: u64,
    /// Sectors of a track.
    pub track_sectors: u64,
    /// Bytes of a home block.
    pub block_size: usize,
}

impl LogGeometry {
    /// The geometry that a superblock tells.
    pub fn of(superblock: &Superblock) -> Self {
        Self {
            store: superblock.store,
            offset: superblock.log_offset,
            tracks: superblock.log_tracks,
            track_sectors: u64::from(superblock.track_bytes) / SECTOR as u64,
            block_size: superblock.block_size as usize,
        }
    }

    /// Byte offset on the device of log sector `sector`.
    pub const fn byte_of(&self, sector: u64) -> u64 {
        self.offset + sector * SECTOR as u64
    }

    /// Track of log sector `sector`.
    pub const fn track_of(&self, sector: u64) -> u64 {
        sector / self.track_sectors
    }

    /// Bytes of a track.
    pub const fn track_bytes(&self) -> usize {
        self.track_sectors as usize * SECTOR
    }

    /// Payload sectors of one home block.
    pub const fn block_sectors(&self) -> u64 {
        (self.block_size / SECTOR) as u64
    }

    /// Most blocks that one commit may have: it must fit into the log beside what is being freed.
    pub const fn commit_blocks_max(&self) -> u64 {
        // A record of a full track holds at least this many blocks; 5 tracks stay out of the account
        // (the one being written, the reserve, the one being freed, and one for packing losses).
        let blocks = (self.track_sectors - 2) / self.block_sectors();
        let headers = blocks.div_ceil(entries_max(self.block_sectors()));
        let blocks = (self.track_sectors - 1 - headers) / self.block_sectors();
        self.tracks.saturating_sub(5) * blocks
    }
}

/// Most data entries of one record.
pub(crate) const fn entries_max(block_sectors: u64) -> u64 {
    (SECTOR - format::RECORD_FIXED_BYTES) as u64 / (format::ENTRY_BYTES as u64 + block_sectors)
}
