//! Objects of an archive: a header, and a payload that describes changes of blocks. Byte table: `docs/format/archive.md`.

use crate::geometry::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, COUNTER_MAX};
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};
use tonearm_base::{Lsn, crc32c};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNARCHIV";
const WHAT: &str = "archive object";
/// Bytes of the header of an object.
pub const ARCHIVE_HEADER_BYTES: usize = 128;
/// Most bytes of an uncompressed payload.
pub const ARCHIVE_PAYLOAD_MAX: u64 = 1 << 32;
/// The same for objects without changes or blocks. A base has 12 bytes for each part.
pub const ARCHIVE_LIST_MAX: u64 = 64 << 20;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    store: Uuid,
    number: U64,
    epoch: U64,
    first: U64,
    last: U64,
    exact_from: U64,
    unix_ms: U64,
    raw_bytes: U64,
    stored_bytes: U64,
    payload_crc: U32,
    digest: U32,
    previous_crc: U32,
    kind: U16,
    flags: U16,
    base: U64,
    inexact_from: U64,
}

const _: () = assert!(size_of::<Raw>() == ARCHIVE_HEADER_BYTES);

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveKind {
    /// A server has opened the store: from here on it alone continues the chain.
    Opening,
    /// The changes of adjacent commits.
    Range,
    /// A base is complete: the parts that it has.
    Base,
    /// Blocks of a base.
    BasePart,
    /// A name for a commit.
    Mark,
    /// The changes of adjacent ranges, each block once. It stands for them.
    Merged,
}

impl ArchiveKind {
    const ALL: [Self; 6] = [
        Self::Opening,
        Self::Range,
        Self::Base,
        Self::BasePart,
        Self::Mark,
        Self::Merged,
    ];

    fn code(self) -> u16 {
        self as u16 + 1
    }
}

/// Header of an object of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchiveHeader {
    /// What it is.
    pub kind: ArchiveKind,
    /// Identity of the store.
    pub store: Uuid,
    /// Its number in the chain, from 1 on. Of a part of a base: its number in the base, from 0 on. Of a name of a mark: 0.
    /// Merged: that of the last object that it stands for.
    pub number: u64,
    /// The opening of the archive that made it, from 1 on.
    pub epoch: u64,
    /// Range, merged: its first commit. Base: the commit after which the ranges for it begin. Opening, mark: as `last`. Part of a
    /// base: its first block.
    pub first: u64,
    /// Range, merged: its last commit. Base: the first commit to which it can be restored. Opening: the last commit that is archived.
    /// Mark: the commit that it names. Part of a base: the block after its last one.
    pub last: u64,
    /// Range, merged: states from this commit on, up to `exact_from`, cannot be had from it; 0 when all can. Base: see
    /// [`ArchiveHeader::kept_from`]; 0 when it does not say.
    pub inexact_from: u64,
    /// Range, merged: see `inexact_from`. Base, mark in the chain: the last commit that is archived. Else 0.
    pub exact_from: u64,
    /// Milliseconds since 1970. Range, merged: when its last commit was durable. Else: when it was made.
    pub unix_ms: u64,
    /// Bytes of the payload, uncompressed.
    pub raw_bytes: u64,
    /// Bytes of the payload as it is stored.
    pub stored_bytes: u64,
    /// CRC-32C of the payload as it is stored.
    pub payload_crc: u32,
    /// Range: digest of its last commit. Opening, base, mark in the chain: that of the last commit that is archived. Merged:
    /// `crc` of the last object that it stands for. Else 0.
    pub digest: u32,
    /// CRC-32C in the header of the object before it in the chain; 0 for the first object, and outside of the chain. Merged:
    /// that of the first object that it stands for.
    pub previous_crc: u32,
    /// In the chain: number of the last complete base after which no commit is missing; 0 if there is none. Merged: number
    /// of the first object that it stands for.
    pub base: u64,
    /// The payload is encrypted.
    pub encrypted: bool,
    /// Range: it changes no block of the volume table, so a reader of the table alone can leave it out.
    pub spares_table: bool,
    /// Merged: how far, from 1 on. Else 0.
    pub level: u8,
}

