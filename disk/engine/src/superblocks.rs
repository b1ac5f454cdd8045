//! Reading and writing the superblocks of all members.
//!
//! Every update has the next generation. It goes to one pair of slots of each member first, at the front of the member or
//! at its end, so that a power cut in its middle leaves the older update whole. Once it is durable there, the other pair
//! follows, so that the loss of either end does not bring back an older state. The first pair is the one without the
//! member's newest generation, if there is such: after several power cuts in a row the other one may be the only valid one
//! (`copies.rs`). A slot that cannot be read counts as invalid, and is written anew with the others.
//!
//! A member that has another size than at the last update opens from the front, and the update goes to its new end first.
//!
//! The data members are written and flushed before the log member. The log member's superblock counts, so it never
//! names an epoch that a data member does not have.

use crate::copies::Copies;
use crate::error::{EngineError, UnreadableSlot};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_format::{
    FormatError, SECTOR, SUPERBLOCK_SLOTS, Superblock, superblock_offset, trailer_offset,
};
use tonearm_rt::{Data, IoError};

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
    /// Slots with a valid copy of this superblock, of any generation.
    pub valid_slots: u64,
    /// Slots that hold anything else: also those at the end of a member whose size has changed since the last update.
    pub damaged_slots: Vec<u64>,
    /// Slots that the device could not read.
    pub unreadable_slots: Vec<UnreadableSlot>,
}

/// What the slots of a device hold.
#[derive(Default)]
struct Slots {
    copies: Copies<Superblock>,
    /// Slots that the device could not read.
    unreadable: Vec<(u64, IoError)>,
    /// The most useful reason why a copy is not valid.
    cause: Option<FormatError>,
}

impl Slots {
    async fn read(pool: &BufPool, device: &Rc<dyn Device>) -> Self {
        let (mut slots, size) = (Self::default(), device.size_bytes());
        for slot in 0..SUPERBLOCK_SLOTS {
            let offset = superblock_offset(slot, size);
            if offset + SECTOR as u64 > size {
                continue;
            }
            match device.read(offset, pool.alloc(SECTOR)).await {
                Ok(bytes) => slots.decode(slot, &bytes),
                Err(error) => slots.unreadable.push((slot, error)),
            }
        }
        slots.copies.drop_foreign(trailer_offset(size));
        slots
    }

    fn decode(&mut self, slot: u64, bytes: &[u8]) {
        match Superblock::decode(bytes) {
            Ok(found) => self.copies.put(slot, found),
            Err(error) => {
                let known = self.cause.as_ref();
                if known.is_none_or(|known| rank(known) < rank(&error)) {
                    self.cause = Some(error);
                }
            }
        }
    }
}

/// Reads the newest valid superblock of `device`.
///
/// # Errors
/// When no slot has one; every slot that cannot be read is named.
pub async fn load(pool: &BufPool, member: &MemberDevice) -> Result<MemberSuperblock, EngineError> {
    let Slots {
        copies,
        unreadable,
        cause,
    } = Slots::read(pool, &member.device).await;
    let missing_slots = copies.missing();
    let unreadable_slots: Vec<UnreadableSlot> = unreadable
        .into_iter()
        .map(|(slot, error)| UnreadableSlot {
            member: member.path.clone(),
            slot,
            offset: superblock_offset(slot, member.device.size_bytes()),
            error,
        })
        .collect();
    if let Some((superblock, _)) = copies.into_newest() {
        let is_readable = |slot: &u64| unreadable_slots.iter().all(|other| other.slot != *slot);
        return Ok(MemberSuperblock {
            superblock,
            valid_slots: SUPERBLOCK_SLOTS - missing_slots.len() as u64,
            damaged_slots: missing_slots.into_iter().filter(is_readable).collect(),
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
        let size = device.size_bytes();
        let own = Superblock {
            member_index: index as u16,
            trailer_offset: trailer_offset(size),
            ..superblock.clone()
        };
        let bytes = own.encode();
        let slots = Slots::read(pool, device).await;
        let first = slots.copies.first_pair(superblock.generation);
        for pair in [first, (first + 2) % SUPERBLOCK_SLOTS] {
            for slot in [pair, pair + 1] {
                let data = Data::whole(pool.copy_of(&bytes));
                let written = device.write(superblock_offset(slot, size), data).await;
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
