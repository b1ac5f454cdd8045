//! Lists of blocks: the records of lists and blocks, and their places in the lists area. Byte table:
//! `docs/format/lists.md`. A record of zero bytes is free, so a hole is a page of free records.

use crate::FormatError;

/// Bytes of a record of a list or a block.
pub const LIST_RECORD_BYTES: u32 = 16;
/// Identifiers of lists and blocks, and the length of a list, are below this.
pub const LIST_ID_LIMIT: u64 = 1 << 40;

const ID_MASK: u64 = LIST_ID_LIMIT - 1;
/// Bits of the third field of a record that its first word holds; the second has the rest.
const LOW_BITS: u32 = 24;
const USED: u64 = 1;

/// Division of the area into zones. A zone has a page of list records, a page of block records, and a block of data for
/// each block record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zones {
    records: u64,
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecordAt {
    /// Block of the area that is its page.
    pub page: u64,
    /// Byte offset in the page.
    pub at: u32,
}

impl Zones {
    /// Zones of blocks of `block_size` bytes.
    pub fn new(block_size: u32) -> Self {
        Self {
            records: u64::from(block_size / LIST_RECORD_BYTES),
        }
    }

    /// Blocks of a zone.
    pub fn blocks(&self) -> u64 {
        self.records + 2
    }

    /// Lists of a zone, and blocks of data of a whole one.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Zone of a block of the area.
    pub fn zone_of_block(&self, block: u64) -> u64 {
        block / self.blocks()
    }

    /// Zone of the record of a list.
    pub fn zone_of_list(&self, list: u64) -> u64 {
        list.saturating_sub(1) / self.records
    }

    /// The page of a zone that holds list records.
    pub fn list_page(&self, zone: u64) -> u64 {
        zone * self.blocks()
    }

    /// The page of a zone that holds block records.
    pub fn block_page(&self, zone: u64) -> u64 {
        zone * self.blocks() + 1
    }

    /// The list whose record is number `slot` of its zone.
    pub fn list(&self, zone: u64, slot: u64) -> u64 {
        zone * self.records + slot + 1
    }

    /// The block of data whose record is number `slot` of its zone.
    pub fn block(&self, zone: u64, slot: u64) -> u64 {
        zone * self.blocks() + 2 + slot
    }

    /// The record of a block. `None` when the block is a page, or no block of the area.
    pub fn block_record(&self, block: u64) -> Option<RecordAt> {
        if block >= LIST_ID_LIMIT {
            return None;
        }
        let zone = self.zone_of_block(block);
        let slot = (block % self.blocks()).checked_sub(2)?;
        Some(RecordAt {
            page: self.block_page(zone),
            at: slot as u32 * LIST_RECORD_BYTES,
        })
    }

    /// The record of a list. `None` when the number is not that of a list.
    pub fn list_record(&self, list: u64) -> Option<RecordAt> {
        let number = list.checked_sub(1).filter(|_| list < LIST_ID_LIMIT)?;
        Some(RecordAt {
            page: self.list_page(number / self.records),
            at: (number % self.records) as u32 * LIST_RECORD_BYTES,
        })
    }
}

/// A block that is on a list. 0 stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockRecord {
    /// The next block of the list.
    pub next: u64,
    /// The block before it.
    pub prev: u64,
    /// The list.
    pub list: u64,
}

/// A list. 0 stands for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListRecord {
    /// Its first block.
    pub first: u64,
    /// Its last block.
    pub last: u64,
    /// Its blocks.
    pub count: u64,
}

fn pack(a: u64, b: u64, c: u64) -> [u64; 2] {
    assert!(
        a.max(b).max(c) < LIST_ID_LIMIT,
        "an identifier has at most 40 bits"
    );
    let low = c & ((1 << LOW_BITS) - 1);
    [a | low << 40, b | (c >> LOW_BITS) << 40 | USED << 56]
}

fn unpack(words: [u64; 2], what: &'static str) -> Result<Option<(u64, u64, u64)>, FormatError> {
    if words == [0; 2] {
        return Ok(None);
    }
    if words[1] >> 56 != USED {
        let why = "its state is neither free nor used";
        return Err(FormatError::Inconsistent { what, why });
    }
    let c = words[0] >> 40 | (words[1] >> 40 & 0xffff) << LOW_BITS;
    Ok(Some((words[0] & ID_MASK, words[1] & ID_MASK, c)))
}

impl BlockRecord {
    /// The two words of a record.
    ///
    /// # Panics
    /// When an identifier is not below [`LIST_ID_LIMIT`].
    pub fn encode(record: Option<Self>) -> [u64; 2] {
        record.map_or([0; 2], |record| pack(record.next, record.prev, record.list))
    }

    /// Reads a record; `None` when it is free.
    ///
    /// # Errors
    /// When the words are no record.
    pub fn decode(words: [u64; 2]) -> Result<Option<Self>, FormatError> {
        const WHAT: &str = "block record";
        match unpack(words, WHAT)? {
            None => Ok(None),
            Some((_, _, 0)) => Err(FormatError::Inconsistent {
                what: WHAT,
                why: "it is used and on no list",
            }),
            Some((next, prev, list)) => Ok(Some(Self { next, prev, list })),
        }
    }
}

impl ListRecord {
    /// The two words of a record.
    ///
    /// # Panics
    /// When a field is not below [`LIST_ID_LIMIT`].
    pub fn encode(record: Option<Self>) -> [u64; 2] {
        record.map_or([0; 2], |record| {
            pack(record.first, record.last, record.count)
        })
    }

    /// Reads a record; `None` when it is free.
    ///
    /// # Errors
    /// When the words are no record.
    pub fn decode(words: [u64; 2]) -> Result<Option<Self>, FormatError> {
        const WHAT: &str = "list record";
        let Some((first, last, count)) = unpack(words, WHAT)? else {
            return Ok(None);
        };
        if (first == 0) != (count == 0) || (last == 0) != (count == 0) {
            return Err(FormatError::Inconsistent {
                what: WHAT,
                why: "its ends and its length do not agree",
            });
        }
        Ok(Some(Self { first, last, count }))
    }
}
