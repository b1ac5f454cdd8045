//! The changes of a commit, and how they become the log's records, which have a type of their own
//! (`tonearm_trail::Change`). If the log has a block's image ([`Slot::image`](crate::pinned::Slot::image)), it records
//! only the words that change, as long as they take at most half of the block's space. Otherwise it records the whole
//! block.

use crate::pinned::{LogRetention, Moved, Pinned};
use tonearm_base::{Lsn, Slice, crc32c};
use tonearm_format::ENTRY_BYTES;
use tonearm_trail::{Change, Word, patch_slots};

/// Bytes of one comparison.
const STRIDE: usize = 256;
/// Words that are compared before all others, evenly spread.
const PROBES: usize = 8;
/// Most equal words that are logged between two that differ: they take less space than another entry.
const GAP_MAX: u32 = 2;

/// One change of a commit. Blocks are home blocks.
#[derive(Clone, Debug)]
pub enum CommitChange {
    /// Adjacent blocks get new content.
    Write {
        /// First block.
        first: u64,
        /// Content, a whole number of blocks.
        data: Slice,
    },
    /// A range becomes holes.
    Trim {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// A range reads as zeroes and keeps its space.
    Zero {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// Adjacent blocks get the content of other blocks. Those are durable at home, and do not change until no recovery
    /// can see this change ([`Engine::spill`](crate::Engine::spill)).
    Move {
        /// First block that gets content.
        to: u64,
        /// First block that has it.
        from: u64,
        /// CRC-32C of each block.
        crcs: Vec<u32>,
    },
}

impl CommitChange {
    /// First block that changes, and how many do.
    ///
    /// # Panics
    /// When a write is not a whole number of blocks, or nothing changes.
    pub(crate) fn blocks(&self, block_size: usize) -> (u64, u64) {
        match self {
            Self::Write { first, data } => {
                let whole = !data.is_empty() && data.len().is_multiple_of(block_size);
                assert!(whole, "whole blocks");
                (*first, (data.len() / block_size) as u64)
            }
            Self::Trim { first, count } | Self::Zero { first, count } => (*first, *count),
            Self::Move { to, crcs, .. } => {
                assert!(!crcs.is_empty(), "some blocks");
                (*to, crcs.len() as u64)
            }
        }
    }
}

/// Puts the changes of commit `lsn` into the pinned set, and gives what the log records of them.
pub(crate) fn record(
    pinned: &mut Pinned,
    lsn: Lsn,
    changes: Vec<CommitChange>,
    block_size: usize,
    holds: &dyn LogRetention,
) -> Vec<Change> {
    let mut recorded = Vec::with_capacity(changes.len());
    for change in changes {
        match change {
            CommitChange::Write { first, data } => {
                for (block, at) in (first..).zip((0..data.len()).step_by(block_size)) {
                    let part = data.slice(at..at + block_size);
                    record_block(pinned, lsn, block, part, holds, &mut recorded);
                }
            }
            CommitChange::Trim { first, count } => {
                pinned.zero(lsn, first, count, false, holds);
                recorded.push(Change::Trim { first, count });
            }
            CommitChange::Zero { first, count } => {
                pinned.zero(lsn, first, count, true, holds);
                recorded.push(Change::Zero { first, count });
            }
            CommitChange::Move { to, from, crcs } => {
                for ((block, from), crc) in (to..).zip(from..).zip(&crcs) {
                    let crc = *crc;
                    pinned.moved(lsn, Moved { block, from, crc }, holds);
                }
                recorded.push(Change::Move { to, from, crcs });
            }
        }
    }
    recorded
}

fn record_block(
    pinned: &mut Pinned,
    lsn: Lsn,
    block: u64,
    data: Slice,
    holds: &dyn LogRetention,
    recorded: &mut Vec<Change>,
) {
    let slot = pinned.slot(block);
    if let Some(words) = slot.image().and_then(|old| difference(old, &data)) {
        slot.put(lsn, lsn, data, None, holds);
        recorded.push(Change::Patch { block, words });
        return;
    }
    let crc = crc32c(&data);
    slot.put(lsn, lsn, data.clone(), Some(crc), holds);
    match recorded.last_mut() {
        Some(Change::Write {
            first,
            data: before,
            crcs,
        }) if *first + crcs.len() as u64 == block && before.is_followed_by(&data) => {
            *before = before.joined(&data);
            crcs.push(crc);
        }
        _ => recorded.push(Change::Write {
            first: block,
            data,
            crcs: vec![crc],
        }),
    }
}

/// The words by which `new` differs from `old`, of the same length; `None` when they would take more than half of the
/// block's space in the log, or probably would. At least one word, even if none differs.
pub(crate) fn difference(old: &[u8], new: &[u8]) -> Option<Vec<Word>> {
    if is_all_new(old, new) {
        return None;
    }
    let most = new.len() / 2;
    let strides = || old.chunks(STRIDE).zip(new.chunks(STRIDE)).enumerate();
    // The first pass counts, so that blocks with too many differences cost no memory.
    let mut differing = 0;
    for (_, (old, new)) in strides() {
        if old != new {
            let pairs = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
            differing += pairs.filter(|(old, new)| old != new).count();
            if 8 * differing > most {
                return None;
            }
        }
    }
    let mut words: Vec<Word> = Vec::with_capacity(differing.max(1));
    for (index, (old, part)) in strides().filter(|(_, (old, new))| old != new) {
        let pairs = old.as_chunks::<8>().0.iter().zip(part.as_chunks::<8>().0);
        for (word, _) in pairs.enumerate().filter(|(_, (old, new))| old != new) {
            let at = (index * STRIDE + 8 * word) as u32;
            if let Some(before) = words.last().map(|last| last.at)
                && at - before <= 8 * (GAP_MAX + 1)
            {
                words.extend((before + 8..at).step_by(8).map(|at| word_at(new, at)));
            }
            words.push(word_at(new, at));
        }
    }
    if words.is_empty() {
        words.push(word_at(new, 0));
    }
    (patch_slots(&words) * ENTRY_BYTES as u64 <= most as u64).then_some(words)
}

/// True when all of the words that are compared first differ. Then the old version, which has often left the
/// processor's cache, is not read to its end. Of blocks in which half of the words differ at random, one in 256 is
/// taken for new.
pub(crate) fn is_all_new(old: &[u8], new: &[u8]) -> bool {
    let part = new.len() / PROBES;
    (0..PROBES).all(|probe| {
        // In the middle of each part: contents often have headers at the beginning of a sector.
        let at = (probe * part + part / 2) / 8 * 8;
        old[at..at + 8] != new[at..at + 8]
    })
}

fn word_at(block: &[u8], at: u32) -> Word {
    let start = at as usize;
    let bytes = block[start..start + 8].try_into();
    Word {
        at,
        value: u64::from_le_bytes(bytes.expect("eight bytes")),
    }
}