const FLAG_ENCRYPTED: u16 = 1;
const FLAG_SPARES_TABLE: u16 = 1 << 1;

impl ArchiveHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; ARCHIVE_HEADER_BYTES] {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.store = self.store;
        raw.number = self.number.into();
        raw.epoch = self.epoch.into();
        raw.first = self.first.into();
        raw.last = self.last.into();
        raw.inexact_from = self.inexact_from.into();
        raw.exact_from = self.exact_from.into();
        raw.unix_ms = self.unix_ms.into();
        raw.raw_bytes = self.raw_bytes.into();
        raw.stored_bytes = self.stored_bytes.into();
        raw.payload_crc = self.payload_crc.into();
        raw.digest = self.digest.into();
        raw.previous_crc = self.previous_crc.into();
        raw.base = self.base.into();
        raw.kind = self.kind.code().into();
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags =
            flag(self.encrypted, FLAG_ENCRYPTED) | flag(self.spares_table, FLAG_SPARES_TABLE);
        raw.flags = (flags | u16::from(self.level) << 8).into();
        let mut bytes = [0; ARCHIVE_HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads the header at the start of `object`.
    ///
    /// # Errors
    /// When there is no header, it is of another version, damaged or inconsistent.
    pub fn decode(object: &[u8]) -> Result<Self, FormatError> {
        let bytes = object.get(..ARCHIVE_HEADER_BYTES);
        let bytes = bytes.ok_or(FormatError::Signature(WHAT))?;
        let raw = Raw::ref_from_bytes(bytes).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check(WHAT, bytes, raw.version.get(), raw.crc.get())?;
        let wrong = |why| FormatError::Inconsistent { what: WHAT, why };
        let kinds = ArchiveKind::ALL.into_iter();
        let kind = kinds
            .into_iter()
            .find(|kind| kind.code() == raw.kind.get())
            .ok_or(wrong("its kind is unknown"))?;
        let header = Self {
            kind,
            store: raw.store,
            number: raw.number.get(),
            epoch: raw.epoch.get(),
            first: raw.first.get(),
            last: raw.last.get(),
            inexact_from: raw.inexact_from.get(),
            exact_from: raw.exact_from.get(),
            unix_ms: raw.unix_ms.get(),
            raw_bytes: raw.raw_bytes.get(),
            stored_bytes: raw.stored_bytes.get(),
            payload_crc: raw.payload_crc.get(),
            digest: raw.digest.get(),
            previous_crc: raw.previous_crc.get(),
            base: raw.base.get(),
            encrypted: raw.flags.get() & FLAG_ENCRYPTED > 0,
            spares_table: raw.flags.get() & FLAG_SPARES_TABLE > 0,
            level: (raw.flags.get() >> 8) as u8,
        };
        crate::error::check_numbers(
            WHAT,
            COUNTER_MAX,
            &[
                ("number", header.number),
                ("base", header.base),
                ("epoch", header.epoch),
                ("last", header.last),
                ("inexact_from", header.inexact_from),
                ("exact_from", header.exact_from),
                ("unix_ms", header.unix_ms),
            ],
        )?;
        if header.first > header.last || header.has_commits() && header.first == 0 {
            return Err(wrong("its range is empty"));
        }
        if header.has_commits() && (header.inexact_from == 0) != (header.exact_from == 0) {
            return Err(wrong("it does not say which states it has"));
        }
        let (first, last) = header.numbers();
        if first > last {
            return Err(wrong("it stands for no object"));
        }
        if header.kept_from() > header.number.max(1) {
            return Err(wrong(
                "the chain is kept from an object on that comes later",
            ));
        }
        let most = match header.kind {
            ArchiveKind::Range | ArchiveKind::Merged | ArchiveKind::BasePart => ARCHIVE_PAYLOAD_MAX,
            ArchiveKind::Opening | ArchiveKind::Base | ArchiveKind::Mark => ARCHIVE_LIST_MAX,
        };
        if header.raw_bytes > most || header.stored_bytes > 2 * most {
            return Err(wrong("its payload is too large"));
        }
        Ok(header)
    }

    /// True when its payload has the changes of commits.
    pub fn has_commits(&self) -> bool {
        matches!(self.kind, ArchiveKind::Range | ArchiveKind::Merged)
    }

    /// Base: the number from which on the chain is kept. Objects before it may have been deleted.
    pub fn kept_from(&self) -> u64 {
        match self.kind {
            ArchiveKind::Base => self.inexact_from.max(1),
            _ => 1,
        }
    }

    /// The numbers in the chain of the first and the last object that it stands for: its own, unless it is merged.
    pub fn numbers(&self) -> (u64, u64) {
        match self.kind {
            ArchiveKind::Merged => (self.base, self.number),
            _ => (self.number, self.number),
        }
    }

    /// The CRC-32C by which the object of the chain after it names what is before it.
    pub fn end_crc(&self) -> u32 {
        match self.kind {
            ArchiveKind::Merged => self.digest,
            _ => self.crc(),
        }
    }

    /// The last commit that is archived once this object of the chain is there.
    pub fn archived(&self) -> Lsn {
        match self.kind {
            ArchiveKind::Range | ArchiveKind::Opening => Lsn(self.last),
            _ => Lsn(self.exact_from),
        }
    }

    /// The CRC-32C that the header itself has, by which the next object of the chain names it.
    pub fn crc(&self) -> u32 {
        let bytes = self.encode();
        u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
    }
}

/// One entry of a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArchiveEntry<'a> {
    /// A block gets content.
    Data {
        /// The block.
        block: u64,
        /// CRC-32C of the content.
        crc: u32,
        /// The content.
        data: &'a [u8],
    },
    /// Blocks become holes, or read as zeroes and keep their space.
    Zero {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
        /// They keep their space.
        keep_space: bool,
    },
    /// Words of a block change.
    Patch {
        /// The block.
        block: u64,
        /// Byte offset in the block, a multiple of 8, and the new bytes of each word.
        words: Words<'a>,
    },
    /// The entries since the last such entry are a commit.
    Commit(Lsn),
    /// The last commit before this entry was durable by then.
    Time {
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
}

/// Words of a patch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words<'a>(&'a [u8]);

const WORD_BYTES: usize = 12;

impl Words<'_> {
    /// Offset and new bytes of each word.
    pub fn iter(&self) -> impl Iterator<Item = (usize, [u8; 8])> {
        self.0.as_chunks::<WORD_BYTES>().0.iter().map(|word| {
            let (at, value) = word.split_at(4);
            let at = u32::from_le_bytes(at.try_into().expect("four bytes"));
            (at as usize, value.try_into().expect("eight bytes"))
        })
    }
}

