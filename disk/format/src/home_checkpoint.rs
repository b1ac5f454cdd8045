//! Checkpoint of the segments layout: the root of the block map, the place where the chain of partial segments
//! continues, and the segment table. Byte table: `docs/format/segments.md`.

use crate::error::check_numbers;
use crate::geometry::{COUNTER_MAX, SECTOR};
use crate::map_page::{MAP_ENTRY_BYTES, MapEntry};
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};

const MAGIC: [u8; 8] = *b"TACHKPNT";
const WHAT: &str = "checkpoint";
const HAS_HOLES: u16 = 1 << 15;
const HAS_NOTES: u16 = 1;
const HAS_INDIRECT: u16 = 2;
/// Largest number of a partial segment with which a home opens. As many again can follow before places and versions have
/// no room for them.
pub const PARTIAL_SEQ_MAX: u64 = 1 << 47;

/// The first sector of a checkpoint slot; the segment table follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HomeCheckpoint {
    /// Identity of the store.
    pub store: Uuid,
    /// Number of the checkpoint; the highest counts.
    pub generation: u64,
    /// Number of the opening of the home: partial segments of other epochs do not follow this checkpoint.
    pub epoch: u64,
    /// Number of the next partial segment.
    pub seq: u64,
    /// The block where it begins.
    pub head: u64,
    /// Its number in its segment.
    pub partial: u32,
    /// Levels of the block map.
    pub levels: u32,
    /// The top page of the block map.
    pub root: MapEntry,
    /// Segments, and entries of the table.
    pub segments: u64,
    /// CRC-32C of the table's bytes.
    pub table_crc: u32,
}

impl HomeCheckpoint {
    /// The checkpoint's first sector.
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.store);
        for (at, value) in [
            (32, self.generation),
            (40, self.epoch),
            (48, self.seq),
            (56, self.head),
            (72, self.segments),
        ] {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [(64, self.partial), (68, self.levels), (80, self.table_crc)] {
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        out[96..96 + MAP_ENTRY_BYTES].copy_from_slice(&self.root.encode());
        seal(&mut out);
        out
    }

    /// Reads a checkpoint's first sector.
    ///
    /// # Errors
    /// When the bytes are no checkpoint, torn, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() != SECTOR || bytes[0..8] != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        check(WHAT, bytes, word(8), word(12))?;
        let numbers = [("generation", long(32)), ("epoch", long(40))];
        check_numbers(WHAT, COUNTER_MAX, &numbers)?;
        check_numbers(WHAT, PARTIAL_SEQ_MAX, &[("seq", long(48))])?;
        Ok(Self {
            store: bytes[16..32].try_into().expect("sixteen"),
            generation: long(32),
            epoch: long(40),
            seq: long(48),
            head: long(56),
            partial: word(64),
            levels: word(68),
            root: MapEntry::decode(&bytes[96..96 + MAP_ENTRY_BYTES]),
            segments: long(72),
            table_crc: word(80),
        })
    }
}

/// Entry of a segment in the segment table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentEntry {
    /// Live blocks, pages of the map included.
    pub live: u16,
    /// It holds tombstones, which the cleaner may have to carry on.
    pub has_holes: bool,
    /// It holds notes of blocks that were overwritten in place, which the cleaner may have to carry on.
    pub has_notes: bool,
    /// The log may still name places in it.
    pub has_indirect: bool,
    /// Number of its first partial segment; 0 when it was never written.
    pub first: u64,
    /// Youngest version in it.
    pub age: u64,
}

impl SegmentEntry {
    /// Most live blocks.
    pub const LIVE_MAX: u16 = HAS_HOLES - 1;

    /// The entry as bytes.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        let live = self.live | if self.has_holes { HAS_HOLES } else { 0 };
        out[0..2].copy_from_slice(&live.to_le_bytes());
        let notes = if self.has_notes { HAS_NOTES } else { 0 };
        let flags = notes | if self.has_indirect { HAS_INDIRECT } else { 0 };
        out[2..4].copy_from_slice(&flags.to_le_bytes());
        out[4..10].copy_from_slice(&self.first.to_le_bytes()[..6]);
        out[10..16].copy_from_slice(&self.age.to_le_bytes()[..6]);
        out
    }

    /// The entry of 16 bytes.
    pub fn decode(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let mut word = [0; 8];
            word[..6].copy_from_slice(&bytes[at..at + 6]);
            u64::from_le_bytes(word)
        };
        let live = u16::from_le_bytes([bytes[0], bytes[1]]);
        let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
        Self {
            live: live & !HAS_HOLES,
            has_holes: live & HAS_HOLES != 0,
            has_notes: flags & HAS_NOTES != 0,
            has_indirect: flags & HAS_INDIRECT != 0,
            first: number(4),
            age: number(10),
        }
    }
}
