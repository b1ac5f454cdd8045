//! The members of a store: which devices belong together, in which order.

use crate::error::{EngineError, UnreadableSlot};
use crate::options::OpenOptions;
use crate::superblocks::{self, MemberDevice};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_device::stack::{self, Storage};
use tonearm_format::Superblock;
use tonearm_trail::WriteCache;

/// The members of a store that belong together.
pub(crate) struct Assembled {
    /// The superblock that counts.
    pub superblock: Superblock,
    /// The members in the store's order.
    pub devices: Vec<Rc<dyn Device>>,
    /// Superblock slots that could not be read.
    pub unreadable: Vec<UnreadableSlot>,
}

/// Brings the members into the store's order and checks that they belong together, and that the store is complete unless the
/// `options` take one that is not.
pub(crate) async fn assemble(
    pool: &BufPool,
    members: Vec<MemberDevice>,
    options: &OpenOptions,
) -> Result<Assembled, EngineError> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for member in members {
        let loaded = superblocks::load(pool, &member).await?;
        unreadable.extend(loaded.unreadable_slots);
        found.push((member, loaded.superblock));
    }
    let primary = found.first().map(|(member, _)| member.path.clone());
    let members = in_order(found)?;
    let superblock = newest(&members)?.clone();
    if let Some(member) = primary.filter(|_| superblock.incomplete && !options.incomplete) {
        return Err(EngineError::Incomplete { member });
    }
    let storage = Storage {
        ordered: options.write_cache == WriteCache::Ordered,
    };
    let devices = members.into_iter();
    let devices = devices.map(|(member, _)| stack::build(member.device, storage));
    Ok(Assembled {
        superblock,
        devices: devices.collect(),
        unreadable,
    })
}

fn wrong(member: &MemberDevice, why: String) -> EngineError {
    EngineError::WrongMember {
        member: member.path.clone(),
        why,
    }
}

/// The members in the order of the store that the first one names; each must be there once.
fn in_order(
    found: Vec<(MemberDevice, Superblock)>,
) -> Result<Vec<(MemberDevice, Superblock)>, EngineError> {
    let (primary, first) = found
        .first()
        .ok_or(EngineError::Create("no member was given".into()))?;
    let (primary, first) = (primary.path.clone(), first.clone());
    let mut ordered: Vec<_> = first.members.iter().map(|_| None).collect();
    for (member, superblock) in found {
        if superblock.store != first.store {
            let why = format!(
                "is a member of another store than {primary}; name the right file with --member"
            );
            return Err(wrong(&member, why));
        }
        let index = usize::from(superblock.member_index);
        match ordered.get_mut(index) {
            Some(slot @ None) => *slot = Some((member, superblock)),
            _ => {
                let why = format!("member {index} of the store was given twice");
                return Err(wrong(&member, why));
            }
        }
    }
    let there = ordered.into_iter().zip(&first.members).enumerate();
    let there = there.map(|(index, (member, entry))| {
        member.ok_or_else(|| EngineError::WrongMember {
            member: entry.path.clone(),
            why: format!("member {index} of the store is missing; name its place with --member"),
        })
    });
    there.collect()
}

/// The superblock that counts: that of the log member. A data member that is ahead has seen an update that never reached the
/// log member: the next update takes the same number and replaces it.
fn newest(members: &[(MemberDevice, Superblock)]) -> Result<&Superblock, EngineError> {
    let log = &members[usize::from(members[0].1.log_member)].1;
    for (member, superblock) in members {
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
    Ok(log)
}

fn check_size(
    member: &MemberDevice,
    superblock: &Superblock,
    index: usize,
) -> Result<(), EngineError> {
    let needed = superblock.member_bytes(index);
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
