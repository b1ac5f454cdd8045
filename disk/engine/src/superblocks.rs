//! Reading and writing the superblocks of all members.
//!
//! Every update has the next generation. It goes to two of the four slots of each member first, so that a power cut in
//! its middle leaves the older update whole. Once it is durable there, the other two slots follow, so that damage to
//! two copies does not bring back an older state. The first two slots are those without the member's newest generation,
//! if there are such: after several power cuts in a row the other two may be the only valid ones. A slot that cannot be
//! read counts as invalid, and is written anew with the others.
//!
//! The data members are written and flushed before the log member. The log member's superblock counts, so it never
//! names an epoch that a data member does not have.

use crate::error::{EngineError, UnreadableSlot};
use std::cmp::Ordering;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_format::{FormatError, SECTOR, SUPERBLOCK_SLOTS, Superblock, superblock_offset};
use tonearm_rt::Data;

/// A member as the opener found it.
#[derive(Clone)]
pub struct MemberDevice {
    /// The device.
    pub device: Rc<dyn Device>,
    /// Its path, for messages.
    pub path: String,
}

impl MemberDevice {
    /// A member whose path is the name of its device.
    pub fn new(device: Rc<dyn Device>) -> Self {
        let path = device.name().to_string();
        Self { device, path }
    }
}

/// The contents of the superblock slots of one member.
pub struct MemberSuperblock {
    /// The newest valid copy.
    pub superblock: Superblock,
    /// Slots with a valid copy, of any generation.
    pub valid_slots: u64,
    /// Slots that hold neither a valid copy nor zeroes.
    pub damaged_slots: Vec<u64>,
    /// Slots that the device could not read.
    pub unreadable_slots: Vec<UnreadableSlot>,
}

/// Reads the newest valid superblock of `device`.
///
/// # Errors
/// When no slot has one; every slot that cannot be read is named.
pub async fn load(pool: &BufPool, member: &MemberDevice) -> Result<MemberSuperblock, EngineError> {
    let mut best: Option<Superblock> = None;
    let (mut valid_slots, mut damaged_slots, mut cause) = (0, Vec::new(), None);
    let mut unreadable_slots = Vec::new();
    for slot in 0..SUPERBLOCK_SLOTS {
        let offset = superblock_offset(slot);
        if offset + SECTOR as u64 > member.device.size_bytes() {
            continue;
        }
        let read = member.device.read(offset, pool.alloc(SECTOR)).await;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                unreadable_slots.push(UnreadableSlot {
                    member: member.path.clone(),
                    slot,
                    offset,
                    error,
                });
                continue;
            }
        };
        match Superblock::decode(&bytes) {
            Ok(found) => {
                valid_slots += 1;
                if best
                    .as_ref()
                    .is_none_or(|best| best.generation < found.generation)
                {
                    best = Some(found);
                }
            }
            Err(error) => {
                if bytes.iter().any(|byte| *byte != 0) {
                    damaged_slots.push(slot);
                }
                if cause
                    .as_ref()
                    .is_none_or(|cause| rank(cause) < rank(&error))
                {
                    cause = Some(error);
                }
            }
        }
    }
    if let Some(superblock) = best {
        return Ok(MemberSuperblock {
            superblock,
            valid_slots,
            damaged_slots,
            unreadable_slots,
        });
    }
    if !unreadable_slots.is_empty() {
        return Err(EngineError::SuperblocksUnreadable {
            member: member.path.clone(),
            slots: unreadable_slots,
        });
    }
    let path = member.path.clone();
    match cause.unwrap_or(FormatError::Signature("superblock")) {
        cause @ (FormatError::Signature(_) | FormatError::Version { .. }) => {
            Err(EngineError::NotAStore {
                member: path,
                cause,
            })
        }
        cause => Err(EngineError::SuperblockLost {
            member: path,
            copies: SUPERBLOCK_SLOTS,
            cause,
        }),
    }
}

/// The most useful reason is the highest: another version, then damage, then no superblock.
fn rank(error: &FormatError) -> u32 {
    match error {
        FormatError::Version { .. } => 3,
        FormatError::Inconsistent { .. } | FormatError::Number { .. } => 2,
        FormatError::Checksum(_) => 1,
        FormatError::Signature(_) => 0,
    }
}

/// Makes durable what an earlier process has left in the caches of `members`. It may have ended between the writes of an update and
/// their flush. The opening has read that update and builds on it: if a power cut took it back, the members would be of different
/// moments, or the only whole copy of one would be the one that is written now.
///
/// # Errors
/// When a member cannot be flushed.
pub async fn make_durable(members: &[Rc<dyn Device>]) -> Result<(), EngineError> {
    for device in members {
        let flushed = device.flush().await;
        flushed.map_err(|error| EngineError::Superblock {
            member: device.name().to_string(),
            what: "flushing",
            error,
        })?;
    }
    Ok(())
}

/// Writes `superblock` (with the right member index each) to all members and makes it durable.
///
/// # Errors
/// When a member cannot be written, or the superblock breaks a rule of the format (its numbers are used up): the older
/// superblock is whole then.
pub async fn store(
    pool: &BufPool,
    members: &[Rc<dyn Device>],
    superblock: &Superblock,
    flush: bool,
) -> Result<(), EngineError> {
    let log = usize::from(superblock.log_member);
    superblock
        .check()
        .map_err(|cause| EngineError::SuperblockRefused {
            member: members[log].name().to_string(),
            cause,
        })?;
    let order = (0..members.len())
        .filter(|index| *index != log)
        .chain([log]);
    for index in order {
        let device = &members[index];
        let failed = |what, error| EngineError::Superblock {
            member: device.name().to_string(),
            what,
            error,
        };
        let own = Superblock {
            member_index: index as u16,
            ..superblock.clone()
        };
        let bytes = own.encode();
        let first = first_pair(pool, device, superblock.generation).await;
        for pair in [first, (first + 2) % SUPERBLOCK_SLOTS] {
            for slot in [pair, pair + 1] {
                let data = Data::whole(pool.copy_of(&bytes));
                let written = device.write(superblock_offset(slot), data).await;
                written.map_err(|error| failed("writing", error))?;
            }
            if flush {
                let flushed = device.flush().await;
                flushed.map_err(|error| failed("flushing", error))?;
            }
        }
    }
    Ok(())
}

/// The first slot of the pair to which an update of `generation` goes first.
async fn first_pair(pool: &BufPool, device: &Rc<dyn Device>, generation: u64) -> u64 {
    let mut newest = [None; 2];
    for slot in 0..SUPERBLOCK_SLOTS {
        let offset = superblock_offset(slot);
        if offset + SECTOR as u64 > device.size_bytes() {
            continue;
        }
        // A slot that cannot be read counts as torn.
        let bytes = device.read(offset, pool.alloc(SECTOR)).await;
        let found = bytes.ok().and_then(|bytes| Superblock::decode(&bytes).ok());
        let pair = &mut newest[(slot / 2) as usize];
        *pair = (*pair).max(found.map(|found| found.generation));
    }
    match newest[0].cmp(&newest[1]) {
        Ordering::Less => 0,
        Ordering::Greater => 2,
        Ordering::Equal => generation % 2 * 2,
    }
}
