//! A volume's entry: one system block each, changed by commits like any other block. Byte table:
//! `docs/format/volume.md`. A block of zero bytes is a free entry.

use crate::geometry::SECTOR;
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};
use tonearm_base::is_zero;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNVOLUME";
const WHAT: &str = "volume entry";
/// Most bytes of a volume's name.
pub const NAME_MAX: usize = 255;
/// Most extents of a volume.
pub const EXTENTS_MAX: usize = 224;
const FLAG_READ_ONLY: u32 = 1;
const FLAG_LISTS: u32 = 1 << 2;
const FLAG_SPILL: u32 = 1 << 3;
const FLAG_TREE: u32 = 1 << 4;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    uuid: Uuid,
    size_bytes: U64,
    flags: U32,
    extent_count: U32,
    created_unix_s: U64,
    name_len: U16,
    name: [u8; 256],
    reserved: [u8; 198],
    extents: [RawExtent; EXTENTS_MAX],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtent {
    start: U64,
    count: U64,
}

const _: () = assert!(size_of::<Raw>() == SECTOR);
const _: () = assert!(std::mem::offset_of!(Raw, extents) == 512);

/// A run of home blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First home block.
    pub start: u64,
    /// Blocks.
    pub count: u64,
}

/// Kind of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VolumeKind {
    /// A disk that is served over NBD.
    #[default]
    Plain,
    /// The area of lists and blocks, which belongs to the disk.
    Lists,
    /// Space for writes of open recovery units that do not fit into memory. It belongs to the disk.
    Spill,
    /// The pages of the tree of files. It belongs to the disk.
    Tree,
}

/// The entry of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeEntry {
    /// Its identity.
    pub uuid: Uuid,
    /// Its name, 1 to [`NAME_MAX`] bytes; also the name of its NBD export.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The kind of volume.
    pub kind: VolumeKind,
    /// Refuses writes.
    pub read_only: bool,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// Its home blocks, in the order of the volume's addresses.
    pub extents: Vec<Extent>,
}

impl VolumeEntry {
    /// The entry as the first sector of a system block.
    ///
    /// # Panics
    /// When the name is too long or there are too many extents; the volume table checks both.
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.uuid = self.uuid;
        raw.size_bytes = self.size_bytes.into();
        let kind = match self.kind {
            VolumeKind::Plain => 0,
            VolumeKind::Lists => FLAG_LISTS,
            VolumeKind::Spill => FLAG_SPILL,
            VolumeKind::Tree => FLAG_TREE,
        };
        let read_only = if self.read_only { FLAG_READ_ONLY } else { 0 };
        raw.flags = (kind | read_only).into();
        raw.extent_count = (self.extents.len() as u32).into();
        raw.created_unix_s = self.created_unix_s.into();
        raw.name_len = (self.name.len() as u16).into();
        assert!(
            self.name.len() <= NAME_MAX,
            "a volume name over {NAME_MAX} bytes"
        );
        raw.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        assert!(
            self.extents.len() <= EXTENTS_MAX,
            "a volume of over {EXTENTS_MAX} extents"
        );
        for (slot, extent) in raw.extents.iter_mut().zip(&self.extents) {
            slot.start = extent.start.into();
            slot.count = extent.count.into();
        }
        let mut sector = [0; SECTOR];
        sector.copy_from_slice(raw.as_bytes());
        seal(&mut sector);
        sector
    }

    /// Reads the first sector of a system block; `None` for a free entry.
    ///
    /// # Errors
    /// When the bytes are no entry, of another version, damaged, or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let raw = Raw::ref_from_bytes(bytes).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check(WHAT, bytes, raw.version.get(), raw.crc.get())?;
        let name = raw
            .name
            .get(..usize::from(raw.name_len.get()))
            .filter(|name| (1..=NAME_MAX).contains(&name.len()));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let extents = raw.extents.get(..raw.extent_count.get() as usize);
        let extents = extents.ok_or(bad("it has too many extents"))?.iter();
        let extents: Vec<Extent> = extents
            .map(|raw| Extent {
                start: raw.start.get(),
                count: raw.count.get(),
            })
            .collect();
        if extents
            .iter()
            .any(|extent| extent.count == 0 || extent.start.checked_add(extent.count).is_none())
        {
            return Err(bad("an extent is not possible"));
        }
        let kind = match raw.flags.get() & (FLAG_LISTS | FLAG_SPILL | FLAG_TREE) {
            0 => VolumeKind::Plain,
            FLAG_LISTS => VolumeKind::Lists,
            FLAG_SPILL => VolumeKind::Spill,
            FLAG_TREE => VolumeKind::Tree,
            _ => return Err(bad("its flags name several kinds")),
        };
        Ok(Some(Self {
            kind,
            uuid: raw.uuid,
            name: name
                .ok_or(bad("its name is not text of 1 to 255 bytes"))?
                .to_string(),
            size_bytes: raw.size_bytes.get(),
            read_only: raw.flags.get() & FLAG_READ_ONLY != 0,
            created_unix_s: raw.created_unix_s.get(),
            extents,
        }))
    }
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}
