//! What the log records of a commit: of a block whose image it has ([`Slot::image`](crate::pinned::Slot::image)) the
//! words that change, as long as they take at most half of the block's space, otherwise the whole block.

use crate::commit::CommitChange;
use crate::difference::difference;
use crate::pinned::{Holds, Moved, Pinned};
use tonearm_base::{Lsn, Slice, crc32c};
use tonearm_trail::Change;

/// Puts the changes of commit `lsn` into the pinned set, and gives what the log records of them.
pub(crate) fn record(
    pinned: &mut Pinned,
    lsn: Lsn,
    changes: Vec<CommitChange>,
    block_size: usize,
    holds: &dyn Holds,
) -> Vec<Change> {
    let mut recorded = Vec::with_capacity(changes.len());
    for change in changes {
        match change {
            CommitChange::Write { first, data } => {
                record_write(pinned, lsn, first, &data, block_size, holds, &mut recorded);
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

fn record_write(
    pinned: &mut Pinned,
    lsn: Lsn,
    first: u64,
    data: &Slice,
    block_size: usize,
    holds: &dyn Holds,
    recorded: &mut Vec<Change>,
) {
    let blocks = data.len() / block_size;
    // Blocks before this one are recorded.
    let mut done = 0;
    let mut crcs = Vec::new();
    let images = |done: usize, end: usize, crcs: Vec<u32>, recorded: &mut Vec<Change>| {
        if done < end {
            recorded.push(Change::Write {
                first: first + done as u64,
                data: data.slice(done * block_size..end * block_size),
                crcs,
            });
        }
    };
    for index in 0..blocks {
        let block = first + index as u64;
        let part = data.slice(index * block_size..(index + 1) * block_size);
        let slot = pinned.slot(block);
        match slot.image().and_then(|old| difference(old, &part)) {
            Some(words) => {
                slot.put(lsn, lsn, part, None, holds);
                images(done, index, std::mem::take(&mut crcs), recorded);
                recorded.push(Change::Patch { block, words });
                done = index + 1;
            }
            None => {
                let crc = crc32c(&part);
                slot.put(lsn, lsn, part, Some(crc), holds);
                crcs.push(crc);
            }
        }
    }
    images(done, blocks, crcs, recorded);
}
