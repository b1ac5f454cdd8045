//! Recovery: from the boot page through the log to the end that the drive has kept, redoing what pages lack.
//!
//! A database cannot be recovered when a page has a change whose record is lost, or lacks a change whose record is before
//! the start of the log; or when the log does not reach to the checkpoint that the boot page names.

use super::database::{Devices, page_offset};
use super::page::PageState;
use super::record::{Block, Boot, Change, HEADER, SECTOR, decode_record, redo};
use std::collections::BTreeMap;
use std::rc::Rc;
use thiserror::Error;
use tonearm_base::BufPool;
use tonearm_device::Device;

/// Why a database cannot be recovered.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// There is no boot page.
    #[error("the boot page is damaged")]
    Boot,
    /// The log does not reach far enough.
    #[error("the log ends at record {end}, and the boot page names record {reaches}")]
    Log {
        /// Its last record.
        end: u64,
        /// What the boot page names.
        reaches: u64,
    },
    /// A page has a change that the log has not.
    #[error("page {page} has change {has}, and the log ends at record {end}")]
    Ahead {
        /// The page.
        page: u32,
        /// Its last change.
        has: u64,
        /// The last record.
        end: u64,
    },
    /// A page lacks a change that the log does not have any more.
    #[error("page {page} has change {has}, and record {lsn} expects change {before}")]
    Behind {
        /// The page.
        page: u32,
        /// Its last change.
        has: u64,
        /// The record that cannot be redone.
        lsn: u64,
        /// The change that must be there.
        before: u64,
    },
}

/// What recovery has found.
pub struct Recovered {
    /// Where the next life begins.
    pub boot: Boot,
    /// Pages that recovery has changed.
    pub redone: BTreeMap<u32, PageState>,
}

/// Reads the log and redoes it. Writes nothing.
///
/// # Errors
/// When the database cannot be recovered.
pub async fn recover(devices: &Devices, page_bytes: u32) -> Result<Recovered, Damage> {
    let memory = BufPool::new(1 << 20);
    let sector = read(&devices.data, &memory, 0, SECTOR).await;
    let boot = Boot::decode(&sector).ok_or(Damage::Boot)?;
    let (records, position) = scan(&devices.log, &memory, &boot).await;
    let end = boot.first_lsn - 1 + records.len() as u64;
    if end < boot.reaches {
        let reaches = boot.reaches;
        return Err(Damage::Log { end, reaches });
    }
    let (mut read_pages, mut redone) = (BTreeMap::new(), BTreeMap::new());
    for (lsn, changes) in (boot.first_lsn..).zip(&records) {
        for change in changes {
            let page = change.page;
            let state = match read_pages.get(&page) {
                Some(state) => *state,
                None => {
                    let at = page_offset(page, page_bytes);
                    PageState::decode(&read(&devices.data, &memory, at, SECTOR).await)
                }
            };
            if state.lsn > end {
                let has = state.lsn;
                return Err(Damage::Ahead { page, has, end });
            }
            let after = redo(state, *change, lsn).ok_or(Damage::Behind {
                page,
                has: state.lsn,
                lsn,
                before: change.before,
            })?;
            read_pages.insert(page, after);
            if after != state {
                redone.insert(page, after);
            }
        }
    }
    Ok(Recovered {
        boot: Boot {
            epoch: boot.epoch + 1,
            position,
            first_lsn: end + 1,
            reaches: end,
        },
        redone,
    })
}

/// The records from the first one that is needed, and the position after the last block.
async fn scan(log: &Rc<dyn Device>, memory: &BufPool, boot: &Boot) -> (Vec<Vec<Change>>, u64) {
    let ring = log.size_bytes();
    let (mut records, mut position) = (Vec::new(), boot.position);
    // The next record, and the start of it that the blocks so far have.
    let mut next: Option<(u64, Vec<u8>)> = None;
    loop {
        let left = boot.position + ring - position;
        if left < SECTOR {
            return (records, position);
        }
        let start = read_ring(log, memory, position, SECTOR).await;
        let follows = |block: &Block| match &next {
            Some((lsn, _)) => block.first_lsn == *lsn,
            None => block.first_lsn <= boot.first_lsn,
        };
        let block = Block::header(&start, position, left)
            .filter(|block| block.epoch == boot.epoch)
            .filter(follows);
        let Some(block) = block else {
            return (records, position);
        };
        let bytes = read_ring(log, memory, position, block.bytes()).await;
        if !block.is_whole(&bytes) {
            return (records, position);
        }
        position += block.bytes();
        let own = &bytes[HEADER..HEADER + block.record_bytes as usize];
        let (mut lsn, stream) = match next.take() {
            Some((lsn, start)) => (lsn, [&start, own].concat()),
            // The log may begin with the rest of a record that is not needed.
            None if block.continued_bytes == block.record_bytes && block.records == 0 => continue,
            None => {
                let continued = block.continued_bytes as usize;
                let first = block.first_lsn + u64::from(continued > 0);
                (first, own[continued..].to_vec())
            }
        };
        let mut rest = stream.as_slice();
        while lsn <= block.last_lsn() {
            let changes = decode_record(&mut rest);
            // The first blocks may have records that are not needed.
            if lsn >= boot.first_lsn {
                records.push(changes);
            }
            lsn += 1;
        }
        next = Some((lsn, rest.to_vec()));
    }
}

async fn read_ring(log: &Rc<dyn Device>, memory: &BufPool, position: u64, len: u64) -> Vec<u8> {
    let ring = log.size_bytes();
    let offset = position % ring;
    let first = len.min(ring - offset);
    let mut bytes = read(log, memory, offset, first).await;
    if first < len {
        bytes.extend(read(log, memory, 0, len - first).await);
    }
    bytes
}

async fn read(device: &Rc<dyn Device>, memory: &BufPool, at: u64, len: u64) -> Vec<u8> {
    let read = device.read(at, memory.alloc(len as usize)).await;
    read.expect("a simulated drive reads").to_vec()
}

/// Compares all pages with the first `end` records of `history`. Returns how many pages differ.
pub fn audit(history: &[(u64, u32)], end: u64, read: impl Fn(u32) -> PageState) -> u64 {
    let mut expected: BTreeMap<u32, PageState> = BTreeMap::new();
    for (lsn, page) in history {
        let state = expected.entry(*page).or_default();
        if *lsn <= end {
            *state = state.changed(*page, *lsn);
        }
    }
    let wrong = expected
        .iter()
        .filter(|(page, state)| read(**page) != **state);
    wrong.count() as u64
}