const DATA: u8 = 1;
const HOLE: u8 = 2;
const KEPT: u8 = 3;
const PATCH: u8 = 4;
const COMMIT: u8 = 5;
const TIME: u8 = 6;

/// Writes the entries of a payload.
#[derive(Default)]
pub struct ArchiveWriter {
    bytes: Vec<u8>,
    digest: u32,
    last_digest: u32,
}

impl ArchiveWriter {
    /// A writer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// A block gets content.
    pub fn data(&mut self, block: u64, crc: u32, data: &[u8]) {
        self.head(DATA, &[block]);
        self.bytes.extend(crc.to_le_bytes());
        self.bytes.extend(data);
        self.digested(DATA, block, u64::from(crc));
    }

    /// A block gets the content of another one, for which the log has `logged_crc`. Later commits may have changed it, to
    /// zeroes (`None`) or other content with its own CRC-32C.
    pub fn moved(&mut self, block: u64, logged_crc: u32, content: Option<(u32, &[u8])>) {
        let digest = self.digest;
        match content {
            Some((crc, data)) => self.data(block, crc, data),
            None => self.zero(block, 1, true),
        }
        self.digest = digest;
        self.digest_moved(block, logged_crc);
    }

    /// The part of [`ArchiveWriter::moved`], and of [`ArchiveWriter::data`], that counts for the digest.
    pub fn digest_moved(&mut self, block: u64, logged_crc: u32) {
        self.digested(DATA, block, u64::from(logged_crc));
    }

    /// Blocks read as zeroes.
    pub fn zero(&mut self, first: u64, count: u64, keep_space: bool) {
        let kind = if keep_space { KEPT } else { HOLE };
        self.head(kind, &[first, count]);
        self.digested(kind, first, count);
    }

