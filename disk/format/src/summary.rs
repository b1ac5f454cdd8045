//! Segment summary: lists the contents of a partial segment. One copy lies before the blocks of the partial and one
//! after them; both have the same bytes. Byte table: `docs/format/segments.md`.

use crate::error::check_numbers;
use crate::geometry::COUNTER_MAX;
use crate::map_page::NUMBER_MAX;
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};

const MAGIC: [u8; 8] = *b"TASEGSUM";
const WHAT: &str = "segment summary";
/// Bytes before the first entry.
const HEADER_BYTES: usize = 96;
/// Bytes of an entry.
pub const SUMMARY_ENTRY_BYTES: usize = 24;

/// Blocks of a summary with `entries` entries.
pub const fn summary_blocks(block_size: u32, entries: u64) -> u64 {
    (HEADER_BYTES as u64 + entries * SUMMARY_ENTRY_BYTES as u64).div_ceil(block_size as u64)
}

/// One item of a partial segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryEntry {
    /// Number of the partial segment that first stored the item. The cleaner keeps it when it copies the item.
    pub version: u64,
    /// The kind of item.
    pub kind: SummaryKind,
}

/// Kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryKind {
    /// A block, whose content lies in the partial.
    Data {
        /// Its number.
        block: u64,
        /// CRC-32C of the content.
        crc: u32,
    },
    /// A block whose content lies in the partial, and whose commit the log names by its place (an indirect write). It is valid
    /// only as the log or a note ([`SummaryKind::Overwritten`]) says.
    Indirect {
        /// Its number.
        block: u64,
        /// CRC-32C of the content.
        crc: u32,
    },
    /// A page of the block map, which lies in the partial.
    Page {
        /// Its level; 0 are leaves.
        level: u8,
        /// Its number in the level.
        index: u64,
        /// CRC-32C of the page.
        crc: u32,
    },
    /// Blocks that become holes: a tombstone.
    Hole {
        /// The first one.
        first: u64,
        /// How many.
        count: u64,
    },
    /// A block that was overwritten in place, or whose place the log named.
    Overwritten {
        /// Its number, below 2^48.
        block: u64,
        /// Its place, below 2^48.
        place: u64,
        /// CRC-32C of its new content.
        crc: u32,
    },
}

impl SummaryKind {
    /// CRC-32C of the block that lies in the partial, if there is one.
    pub const fn crc(&self) -> Option<u32> {
        match self {
            Self::Data { crc, .. } | Self::Indirect { crc, .. } | Self::Page { crc, .. } => {
                Some(*crc)
            }
            Self::Hole { .. } | Self::Overwritten { .. } => None,
        }
    }
}

/// A summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Identity of the store.
    pub store: Uuid,
    /// Number of the opening of the home that wrote it.
    pub epoch: u64,
    /// Number of the partial segment; consecutive within an epoch.
    pub seq: u64,
    /// Place of the first block of the partial, which is that of this summary.
    pub place: u64,
    /// Place of the next partial of the epoch.
    pub next: u64,
    /// Number of the partial in its segment, from 0.
    pub partial: u32,
    /// Its items. Their blocks lie after the front copy in this order.
    pub entries: Vec<SummaryEntry>,
}

impl Summary {
    /// Blocks that lie between the two copies.
    pub fn payload_blocks(&self) -> u64 {
        self.entries
            .iter()
            .filter(|entry| entry.kind.crc().is_some())
            .count() as u64
    }

