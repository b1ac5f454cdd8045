//! Header of a parity record. The record is the XOR of the data that a write to a RAID-5 stripe leaves unchanged, and is
//! kept until the write is durable. Byte table: `docs/format/parity.md`. A sector of zero bytes is a free slot.

use crate::geometry::SECTOR;
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};
use tonearm_base::{crc32c, is_zero};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNPARITY";
const WHAT: &str = "parity record";
/// Most extents of a parity record.
pub const PARITY_EXTENTS_MAX: usize = 256;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    array: Uuid,
    row: U64,
    start: U32,
    len: U32,
    payload_crc: U32,
    extent_count: U32,
    reserved: [u8; 456],
    extents: [RawExtent; PARITY_EXTENTS_MAX],
    reserved2: [u8; 512],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtent {
    column: U32,
    start: U32,
    len: U32,
}

const _: () = assert!(size_of::<Raw>() == SECTOR);
const _: () = assert!(std::mem::offset_of!(Raw, extents) == 512);

/// Bytes of one column that the write changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParityExtent {
    /// Data column of the stripe.
    pub column: u32,
    /// First byte, counted from the start of the stripe unit.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

/// Header fields of a parity record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParityRecord {
    /// Identity of the array.
    pub array: Uuid,
    /// Stripe.
    pub row: u64,
    /// First byte that the payload is for, counted from the start of the stripe unit.
    pub start: u32,
    /// Bytes of the payload.
    pub len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// The ranges that the write changes.
    pub extents: Vec<ParityExtent>,
}

impl ParityRecord {
    /// The header as one sector; the payload follows it.
    ///
    /// # Panics
    /// When there are too many extents; the array bounds their number.
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.array = self.array;
        raw.row = self.row.into();
        raw.start = self.start.into();
        raw.len = self.len.into();
        raw.payload_crc = self.payload_crc.into();
        raw.extent_count = (self.extents.len() as u32).into();
        assert!(
            self.extents.len() <= PARITY_EXTENTS_MAX,
            "a parity record of over {PARITY_EXTENTS_MAX} extents"
        );
        for (slot, extent) in raw.extents.iter_mut().zip(&self.extents) {
            slot.column = extent.column.into();
            slot.start = extent.start.into();
            slot.len = extent.len.into();
        }
        let mut sector = [0; SECTOR];
        sector.copy_from_slice(raw.as_bytes());
        seal(&mut sector);
        sector
    }

    /// Reads a slot: the record and its payload. `None` for a free slot.
    ///
    /// # Errors
    /// When the bytes are no record, of another version, torn, or inconsistent.
    pub fn decode(slot: &[u8]) -> Result<Option<(Self, &[u8])>, FormatError> {
        let sector = slot.get(..SECTOR).ok_or(FormatError::Signature(WHAT))?;
        if is_zero(sector) {
            return Ok(None);
        }
        let (raw, _) = Raw::ref_from_prefix(sector).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check(WHAT, sector, raw.version.get(), raw.crc.get())?;
        let (start, len) = (raw.start.get(), raw.len.get());
        let wrong = |why| FormatError::Inconsistent { what: WHAT, why };
        let end = start
            .checked_add(len)
            .ok_or(wrong("its range has no end"))?;
        let extents = raw
            .extents
            .get(..raw.extent_count.get() as usize)
            .ok_or(wrong("it has too many extents"))?;
        let mut found = Vec::with_capacity(extents.len());
        for extent in extents {
            let (from, bytes) = (extent.start.get(), extent.len.get());
            let inside = from >= start && from.checked_add(bytes).is_some_and(|to| to <= end);
            if !inside {
                return Err(wrong("an extent lies outside of its range"));
            }
            found.push(ParityExtent {
                column: extent.column.get(),
                start: from,
                len: bytes,
            });
        }
        let payload = slot
            .get(SECTOR..)
            .and_then(|rest| rest.get(..len as usize))
            .ok_or(wrong("its payload is longer than its slot"))?;
        if crc32c(payload) != raw.payload_crc.get() {
            return Err(FormatError::Checksum(WHAT));
        }
        let record = Self {
            array: raw.array,
            row: raw.row.get(),
            start,
            len,
            payload_crc: raw.payload_crc.get(),
            extents: found,
        };
        Ok(Some((record, payload)))
    }
}