    /// Words of a block change.
    pub fn patch(&mut self, block: u64, words: &[(u32, u64)]) {
        self.head(PATCH, &[block]);
        self.bytes.extend((words.len() as u32).to_le_bytes());
        for (at, value) in words {
            self.bytes.extend(at.to_le_bytes());
            self.bytes.extend(value.to_le_bytes());
            self.digested(PATCH, block ^ u64::from(*at) << 32, *value);
        }
    }

    /// The entries since the last commit are commit `lsn`.
    pub fn commit(&mut self, lsn: Lsn) {
        self.head(COMMIT, &[lsn.0]);
        self.digested(COMMIT, lsn.0, 0);
        (self.last_digest, self.digest) = (self.digest, 0);
    }

    /// The last commit was durable by then.
    pub fn time(&mut self, unix_ms: u64) {
        self.head(TIME, &[unix_ms]);
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The digest of the last commit alone: of what it changes, without where the content comes from. [`chain_digest`] makes
    /// that of a history of it.
    pub fn last_digest(&self) -> u32 {
        self.last_digest
    }

    /// The payload.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, kind: u8, numbers: &[u64]) {
        self.bytes.push(kind);
        for number in numbers {
            self.bytes.extend(number.to_le_bytes());
        }
    }

    fn digested(&mut self, kind: u8, first: u64, second: u64) {
        let mut bytes = [0; 21];
        bytes[..4].copy_from_slice(&self.digest.to_le_bytes());
        bytes[4] = kind;
        bytes[5..13].copy_from_slice(&first.to_le_bytes());
        bytes[13..].copy_from_slice(&second.to_le_bytes());
        self.digest = crc32c(&bytes);
    }
}

/// The digest of a history that has the digest `before`, and then a commit with the digest `commit`. Two histories of one store
/// that have had a different commit since the beginning of the digest differ in it, even if their last commits are the same.
pub fn chain_digest(before: u32, commit: u32) -> u32 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&before.to_le_bytes());
    bytes[4..].copy_from_slice(&commit.to_le_bytes());
    crc32c(&bytes)
}

/// Reads the entries of a payload of blocks of `block_size` bytes.
pub struct ArchiveReader<'a> {
    rest: &'a [u8],
    block_size: usize,
}

impl<'a> ArchiveReader<'a> {
    /// A reader of `payload`.
    pub fn new(payload: &'a [u8], block_size: usize) -> Self {
        Self {
            rest: payload,
            block_size,
        }
    }

    /// The next entry.
    ///
    /// # Errors
    /// When the payload is cut off, has an unknown entry, or a block fails its checksum.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Result<ArchiveEntry<'a>, FormatError>> {
        (!self.rest.is_empty()).then(|| self.entry())
    }

    fn entry(&mut self) -> Result<ArchiveEntry<'a>, FormatError> {
        let wrong = |why| FormatError::Inconsistent { what: WHAT, why };
        let kind = self.take(1)?[0];
        match kind {
            DATA => {
                let block = self.number()?;
                let crc = self.short()?;
                let data = self.take(self.block_size)?;
                if crc32c(data) != crc {
                    return Err(FormatError::Checksum("a block of an archive object"));
                }
                Ok(ArchiveEntry::Data { block, crc, data })
            }
            HOLE | KEPT => {
                let (first, count) = (self.number()?, self.number()?);
                if count == 0 || first.checked_add(count).is_none() {
                    return Err(wrong("a range is empty or has no end"));
                }
                Ok(ArchiveEntry::Zero {
                    first,
                    count,
                    keep_space: kind == KEPT,
                })
            }
            PATCH => {
                let block = self.number()?;
                let count = self.short()? as usize;
                let most = BLOCK_SIZE_MAX as usize / 8;
                if count == 0 || count > most {
                    return Err(wrong("a patch has no word, or too many"));
                }
                let words = Words(self.take(count * WORD_BYTES)?);
                let fits = |(at, _): (usize, _)| at % 8 == 0 && at < self.block_size;
                if words.iter().all(fits) {
                    Ok(ArchiveEntry::Patch { block, words })
                } else {
                    Err(wrong("a patch goes beyond its block"))
                }
            }
            COMMIT => Ok(ArchiveEntry::Commit(Lsn(self.number()?))),
            TIME => Ok(ArchiveEntry::Time {
                unix_ms: self.number()?,
            }),
            _ => Err(wrong("it has an entry of an unknown kind")),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(FormatError::Inconsistent {
                what: WHAT,
                why: "its payload is cut off",
            })?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, FormatError> {
        let bytes = self.take(8)?.try_into();
        Ok(u64::from_le_bytes(bytes.expect("eight bytes")))
    }

    fn short(&mut self) -> Result<u32, FormatError> {
        let bytes = self.take(4)?.try_into();
        Ok(u32::from_le_bytes(bytes.expect("four bytes")))
    }
}

