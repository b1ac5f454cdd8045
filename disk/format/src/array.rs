//! The descriptor of an array: level, stripe unit, members, and the state that the next opening needs. Byte table:
//! `docs/format/array.md`.
//!
//! Valid if and only if: signature and version match, the checksum of the whole descriptor is right, and the fields are
//! consistent with each other. Of several valid copies the one with the highest generation counts. The copy on the
//! primary member of the store decides; the copies of the array's members show only whether they were in use with it.

use crate::error::check_numbers;
use crate::geometry::{
    COUNTER_MAX, HEADER_AREA_BYTES, SECTOR, SLOT_BYTES, bytes_with_trailer, superblock_offset,
};
use crate::seal::{check, seal};
use crate::superblock::PATH_MAX;
use crate::{FORMAT_VERSION, FormatError, Uuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNARRAY\0";
const WHAT: &str = "array descriptor";
/// Bytes of a descriptor.
pub const ARRAY_BYTES: usize = 16 << 10;
/// Most members of an array.
pub const ARRAY_MEMBERS_MAX: usize = 32;
/// Largest stripe unit in bytes.
pub const STRIPE_MAX: u32 = 64 << 20;
const NONE: u16 = u16::MAX;
const FLAG_CLEAN: u16 = 1;
const FLAG_REPLACED: u16 = 2;

/// Byte offset of copy `slot` of a descriptor on a member of `member_bytes` bytes: the end of the part of the header or
/// trailer area that begins with superblock slot `slot`.
pub const fn array_offset(slot: u64, member_bytes: u64) -> u64 {
    superblock_offset(slot, member_bytes) + SLOT_BYTES - ARRAY_BYTES as u64
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    store: Uuid,
    array: Uuid,
    generation: U64,
    level: U16,
    flags: U16,
    own_index: U16,
    member_count: U16,
    stripe_bytes: U32,
    missing: U16,
    reserved_a: U16,
    rows: U64,
    rebuilt_rows: U64,
    records_offset: U64,
    records_bytes: U64,
    trailer_offset: U64,
    reserved_b: [u8; 16],
    members: [RawMember; ARRAY_MEMBERS_MAX],
    reserved_c: [u8; 896],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMember {
    uuid: Uuid,
    path_len: U16,
    reserved: [u8; 22],
    path: [u8; PATH_MAX],
}

const _: () = assert!(size_of::<Raw>() == ARRAY_BYTES);
const _: () = assert!(size_of::<RawMember>() == 480);
const _: () = assert!(std::mem::offset_of!(Raw, members) == 128);

/// How an array spreads its content over its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayLevel {
    /// Stripes. Without one member all is lost.
    Raid0,
    /// Stripes with parity. Any one member may be missing.
    Raid5,
}

impl ArrayLevel {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid5 => "raid5",
        }
    }

    /// Members without which the array still has all data.
    pub fn spare_members(self) -> usize {
        match self {
            Self::Raid0 => 0,
            Self::Raid5 => 1,
        }
    }

    /// Fewest members.
    pub fn members_min(self) -> usize {
        match self {
            Self::Raid0 => 2,
            Self::Raid5 => 3,
        }
    }
}

/// A member of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayMember {
    /// Its identity. A replacement has another one than the member that it replaces.
    pub uuid: Uuid,
    /// Its path when it became a member: relative to the folder of the store's primary member, or absolute.
    pub path: String,
}

/// The member that does not have the array's data, or only a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayMissing {
    /// Its index.
    pub member: u16,
    /// A replacement is in its place. Without this flag a device with the member's identity is the failed member
    /// itself, whose content is old.
    pub replaced: bool,
    /// Number of stripes, from the first one on, that a rebuild has restored on the replacement.
    pub rebuilt_rows: u64,
}

/// The descriptor of an array, as one member or the store's primary member has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayDescriptor {
    /// Identity of the store.
    pub store: Uuid,
    /// Identity of the array.
    pub array: Uuid,
    /// Number of this update. Each opening for writing and each change of the state has the next one.
    pub generation: u64,
    /// How it spreads its content.
    pub level: ArrayLevel,
    /// The array was closed in order: parity and data agree everywhere.
    pub clean: bool,
    /// Index of the member that has this copy; `None` on the store's primary member.
    pub own_index: Option<u16>,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u32,
    /// Stripes.
    pub rows: u64,
    /// The member that is missing or being rebuilt (RAID-5).
    pub missing: Option<ArrayMissing>,
    /// Byte offset of the parity records on the store's primary member (RAID-5).
    pub records_offset: u64,
    /// Bytes of the parity records.
    pub records_bytes: u64,
    /// Byte offset of the trailer area on the device of this copy when it was written.
    pub trailer_offset: u64,
    /// The members in their order.
    pub members: Vec<ArrayMember>,
}

