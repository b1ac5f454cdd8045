//! Space for the segments layout: segments on the data members, when a store is made and when it is opened.

use crate::error::PlanError;
use crate::queue::WRITES_WHILE_READING;
use crate::segments::{Plugging, Policy};
use crate::units::Units;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::Device;
use tonearm_format::{
    Layout, Placement, SEGMENT_BLOCKS_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SYSTEM_BLOCKS,
    SegmentLayout, Superblock, Uuid, segments_for, segments_reserved,
};

/// Time between two decisions which blocks are hot, for callers that give none (HyLog 4.2).
const SEPARATION_INTERVAL: Nanos = Nanos::from_secs(20 * 60);
/// Bound on map pages in memory for callers that give none.
const MAP_CACHE_BYTES: usize = 32 << 20;

/// One data member.
#[derive(Clone)]
pub struct SegmentsMember {
    /// Its device.
    pub device: Rc<dyn Device>,
    /// Byte offset of its first segment; the checkpoint lies before that of the first member.
    pub first_segment: u64,
    /// Segments on it.
    pub segments: u64,
}

/// How the layout is opened.
#[derive(Clone, Copy, Debug)]
pub struct SegmentsOptions {
    /// Identity of the store.
    pub store: Uuid,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Blocks of the store.
    pub size_blocks: u64,
    /// Bound on map pages in memory.
    pub map_cache_bytes: usize,
    /// Which segments are cleaned.
    pub policy: Policy,
    /// When live blocks are moved into holes.
    pub plugging: Plugging,
    /// Which blocks are appended, and in which order.
    pub placement: Placement,
    /// Time between two decisions which blocks are hot.
    pub separation_interval: Nanos,
    /// Tells which blocks are overwritten in place, instead of `placement`. For tests and studies.
    pub given: Option<fn(u64) -> bool>,
    /// Writes under way on a member while clients read, 1 to 64.
    pub writes_while_reading: u64,
    /// Nothing is written.
    pub read_only: bool,
}

/// The segments that `size_blocks` blocks need.
///
/// # Errors
/// When the parameters are not possible.
pub(crate) fn units(
    block_size: u32,
    size_blocks: u64,
    segment_bytes: u32,
    spare_percent: u64,
    placement: Placement,
) -> Result<Units, PlanError> {
    let blocks = u64::from(segment_bytes / block_size);
    if !segment_bytes.is_multiple_of(block_size)
        || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        || blocks < SEGMENT_BLOCKS_MIN
    {
        return Err(PlanError::SegmentBytes);
    }
    if !(2..=75).contains(&spare_percent) {
        return Err(PlanError::Spare);
    }
    let layout = SegmentLayout {
        block_size,
        segment_bytes,
        segments: segments_for(block_size, segment_bytes, size_blocks, spare_percent),
    };
    Ok(Units {
        layout: Layout::Segments {
            segment_bytes,
            placement,
        },
        bytes: u64::from(segment_bytes),
        wanted: layout.segments,
        before_first: layout.checkpoint_bytes(),
    })
}

/// Blocks for volumes that `segments` segments can hold, in a store planned for `wanted` blocks. The result is a little
/// too small, because reserved segments and those of the map are counted as for `wanted`.
pub(crate) fn blocks_of(
    block_size: u32,
    segment_bytes: u32,
    spare_percent: u64,
    segments: u64,
    wanted: u64,
) -> u64 {
    let layout = SegmentLayout {
        block_size,
        segment_bytes,
        segments: 0,
    };
    let used = layout.payload_blocks() * (100 - spare_percent) / 100;
    let own = segments_reserved(&layout) + wanted / 128 + 1;
    (segments.saturating_sub(own) * used).saturating_sub(SYSTEM_BLOCKS)
}

/// The data members with their places.
pub(crate) fn members(superblock: &Superblock, devices: &[Rc<dyn Device>]) -> Vec<SegmentsMember> {
    let members = superblock.members.iter().zip(devices).enumerate();
    members
        .filter(|(_, (member, _))| member.roles.data)
        .map(|(index, (member, device))| SegmentsMember {
            device: device.clone(),
            first_segment: superblock.first_segment_offset(index),
            segments: member.groups,
        })
        .collect()
}

/// The usual options for the store of `superblock`.
pub(crate) fn options(
    superblock: &Superblock,
    segment_bytes: u32,
    placement: Placement,
) -> SegmentsOptions {
    SegmentsOptions {
        store: superblock.store,
        block_size: superblock.block_size,
        segment_bytes,
        size_blocks: superblock.size_blocks,
        map_cache_bytes: MAP_CACHE_BYTES,
        policy: Policy::default(),
        plugging: Plugging::default(),
        placement,
        separation_interval: SEPARATION_INTERVAL,
        given: None,
        writes_while_reading: WRITES_WHILE_READING,
        read_only: false,
    }
}
