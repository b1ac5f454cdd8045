//! A page of the block map: it says where blocks, or pages of the level below, lie at home. Byte table:
//! `docs/format/segments.md`.
//!
//! A page has no checksum of its own; the entry that leads to it has it.

use crate::FormatError;

const MAGIC: [u8; 8] = *b"TAMAP\x01\0\0";
const WHAT: &str = "map page";
/// Bytes before the first entry.
const HEADER_BYTES: usize = 32;
/// Bytes of an entry.
pub const MAP_ENTRY_BYTES: usize = 16;
/// Largest number that places and versions can have.
pub const NUMBER_MAX: u64 = (1 << 48) - 1;

/// Entries of a page, which takes one block.
pub const fn map_entries(block_size: u32) -> usize {
    (block_size as usize - HEADER_BYTES) / MAP_ENTRY_BYTES
}

/// Where a block or page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapEntry {
    /// Its place: segment times blocks of a segment, plus the block in the segment. 0 is a hole.
    pub place: u64,
    /// Number of the partial segment that first stored this content, or that made the hole.
    pub version: u64,
    /// CRC-32C of the content.
    pub crc: u32,
}

impl MapEntry {
    /// The content was lost together with the page that led to it.
    pub const LOST: Self = Self {
        place: NUMBER_MAX,
        version: 0,
        crc: 0,
    };

    /// A hole, made by partial segment `version`.
    pub const fn hole(version: u64) -> Self {
        Self {
            place: 0,
            version,
            crc: 0,
        }
    }

    /// True for a hole, which reads as zeroes.
    pub const fn is_hole(&self) -> bool {
        self.place == 0
    }

    /// True for [`MapEntry::LOST`].
    pub const fn is_lost(&self) -> bool {
        self.place == NUMBER_MAX
    }

    /// True when it has a place.
    pub const fn is_placed(&self) -> bool {
        !self.is_hole() && !self.is_lost()
    }

    /// The entry as bytes.
    pub fn encode(&self) -> [u8; MAP_ENTRY_BYTES] {
        let mut bytes = [0; MAP_ENTRY_BYTES];
        bytes[0..6].copy_from_slice(&self.place.to_le_bytes()[..6]);
        bytes[6..12].copy_from_slice(&self.version.to_le_bytes()[..6]);
        bytes[12..16].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// The entry of 16 bytes.
    pub fn decode(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let mut word = [0; 8];
            word[..6].copy_from_slice(&bytes[at..at + 6]);
            u64::from_le_bytes(word)
        };
        Self {
            place: number(0),
            version: number(6),
            crc: u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")),
        }
    }
}

/// A page in memory, as the bytes of the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage(Box<[u8]>);

impl MapPage {
    /// Page `index` of `level` with all entries the same.
    pub fn filled(block_size: u32, level: u32, index: u64, entry: MapEntry) -> Self {
        let mut bytes = vec![0; block_size as usize];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&level.to_le_bytes());
        bytes[16..24].copy_from_slice(&index.to_le_bytes());
        for slot in bytes[HEADER_BYTES..].chunks_exact_mut(MAP_ENTRY_BYTES) {
            slot.copy_from_slice(&entry.encode());
        }
        Self(bytes.into())
    }

    /// Reads page `index` of `level` from a block whose checksum the caller has checked.
    ///
    /// # Errors
    /// When the block is another page, or no page.
    pub fn decode(level: u32, index: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() < HEADER_BYTES || bytes[0..8] != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        let own = Self::filled(bytes.len() as u32, level, index, MapEntry::default());
        if own.0[8..HEADER_BYTES] != bytes[8..HEADER_BYTES] {
            return Err(FormatError::Inconsistent {
                what: WHAT,
                why: "it is another page (misdirected)",
            });
        }
        Ok(Self(bytes.into()))
    }

    /// The page as one block.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Entry `index`.
    pub fn get(&self, index: usize) -> MapEntry {
        let at = HEADER_BYTES + index * MAP_ENTRY_BYTES;
        MapEntry::decode(&self.0[at..at + MAP_ENTRY_BYTES])
    }

    /// Changes entry `index`.
    pub fn set(&mut self, index: usize, entry: MapEntry) {
        let at = HEADER_BYTES + index * MAP_ENTRY_BYTES;
        self.0[at..at + MAP_ENTRY_BYTES].copy_from_slice(&entry.encode());
    }
}