impl ArrayDescriptor {
    /// The descriptor's bytes.
    ///
    /// # Panics
    /// When there are too many members or a path is too long; `create` and `replace` check both.
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.store = self.store;
        raw.array = self.array;
        raw.generation = self.generation.into();
        raw.level = match self.level {
            ArrayLevel::Raid0 => 0,
            ArrayLevel::Raid5 => 5,
        }
        .into();
        let replaced = self.missing.is_some_and(|missing| missing.replaced);
        let flags = [(self.clean, FLAG_CLEAN), (replaced, FLAG_REPLACED)];
        let set = flags.iter().filter(|(is, _)| *is);
        raw.flags = set.map(|(_, flag)| flag).sum::<u16>().into();
        raw.own_index = self.own_index.unwrap_or(NONE).into();
        raw.member_count = (self.members.len() as u16).into();
        raw.stripe_bytes = self.stripe_bytes.into();
        raw.missing = self.missing.map_or(NONE, |missing| missing.member).into();
        raw.rows = self.rows.into();
        raw.rebuilt_rows = self
            .missing
            .map_or(0, |missing| missing.rebuilt_rows)
            .into();
        raw.records_offset = self.records_offset.into();
        raw.records_bytes = self.records_bytes.into();
        raw.trailer_offset = self.trailer_offset.into();
        for (slot, member) in raw.members.iter_mut().zip(&self.members) {
            slot.uuid = member.uuid;
            slot.path_len = (member.path.len() as u16).into();
            slot.path[..member.path.len()].copy_from_slice(member.path.as_bytes());
        }
        let mut bytes = raw.as_bytes().to_vec();
        seal(&mut bytes);
        bytes
    }

    /// Reads a descriptor.
    ///
    /// # Errors
    /// When the bytes are no descriptor, of another version, damaged, or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = Raw::ref_from_bytes(bytes).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check(WHAT, bytes, raw.version.get(), raw.crc.get())?;
        let count = usize::from(raw.member_count.get());
        let members = raw
            .members
            .get(..count)
            .ok_or(bad("it has too many members"))?;
        let member_of = |member: &RawMember| {
            let path = member.path.get(..usize::from(member.path_len.get()));
            let path = path.and_then(|path| std::str::from_utf8(path).ok());
            Ok(ArrayMember {
                uuid: member.uuid,
                path: path.ok_or(bad("a member's path is not text"))?.to_string(),
            })
        };
        let number = |value: u16| (value != NONE).then_some(value);
        let descriptor = Self {
            store: raw.store,
            array: raw.array,
            generation: raw.generation.get(),
            level: match raw.level.get() {
                0 => ArrayLevel::Raid0,
                5 => ArrayLevel::Raid5,
                _ => return Err(bad("the level is unknown")),
            },
            clean: raw.flags.get() & FLAG_CLEAN != 0,
            own_index: number(raw.own_index.get()),
            stripe_bytes: raw.stripe_bytes.get(),
            rows: raw.rows.get(),
            missing: number(raw.missing.get()).map(|member| ArrayMissing {
                member,
                replaced: raw.flags.get() & FLAG_REPLACED != 0,
                rebuilt_rows: raw.rebuilt_rows.get(),
            }),
            records_offset: raw.records_offset.get(),
            records_bytes: raw.records_bytes.get(),
            trailer_offset: raw.trailer_offset.get(),
            members: members.iter().map(member_of).collect::<Result<_, _>>()?,
        };
        descriptor.check()?;
        Ok(descriptor)
    }

    /// Checks that the fields are consistent with each other. A descriptor that breaks a rule is not written either.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), FormatError> {
        check_numbers(WHAT, COUNTER_MAX, &[("generation", self.generation)])?;
        let count = self.members.len();
        if !(self.level.members_min()..=ARRAY_MEMBERS_MAX).contains(&count) {
            return Err(bad("the number of members is not possible"));
        }
        if self.members.iter().any(|m| m.path.len() > PATH_MAX) {
            return Err(bad("a member's path is too long"));
        }
        let is_twice = |at: usize| {
            let uuid = self.members[at].uuid;
            self.members[..at].iter().any(|other| other.uuid == uuid)
        };
        if (0..count).any(is_twice) {
            return Err(bad("two members have the same identity"));
        }
        let stripe = u64::from(self.stripe_bytes);
        if stripe == 0 || self.stripe_bytes > STRIPE_MAX || !stripe.is_multiple_of(SECTOR as u64) {
            return Err(bad("the stripe unit is not possible"));
        }
        let bytes = self.rows.checked_mul(stripe * count as u64);
        if self.rows == 0 || bytes.is_none_or(|bytes| bytes >> 62 != 0) {
            return Err(bad("the number of stripes is not possible"));
        }
        let inside = |index: u16| usize::from(index) < count;
        if self.own_index.is_some_and(|index| !inside(index)) {
            return Err(bad("a member index is out of range"));
        }
        if let Some(missing) = self.missing
            && (self.level == ArrayLevel::Raid0
                || !inside(missing.member)
                || missing.rebuilt_rows > self.rows
                || missing.rebuilt_rows > 0 && !missing.replaced)
        {
            return Err(bad("its missing member is not possible"));
        }
        let records_end = self.records_offset.checked_add(self.records_bytes);
        let records_due = self.level == ArrayLevel::Raid5;
        if records_end.is_none_or(|end| end >> 62 != 0)
            || records_due != (self.records_bytes > 0)
            || !self.records_offset.is_multiple_of(SECTOR as u64)
            || records_due && self.records_offset < HEADER_AREA_BYTES
        {
            return Err(bad("the place of the parity records is not possible"));
        }
        Ok(())
    }

    /// Byte offset after the stripes of each member.
    pub fn stripes_end(&self) -> u64 {
        HEADER_AREA_BYTES + self.rows * u64::from(self.stripe_bytes)
    }

    /// Bytes that each member must have.
    pub fn member_bytes(&self) -> u64 {
        bytes_with_trailer(self.stripes_end())
    }
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}
