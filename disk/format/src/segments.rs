//! Arithmetic of the segments layout: places and sizes of checkpoint slots, segments and the block map.
//! See `docs/format/segments.md`.

use crate::geometry::SECTOR;
use crate::map_page::map_entries;
use crate::summary::summary_blocks;

/// Smallest segment, in bytes.
pub const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// Largest segment, in bytes.
pub const SEGMENT_BYTES_MAX: u32 = 64 << 20;
/// Fewest blocks of a segment.
pub const SEGMENT_BLOCKS_MIN: u64 = 16;
/// Bytes of the segment table for each segment.
pub const SEGMENT_ENTRY_BYTES: u64 = 16;
/// Segments beyond the share that is left free, so that the cleaner can always continue.
const SEGMENTS_RESERVED: u64 = 16;
/// Blocks beyond those segments, because small segments lose more at their ends.
const BLOCKS_RESERVED: u64 = 256;

/// The segments layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLayout {
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments of all members together. They are numbered from 1, so that no block has place 0.
    pub segments: u64,
}

impl SegmentLayout {
    /// Blocks of a segment.
    pub const fn segment_blocks(&self) -> u64 {
        (self.segment_bytes / self.block_size) as u64
    }

    /// Blocks of data in a segment that is written as one partial, between its two summaries.
    pub const fn payload_blocks(&self) -> u64 {
        let blocks = self.segment_blocks();
        let mut payload = blocks - 2;
        while payload + 2 * summary_blocks(self.block_size, payload) > blocks {
            payload -= 1;
        }
        payload
    }

    /// Bytes of one checkpoint slot.
    pub const fn slot_bytes(&self) -> u64 {
        let bytes = SECTOR as u64 + self.segments * SEGMENT_ENTRY_BYTES;
        bytes.next_multiple_of(self.block_size as u64)
    }

    /// Bytes before the first segment, on the first data member.
    pub const fn checkpoint_bytes(&self) -> u64 {
        2 * self.slot_bytes()
    }
}

/// Levels of the block map of `size_blocks` blocks; at least one.
pub const fn map_levels(block_size: u32, size_blocks: u64) -> u32 {
    let fanout = map_entries(block_size) as u64;
    let (mut levels, mut pages) = (1, size_blocks.div_ceil(fanout));
    while pages > 1 {
        pages = pages.div_ceil(fanout);
        levels += 1;
    }
    levels
}

/// Pages of the whole block map of `size_blocks` blocks.
pub const fn map_pages(block_size: u32, size_blocks: u64) -> u64 {
    let fanout = map_entries(block_size) as u64;
    let mut pages = size_blocks.div_ceil(fanout);
    let mut all = pages;
    while pages > 1 {
        pages = pages.div_ceil(fanout);
        all += pages;
    }
    all
}

/// Segments for `size_blocks` blocks and their map when `spare_percent` of the space is to stay free.
pub const fn segments_for(
    block_size: u32,
    segment_bytes: u32,
    size_blocks: u64,
    spare_percent: u64,
) -> u64 {
    let layout = SegmentLayout {
        block_size,
        segment_bytes,
        segments: 0,
    };
    let blocks = size_blocks + map_pages(block_size, size_blocks);
    let payload = layout.payload_blocks() * (100 - spare_percent);
    (blocks * 100).div_ceil(payload) + segments_reserved(&layout)
}

/// Segments that a store has beyond its blocks, their map and the share that is left free.
pub const fn segments_reserved(layout: &SegmentLayout) -> u64 {
    SEGMENTS_RESERVED + BLOCKS_RESERVED / layout.payload_blocks()
}
