//! Space for the overwrite layout: groups on the data members, when a store is made and when it grows.

use crate::error::PlanError;
use crate::overwrite::place::OverwriteMember;
use crate::units::Units;
use std::rc::Rc;
use tonearm_device::Device;
use tonearm_format::{Geometry, Layout, SYSTEM_BLOCKS, Superblock, slot_entries};

/// The groups that `size_blocks` blocks need.
pub(crate) fn units(block_size: u32, size_blocks: u64) -> Units {
    let group_blocks = slot_entries(block_size) as u64;
    Units {
        layout: Layout::Overwrite,
        bytes: (group_blocks + 2) * u64::from(block_size),
        wanted: size_blocks.div_ceil(group_blocks),
        before_first: 0,
    }
}

/// Blocks for volumes that `groups` groups can hold.
pub(crate) fn blocks_of(block_size: u32, groups: u64) -> u64 {
    (groups * slot_entries(block_size) as u64).saturating_sub(SYSTEM_BLOCKS)
}

/// The data members with their places.
pub(crate) fn members(superblock: &Superblock, devices: &[Rc<dyn Device>]) -> Vec<OverwriteMember> {
    let members = superblock.members.iter().zip(devices);
    members
        .filter(|(member, _)| member.roles.data)
        .map(|(member, device)| OverwriteMember {
            device: device.clone(),
            geometry: Geometry {
                block_size: superblock.block_size,
                data_offset: member.data_offset,
                groups: member.groups,
            },
        })
        .collect()
}

/// As [`crate::layouts::grown`]: more groups at the end of the last data member.
pub(crate) fn grown(
    superblock: &Superblock,
    blocks: u64,
) -> Result<(Superblock, usize, u64), PlanError> {
    let mut superblock = superblock.clone();
    let index = superblock
        .members
        .iter()
        .rposition(|member| member.roles.data);
    let index = index.ok_or(PlanError::NoDataMember)?;
    let member = &mut superblock.members[index];
    let geometry = Geometry {
        block_size: superblock.block_size,
        data_offset: member.data_offset,
        groups: member.groups,
    };
    let group_blocks = geometry.group_blocks();
    let groups = blocks.div_ceil(group_blocks);
    let geometry = Geometry {
        groups: geometry.groups + groups,
        ..geometry
    };
    let bytes = u128::from(geometry.groups) * u128::from(geometry.group_bytes())
        + u128::from(geometry.data_offset);
    if bytes >> 62 != 0 {
        return Err(PlanError::TooLarge { blocks });
    }
    member.groups = geometry.groups;
    superblock.size_blocks += groups * group_blocks;
    let needed = superblock.member_bytes(index);
    Ok((superblock, index, needed))
}