/// Payload of an opening: the store's shape, and who opened it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveOpening {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the store, those of the system included.
    pub size_blocks: u64,
    /// The machine and process, for people.
    pub creator: String,
}

impl ArchiveOpening {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = encode_shape(self.block_size, self.size_blocks);
        bytes.extend(self.creator.as_bytes());
        bytes
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is cut off or not possible.
    pub fn decode(payload: &[u8]) -> Result<Self, FormatError> {
        let mut reader = ArchiveReader::new(payload, 0);
        let (block_size, size_blocks) = decode_shape(&mut reader)?;
        let wrong = |why| FormatError::Inconsistent { what: WHAT, why };
        let creator = std::str::from_utf8(reader.rest).map_err(|_| wrong("its text is no text"))?;
        Ok(Self {
            block_size,
            size_blocks,
            creator: creator.to_string(),
        })
    }
}

/// A part of a base, as the base names it. It has the blocks from the end of the part before it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArchivePart {
    /// The block after its last one.
    pub end_block: u64,
    /// CRC-32C in its header.
    pub crc: u32,
}

/// Payload of a base: the store's shape, the folder of its parts, and the parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveBase {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the store, those of the system included.
    pub size_blocks: u64,
    /// Number of the folder of its parts.
    pub folder: u64,
    /// The parts, in the order of their blocks.
    pub parts: Vec<ArchivePart>,
}

impl ArchiveBase {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = encode_shape(self.block_size, self.size_blocks);
        bytes.extend(self.folder.to_le_bytes());
        for part in &self.parts {
            bytes.extend(part.end_block.to_le_bytes());
            bytes.extend(part.crc.to_le_bytes());
        }
        bytes
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is cut off or not possible.
    pub fn decode(payload: &[u8]) -> Result<Self, FormatError> {
        let mut reader = ArchiveReader::new(payload, 0);
        let (block_size, size_blocks) = decode_shape(&mut reader)?;
        let folder = reader.number()?;
        let mut parts: Vec<ArchivePart> = Vec::new();
        while !reader.rest.is_empty() {
            let (end_block, crc) = (reader.number()?, reader.short()?);
            let before = parts.last().map_or(0, |part| part.end_block);
            if end_block <= before || end_block > size_blocks {
                return Err(FormatError::Inconsistent {
                    what: WHAT,
                    why: "its parts are not in order, or beyond the store",
                });
            }
            parts.push(ArchivePart { end_block, crc });
        }
        Ok(Self {
            block_size,
            size_blocks,
            folder,
            parts,
        })
    }
}

fn encode_shape(block_size: u32, size_blocks: u64) -> Vec<u8> {
    let mut bytes = block_size.to_le_bytes().to_vec();
    bytes.extend(size_blocks.to_le_bytes());
    bytes
}

fn decode_shape(reader: &mut ArchiveReader) -> Result<(u32, u64), FormatError> {
    let (block_size, size_blocks) = (reader.short()?, reader.number()?);
    let sizes = BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX;
    let fits = block_size.is_power_of_two() && sizes.contains(&block_size);
    if fits && size_blocks <= COUNTER_MAX / u64::from(BLOCK_SIZE_MAX) {
        Ok((block_size, size_blocks))
    } else {
        Err(FormatError::Inconsistent {
            what: WHAT,
            why: "the store's shape is not possible",
        })
    }
}
