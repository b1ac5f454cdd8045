//! Making a closed store larger: more groups at the end of its last data member.
//!
//! The file is made longer first, the superblock of the next epoch tells the new size: a crash in between
//! leaves a store of the old size on a longer file.

use crate::error::EngineError;
use tonearm_format::{Geometry, Superblock};

/// The superblock of the store with at least `blocks` more home blocks, the index of the member that
/// grows, and the bytes that it needs then.
///
/// # Errors
/// When the store would be too large for its format.
pub fn grown(
    superblock: &Superblock,
    blocks: u64,
) -> Result<(Superblock, usize, u64), EngineError> {
    if superblock.segments().is_some() {
        return Err(EngineError::Create(
            "a store of the segments layout cannot grow: its checkpoints have no room for more segments; make a \
             larger store and copy the volumes"
                .into(),
        ));
    }
    let mut superblock = superblock.clone();
    let index = superblock
        .members
        .iter()
        .rposition(|member| member.roles.data);
    let index = index.ok_or(EngineError::Create("the store has no data member".into()))?;
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
        return Err(EngineError::Create(format!(
            "{blocks} more blocks are too many for one store"
        )));
    }
    member.groups = geometry.groups;
    superblock.size_blocks += groups * group_blocks;
    Ok((superblock, index, geometry.end_offset()))
}
