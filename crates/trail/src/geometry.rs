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

    /// Sectors of a track that commits can count on: one is kept for a marker, one goes to the header of
    /// a record that the track's start has split, and a rest too small for a block is lost at the end.
    pub const fn track_sectors_usable(&self) -> u64 {
        self.track_sectors - 2 - self.block_sectors()
    }

    /// Sectors that a commit of `blocks` blocks of data and `ranges` ranges takes at most, but for what
    /// [`LogGeometry::track_sectors_usable`] leaves out.
    pub const fn commit_sectors(&self, blocks: u64, ranges: u64) -> u64 {
        1 + blocks * self.block_sectors() + (blocks + ranges) / entries_max(self.block_sectors())
    }

    /// Most sectors that one commit may take: all tracks but the one being written and the two spare ones.
    pub const fn commit_sectors_max(&self) -> u64 {
        (self.tracks - 3) * self.track_sectors_usable()
    }

    /// Most blocks that one commit may have.
    pub const fn commit_blocks_max(&self) -> u64 {
        let sectors = self.commit_sectors_max() - 8;
        let entries = entries_max(self.block_sectors());
        // One sector more for each full record.
        sectors * entries / (entries * self.block_sectors() + 1)
    }
}

/// Most data entries of one record.
pub(crate) const fn entries_max(block_sectors: u64) -> u64 {
    (SECTOR - format::RECORD_FIXED_BYTES) as u64 / (format::ENTRY_BYTES as u64 + block_sectors)
}
