//! Log records, and the blocks in which they are written.
//!
//! A block is what one write of the log takes: a header and a part of the stream of records, to a multiple of a sector. It is
//! valid if and only if its header names the position at which it is read, and its checksum is right. The epoch distinguishes it
//! from what an earlier life of the database left at the place: it grows with each recovery. A record may end in a later block
//! than it begins in.
//!
//! | bytes of a block | content |
//! | --- | --- |
//! | 0..4 | CRC-32C of the rest of the header and of the records |
//! | 4..8 | epoch |
//! | 8..16 | position in the log |
//! | 16..24 | number (LSN) of the first record that ends in it |
//! | 24..28, 28..32 | records that end in it, and all bytes of records |
//! | 32..36 | bytes at the start of a record that began in the block before |
//!
//! A record: its bytes (4), the number of pages that it changes (4), and for each the page (4) and the number of the
//! record that changed it before (8). Then zeroes for the images that a real record has.

use super::page::PageState;
use tonearm_base::crc32c;

/// Bytes of a sector, of which blocks are multiples.
pub const SECTOR: u64 = 512;
/// Bytes of a block's header.
pub const HEADER: usize = 36;
const RECORD_HEADER: usize = 8;
const CHANGE: usize = 12;

/// A page that a record changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The page.
    pub page: u32,
    /// Number of the record that changed it before; 0 for none.
    pub before: u64,
}

/// The header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub epoch: u32,
    pub position: u64,
    pub first_lsn: u64,
    pub records: u32,
    pub record_bytes: u32,
    pub continued_bytes: u32,
}

/// Appends a record of at least `bytes` bytes.
pub fn encode_record(changes: &[Change], bytes: u64, into: &mut Vec<u8>) {
    let own = RECORD_HEADER + changes.len() * CHANGE;
    let all = own.max(bytes as usize);
    let end = into.len() + all;
    into.extend((all as u32).to_le_bytes());
    into.extend((changes.len() as u32).to_le_bytes());
    for change in changes {
        into.extend(change.page.to_le_bytes());
        into.extend(change.before.to_le_bytes());
    }
    into.resize(end, 0);
}

/// Takes the record at the start of `bytes` off.
///
/// # Panics
/// When there is none: the block's checksum was right.
pub fn decode_record(bytes: &mut &[u8]) -> Vec<Change> {
    let (own, rest) = bytes.split_at(word(bytes, 0) as usize);
    *bytes = rest;
    let changes = own[RECORD_HEADER..].chunks_exact(CHANGE);
    let changes = changes.map(|change| Change {
        page: word(change, 0),
        before: long(change, 4),
    });
    changes.take(word(own, 4) as usize).collect()
}

impl Block {
    /// Bytes of the whole block.
    pub fn bytes(&self) -> u64 {
        (HEADER as u64 + u64::from(self.record_bytes)).next_multiple_of(SECTOR)
    }

    /// Number of the last record that ends in it, or of the one before if none does.
    pub fn last_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.records) - 1
    }

    /// Writes the header to the start of `bytes`, after which the records are.
    pub fn seal(&self, bytes: &mut [u8]) {
        bytes[4..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_lsn.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.records.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.record_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.continued_bytes.to_le_bytes());
        let crc = crc32c(&bytes[4..HEADER + self.record_bytes as usize]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header at the start of `bytes`, if it may be that of a block at `position` of at most `most` bytes.
    pub fn header(bytes: &[u8], position: u64, most: u64) -> Option<Self> {
        let block = Self {
            epoch: word(bytes, 4),
            position: long(bytes, 8),
            first_lsn: long(bytes, 16),
            records: word(bytes, 24),
            record_bytes: word(bytes, 28),
            continued_bytes: word(bytes, 32),
        };
        let fits = block.position == position && block.record_bytes > 0 && block.bytes() <= most;
        fits.then_some(block)
    }

    /// True when the checksum of the whole block `bytes` is right.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        crc32c(&bytes[4..HEADER + self.record_bytes as usize]) == word(bytes, 0)
    }
}

/// Where recovery begins: the paper's boot page. One sector, so that it is written as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Boot {
    /// Epoch of the present life.
    pub epoch: u32,
    /// Position in the log of the first block that is read.
    pub position: u64,
    /// The first record that recovery needs: the paper's MinLSN.
    pub first_lsn: u64,
    /// The log reaches at least to this record: the end of the checkpoint.
    pub reaches: u64,
}

impl Boot {
    /// Writes it to the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes[4..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_lsn.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.reaches.to_le_bytes());
        let crc = crc32c(&bytes[4..32]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// From the start of `bytes`, if the checksum is right.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let right = crc32c(&bytes[4..32]) == word(bytes, 0);
        right.then(|| Self {
            epoch: word(bytes, 4),
            position: long(bytes, 8),
            first_lsn: long(bytes, 16),
            reaches: long(bytes, 24),
        })
    }
}

/// Makes `change` to a page in `state`; `None` when the page lacks the change before.
pub fn redo(state: PageState, change: Change, lsn: u64) -> Option<PageState> {
    if state.lsn >= lsn {
        return Some(state);
    }
    (state.lsn == change.before).then(|| state.changed(change.page, lsn))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
