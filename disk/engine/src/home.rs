//! The home as the superblock describes it: either layout.

use crate::MemberDevice;
use crate::error::EngineError;
use crate::open::{Assembled, assemble};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_format::{Geometry, SegmentLayout, Superblock};
use tonearm_layout::{Home, HomeMember, Policy, RebuildReport, SegmentsMember, SegmentsOptions};
use tonearm_rt::Rt;

/// Opens the home. In the segments layout that recovers its block map; nothing is written if `read_only`.
///
/// # Errors
/// When the block map cannot be recovered.
pub(crate) async fn open(
    rt: &Rt,
    pool: &BufPool,
    superblock: &Superblock,
    devices: &[Rc<dyn Device>],
    map_cache_bytes: usize,
    read_only: bool,
) -> Result<Home, EngineError> {
    let Some(layout) = superblock.segments() else {
        let members = home_members(superblock, devices);
        let size = superblock.size_blocks;
        return Ok(Home::overwrite(rt, pool, members, size, map_cache_bytes));
    };
    let options = SegmentsOptions {
        map_cache_bytes,
        read_only,
        ..segments_options(superblock, layout)
    };
    let members = segments_members(superblock, devices);
    Ok(Home::open_segments(rt, pool, members, &options).await?)
}

/// Makes the home of a new store; in the overwrite layout that is space that reads as zeroes.
///
/// # Errors
/// When a device fails.
pub(crate) async fn create(
    rt: &Rt,
    pool: &BufPool,
    superblock: &Superblock,
    devices: &[Rc<dyn Device>],
) -> Result<(), EngineError> {
    let Some(layout) = superblock.segments() else {
        return Ok(());
    };
    let members = segments_members(superblock, devices);
    let options = segments_options(superblock, layout);
    Ok(Home::create_segments(rt, pool, members, &options).await?)
}

/// Makes the block map of the store of `members` anew from the segment summaries. The store must not be in
/// use; its log is not touched. `progress` is told segments read and segments to read.
///
/// # Errors
/// When the members do not belong together, the store has another layout, or a device fails.
pub async fn rebuild_map(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
    map_cache_bytes: usize,
    progress: impl FnMut(u64, u64),
) -> Result<RebuildReport, EngineError> {
    let Assembled {
        superblock,
        devices,
        ..
    } = assemble(pool, members).await?;
    let layout = superblock.segments().ok_or(EngineError::NoSegments)?;
    let options = SegmentsOptions {
        map_cache_bytes,
        ..segments_options(&superblock, layout)
    };
    let members = segments_members(&superblock, &devices);
    Ok(Home::rebuild_segments(rt, pool, members, &options, progress).await?)
}

/// The data members with their places, for the overwrite layout.
fn home_members(superblock: &Superblock, devices: &[Rc<dyn Device>]) -> Vec<HomeMember> {
    let members = superblock.members.iter().zip(devices);
    members
        .filter(|(member, _)| member.roles.data)
        .map(|(member, device)| HomeMember {
            device: device.clone(),
            geometry: Geometry {
                block_size: superblock.block_size,
                data_offset: member.data_offset,
                groups: member.groups,
            },
        })
        .collect()
}

/// The data members with their places, for the segments layout.
fn segments_members(superblock: &Superblock, devices: &[Rc<dyn Device>]) -> Vec<SegmentsMember> {
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

fn segments_options(superblock: &Superblock, layout: SegmentLayout) -> SegmentsOptions {
    SegmentsOptions {
        store: superblock.store,
        block_size: superblock.block_size,
        segment_bytes: layout.segment_bytes,
        size_blocks: superblock.size_blocks,
        map_cache_bytes: 32 << 20,
        policy: Policy::default(),
        read_only: false,
    }
}
