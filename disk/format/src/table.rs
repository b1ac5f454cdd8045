//! Checksum table of a group: one CRC-32C for each home block, kept apart from the blocks.
//!
//! Each group has two slots, written in turn. A torn write leaves the other slot whole, and the log still has the
//! changes since. A slot of zero bytes was never written: all its blocks are holes. Byte table: `docs/format/table.md`.

use crate::FormatError;
use crate::error::check_numbers;
use crate::geometry::COUNTER_MAX;
use tonearm_base::{crc32c, crc32c_of, is_zero};

const MAGIC: u32 = 0x4c42_5401;
const WHAT: &str = "checksum table";
const HEADER_BYTES: usize = 32;
/// Entry of a block that was never written or was trimmed: it reads as zeroes.
pub const HOLE: u32 = 0;
/// Entry of a block whose checksum was lost with its table. It is compared like any other, so that a block that really
/// has this checksum stays readable.
pub const LOST: u32 = u32::MAX;

/// Entries of one slot, which takes one block.
pub const fn slot_entries(block_size: u32) -> usize {
    (block_size as usize - HEADER_BYTES) / 4
}

/// Table entry of a block with CRC-32C `crc`; never [`HOLE`].
pub const fn entry_of_crc(crc: u32) -> u32 {
    if crc == HOLE { 1 } else { crc }
}

/// One slot in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSlot {
    /// Number of this write of the group's table, which goes to slot `generation % 2`.
    pub generation: u64,
    /// Entries in block order.
    pub entries: Vec<u32>,
}

impl TableSlot {
    /// The table of a group that was never written.
    pub fn empty(block_size: u32) -> Self {
        Self {
            generation: 0,
            entries: vec![HOLE; slot_entries(block_size)],
        }
    }

    /// Writes the slot for `group` (index over the whole store) into `out`, one block long.
    pub fn encode(&self, group: u64, out: &mut [u8]) {
        assert_eq!(
            slot_entries(out.len() as u32),
            self.entries.len(),
            "a slot takes one block"
        );
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].fill(0);
        out[8..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..24].copy_from_slice(&group.to_le_bytes());
        out[24..32].fill(0);
        for (bytes, entry) in out[HEADER_BYTES..].chunks_exact_mut(4).zip(&self.entries) {
            bytes.copy_from_slice(&entry.to_le_bytes());
        }
        let crc = crc32c(out);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a slot of `group`. `None` for a slot that was never written (all zero bytes).
    ///
    /// # Errors
    /// When the bytes are torn, damaged, of another group, or no table.
    pub fn decode(group: u64, bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let word = |at: usize| -> [u8; 4] { bytes[at..at + 4].try_into().expect("four bytes") };
        let long = |at: usize| -> [u8; 8] { bytes[at..at + 8].try_into().expect("eight bytes") };
        if bytes.len() < HEADER_BYTES || u32::from_le_bytes(word(0)) != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        let stored = u32::from_le_bytes(word(4));
        if crc32c_of(&[&bytes[..4], &[0; 4], &bytes[8..]]) != stored {
            return Err(FormatError::Checksum(WHAT));
        }
        if u64::from_le_bytes(long(16)) != group {
            return Err(FormatError::Inconsistent {
                what: WHAT,
                why: "it belongs to another group (misdirected)",
            });
        }
        check_numbers(
            WHAT,
            COUNTER_MAX,
            &[("generation", u64::from_le_bytes(long(8)))],
        )?;
        let entries = bytes[HEADER_BYTES..]
            .chunks_exact(4)
            .map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes")))
            .collect();
        Ok(Some(Self {
            generation: u64::from_le_bytes(long(8)),
            entries,
        }))
    }
}