    /// True when an entry is of an indirect write.
    pub fn has_indirect(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| matches!(entry.kind, SummaryKind::Indirect { .. }))
    }

    /// Blocks of the partial, both copies included.
    pub fn blocks(&self, block_size: u32) -> u64 {
        2 * summary_blocks(block_size, self.entries.len() as u64) + self.payload_blocks()
    }

    /// The entries that have a block in the partial, with its place.
    pub fn placed(&self, block_size: u32) -> impl Iterator<Item = (u64, &SummaryEntry)> {
        let first = self.place + summary_blocks(block_size, self.entries.len() as u64);
        let placed = self
            .entries
            .iter()
            .filter(|entry| entry.kind.crc().is_some());
        (first..).zip(placed)
    }

    /// Writes one copy into `out`, which has as many whole blocks as the copy takes.
    pub fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.store);
        for (at, value) in [
            (32, self.epoch),
            (40, self.seq),
            (48, self.place),
            (56, self.next),
        ] {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        out[64..68].copy_from_slice(&self.partial.to_le_bytes());
        out[68..72].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        let slots = out[HEADER_BYTES..].chunks_exact_mut(SUMMARY_ENTRY_BYTES);
        for (slot, entry) in slots.zip(&self.entries) {
            let (kind, level, block, value) = match entry.kind {
                SummaryKind::Data { block, crc } => (1, 0, block, u64::from(crc)),
                SummaryKind::Page { level, index, crc } => (2, level, index, u64::from(crc)),
                SummaryKind::Hole { first, count } => (3, 0, first, count),
                SummaryKind::Overwritten { block, place, crc } => (
                    4,
                    0,
                    block | place >> 32 << 48,
                    u64::from(crc) | place << 32,
                ),
                SummaryKind::Indirect { block, crc } => (5, 0, block, u64::from(crc)),
            };
            slot[0..8].copy_from_slice(&block.to_le_bytes());
            slot[8..14].copy_from_slice(&entry.version.to_le_bytes()[..6]);
            (slot[14], slot[15]) = (kind, level);
            slot[16..24].copy_from_slice(&value.to_le_bytes());
        }
        seal(out);
    }

    /// Quick test whether `block` can be the first block of a summary.
    pub fn is_candidate(block: &[u8]) -> bool {
        block.starts_with(&MAGIC)
    }

    /// Reads the copy at the start of `bytes`, which may be longer.
    ///
    /// # Errors
    /// When there is no summary, or it is torn, or of another version.
    pub fn decode(block_size: u32, bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() < HEADER_BYTES || !Self::is_candidate(bytes) {
            return Err(FormatError::Signature(WHAT));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let count = word(68) as usize;
        let len = summary_blocks(block_size, count as u64) as usize * block_size as usize;
        let own = bytes.get(..len);
        check(WHAT, own.unwrap_or(bytes), word(8), word(12))?;
        let own = own.ok_or(FormatError::Checksum(WHAT))?;
        check_numbers(WHAT, COUNTER_MAX, &[("epoch", long(32))])?;
        check_numbers(WHAT, NUMBER_MAX, &[("seq", long(40))])?;
        let bad = |why| FormatError::Inconsistent { what: WHAT, why };
        let slots = own[HEADER_BYTES..].chunks_exact(SUMMARY_ENTRY_BYTES);
        let mut entries = Vec::with_capacity(count);
        for slot in slots.take(count) {
            let long = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight"));
            let (block, value) = (long(0), long(16));
            let crc = value as u32;
            let kind = match slot[14] {
                1 => SummaryKind::Data { block, crc },
                2 => SummaryKind::Page {
                    level: slot[15],
                    index: block,
                    crc,
                },
                3 if block.checked_add(value).is_some() => SummaryKind::Hole {
                    first: block,
                    count: value,
                },
                4 => SummaryKind::Overwritten {
                    block: block & NUMBER_MAX,
                    place: block >> 48 << 32 | value >> 32,
                    crc,
                },
                5 => SummaryKind::Indirect { block, crc },
                _ => return Err(bad("an entry has an unknown kind")),
            };
            entries.push(SummaryEntry {
                version: long(8) & NUMBER_MAX,
                kind,
            });
        }
        Ok(Self {
            store: own[16..32].try_into().expect("sixteen"),
            epoch: long(32),
            seq: long(40),
            place: long(48),
            next: long(56),
            partial: word(64),
            entries,
        })
    }
}
