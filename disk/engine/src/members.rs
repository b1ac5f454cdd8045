//! The members of a store: which devices belong together, in which order.

use crate::error::{EngineError, UnreadableSlot};
use crate::superblocks::{self, MemberDevice};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_device::stack::{self, Storage};
use tonearm_format::{HEADER_AREA_BYTES, Superblock};

/// The members of a store that belong together.
pub(crate) struct Assembled {
    /// The superblock that counts.
    pub superblock: Superblock,
    /// The members in the store's order.
    pub devices: Vec<Rc<dyn Device>>,
    /// Superblock slots that could not be read.
    pub unreadable: Vec<UnreadableSlot>,
}

/// As [`assemble_any`], of a store that is complete.
pub(crate) async fn assemble(
    pool: &BufPool,
    members: Vec<MemberDevice>,
    storage: Storage,
) -> Result<Assembled, EngineError> {
    let primary = members.first().map(|member| member.path.clone());
    let assembled = assemble_any(pool, members, storage).await?;
    match primary.filter(|_| assembled.superblock.incomplete) {
        Some(member) => Err(EngineError::Incomplete { member }),
        None => Ok(assembled),
    }
}

/// Brings the members into the store's order and checks that they belong together.
pub(crate) async fn assemble_any(
    pool: &BufPool,
    members: Vec<MemberDevice>,
    storage: Storage,
) -> Result<Assembled, EngineError> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for member in members {
        let loaded = superblocks::load(pool, &member).await?;
        unreadable.extend(loaded.unreadable_slots);
        found.push((member, loaded.superblock));
    }
    let wrong = |member: &MemberDevice, why: String| EngineError::WrongMember {
        member: member.path.clone(),
        why,
    };
    let (primary, first) = found
        .first()
        .ok_or(EngineError::Create("no member was given".into()))?;
    let (store, count) = (first.store, first.members.len());
    let mut ordered: Vec<Option<(MemberDevice, Superblock)>> = (0..count).map(|_| None).collect();
    let names: Vec<String> = first
        .members
        .iter()
        .map(|member| member.path.clone())
        .collect();
    let primary = primary.path.clone();
    for (member, superblock) in found {
        if superblock.store != store {
            let why = format!(
                "is a member of another store than {primary}; name the right file with --member"
            );
            return Err(wrong(&member, why));
        }
        let index = usize::from(superblock.member_index);
        match ordered.get_mut(index) {
            Some(slot @ None) => *slot = Some((member, superblock)),
            _ => {
                return Err(wrong(
                    &member,
                    format!("member {index} of the store was given twice"),
                ));
            }
        }
    }
    let mut members = Vec::new();
    for (index, slot) in ordered.into_iter().enumerate() {
        match slot {
            Some(pair) => members.push(pair),
            None => {
                return Err(EngineError::WrongMember {
                    member: names[index].clone(),
                    why: format!(
                        "member {index} of the store is missing; name its place with --member"
                    ),
                });
            }
        }
    }
    let log_index = usize::from(members[0].1.log_member);
    let log = members[log_index].1.clone();
    for (member, superblock) in &members {
        // The data members are written first, so they may be one update ahead, never behind.
        let ahead = superblock.generation.checked_sub(log.generation);
        if !matches!(ahead, Some(0 | 1)) {
            let why = format!(
                "was not in use together with the rest of the store (update {}, the log has {}): \
                 it is an old copy, or the others are; restore members of one moment",
                superblock.generation, log.generation
            );
            return Err(wrong(member, why));
        }
        check_size(member, superblock, usize::from(superblock.member_index))?;
    }
    // The log member's superblock counts. A data member that is ahead has seen an update that never reached
    // the log member: the next update takes the same number and replaces it.
    let devices = members.into_iter();
    let devices = devices.map(|(member, _)| stack::build(member.device, storage));
    Ok(Assembled {
        superblock: log,
        devices: devices.collect(),
        unreadable,
    })
}

fn check_size(
    member: &MemberDevice,
    superblock: &Superblock,
    index: usize,
) -> Result<(), EngineError> {
    let entry = &superblock.members[index];
    let mut needed = HEADER_AREA_BYTES;
    needed = needed.max(superblock.log_range(index).end);
    if entry.roles.data {
        needed = needed.max(superblock.data_end(index));
    }
    let found = member.device.size_bytes();
    if found < needed {
        return Err(EngineError::Truncated {
            member: member.path.clone(),
            found,
            needed,
        });
    }
    Ok(())
}
