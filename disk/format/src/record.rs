//! A log record: one header sector, then the payload blocks. Byte table: `docs/format/record.md`.
//!
//! The header's first byte is 0xFF. The first byte of every payload sector is 0x00, and the header keeps the displaced
//! bytes (Trail 3.2). So a payload is never taken for a header, even a payload that is a copy of a log.
//!
//! Valid if and only if: first byte, signature, version and store match, and the CRC-32C of the header sector is
//! right. The payload is valid if and only if each block has the CRC-32C of its entry.

use crate::geometry::{LOG_SECTOR_MIN, SECTOR};
use crate::seal::{check, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};
use tonearm_base::{Lsn, RecordSeq};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const FIRST_BYTE: u8 = 0xff;
const MAGIC: [u8; 7] = *b"TNREC\r\n";
const WHAT: &str = "log record";
/// Bytes of the header before its entries.
pub const RECORD_FIXED_BYTES: usize = 128;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 24;
const FLAG_CONTINUES: u16 = 1;
const ENTRY_LAST: u8 = 1;
/// Largest sequence number, far above those with which a store opens ([`crate::COUNTER_MAX`]).
const NUMBER_MAX: u64 = 1 << 62;
const KIND_DATA: u8 = 1;
const KIND_TRIM: u8 = 2;
const KIND_ZERO: u8 = 3;
const KIND_PATCH: u8 = 4;
const KIND_MOVE: u8 = 5;
const KIND_RUN: u8 = 6;
const KIND_INDIRECT: u8 = 7;
/// Words in a slot.
const SLOT_WORDS: usize = ENTRY_BYTES / 8;
/// Fewest patches of adjacent words that are stored as a run, which takes less space from this number on.
const RUN_MIN: usize = 3;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    first_byte: u8,
    magic: [u8; 7],
    version: U32,
    crc: U32,
    store: Uuid,
    epoch: U64,
    seq: U64,
    prev_sector: U64,
    prev_epoch: U64,
    log_start_sector: U64,
    log_start_seq: U64,
    durable_seq: U64,
    first_lsn: U64,
    slots: U32,
    payload_sectors: U32,
    flags: U16,
    reserved: [u8; 22],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    block: U64,
    count: U64,
    crc: U32,
    kind: u8,
    flags: u8,
    reserved: U16,
}

const _: () = assert!(size_of::<RawHeader>() == RECORD_FIXED_BYTES);
const _: () = assert!(size_of::<RawEntry>() == ENTRY_BYTES);

/// What an entry does to the home blocks that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// One block of payload, with its CRC-32C.
    Data {
        /// CRC-32C of the block as the reader sees it.
        crc: u32,
    },
    /// A range of `count` blocks becomes holes; their space is given back.
    Trim {
        /// Blocks.
        count: u64,
    },
    /// A range of `count` blocks reads as zeroes and keeps its space.
    Zero {
        /// Blocks.
        count: u64,
    },
    /// Eight bytes of the block become those of `value`, little-endian. Earlier entries determine the other bytes.
    Patch {
        /// Byte offset in the block, a multiple of 8.
        at: u32,
        /// The new bytes.
        value: u64,
    },
    /// The block gets the content of home block `from`, which was durable there before the commit.
    Move {
        /// Home block with the content.
        from: u64,
        /// CRC-32C of the content.
        crc: u32,
    },
    /// The block gets the content at `place` of the segments, which was durable there before the commit.
    Indirect {
        /// The place, as block maps name it.
        place: u64,
        /// CRC-32C of the content.
        crc: u32,
    },
}

impl EntryKind {
    /// Blocks from the entry's first one on that it changes.
    pub const fn blocks(&self) -> u64 {
        match self {
            Self::Trim { count } | Self::Zero { count } => *count,
            Self::Data { .. } | Self::Patch { .. } | Self::Move { .. } | Self::Indirect { .. } => 1,
        }
    }
}

/// One change within a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First home block.
    pub block: u64,
    /// The change.
    pub kind: EntryKind,
    /// True for the last entry of its commit.
    pub last: bool,
}

impl Entry {
    /// True when `next`, the entry after this one, patches the next word of the same block in the same commit.
    fn runs_on(&self, next: &Self) -> bool {
        match (self.kind, next.kind) {
            (EntryKind::Patch { at, .. }, EntryKind::Patch { at: after, .. }) => {
                self.block == next.block && at.checked_add(8) == Some(after) && !self.last
            }
            _ => false,
        }
    }
}

/// Counts the slots of [`ENTRY_BYTES`] bytes that entries take in a header. Each entry takes one slot, except that patches
/// of adjacent words are a run, which takes one slot for itself and one for every three words.
#[derive(Clone, Copy, Default, Debug)]
pub struct Slots {
    before: usize,
    run: usize,
    last: Option<Entry>,
}

impl Slots {
    /// The count with one more entry.
    pub fn with(self, entry: &Entry) -> Self {
        let last = Some(*entry);
        if self.last.is_some_and(|before| before.runs_on(entry)) {
            Self {
                run: self.run + 1,
                last,
                ..self
            }
        } else {
            Self {
                before: self.count(),
                run: 1,
                last,
            }
        }
    }

    /// Number of slots.
    pub const fn count(&self) -> usize {
        self.before + run_slots(self.run)
    }
}

/// Slots of patches of `words` adjacent words.
pub const fn run_slots(words: usize) -> usize {
    if words < RUN_MIN {
        words
    } else {
        1 + words.div_ceil(SLOT_WORDS)
    }
}

/// A record's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// Store to which the record belongs.
    pub store: Uuid,
    /// Opening in which it was written.
    pub epoch: u64,
    /// Its number; consecutive over the store's life.
    pub seq: RecordSeq,
    /// Log sector of the record before it (Trail's prev_sect).
    pub prev_sector: u64,
    /// Epoch of the record before it. A record that an earlier recovery discarded has another predecessor or epoch.
    pub prev_epoch: u64,
    /// Log sector of the oldest record that recovery needs (Trail calls it log_head).
    pub log_start_sector: u64,
    /// Its number.
    pub log_start_seq: RecordSeq,
    /// All records up to this number were durable when this one was written.
    pub durable_seq: RecordSeq,
    /// Commit of the first entry. Each entry marked `last` ends a commit, and the entry after it begins the next.
    pub first_lsn: Lsn,
    /// True when the first entry continues the commit that the record before left unfinished.
    pub continues: bool,
    /// Sectors of payload after the header.
    pub payload_sectors: u32,
    /// The changes, in commit order.
    pub entries: Vec<Entry>,
}

/// True when a header sector of `sector` bytes has room for `slots` slots of entries ([`Slots`]) with
/// `payload_sectors` sectors of payload.
pub const fn record_fits(slots: usize, payload_sectors: usize, sector: usize) -> bool {
    RECORD_FIXED_BYTES + slots * ENTRY_BYTES + payload_sectors <= sector
}

/// Copies `block` to `out` with the first byte of each sector set to 0x00, and the displaced bytes to
/// `displaced` (one for each sector). The block's length over `displaced`'s is the size of a sector.
pub fn escape_payload(block: &[u8], out: &mut [u8], displaced: &mut [u8]) {
    out.copy_from_slice(block);
    let sector = block.len() / displaced.len();
    for (sector, kept) in out.chunks_exact_mut(sector).zip(displaced) {
        *kept = sector[0];
        sector[0] = 0;
    }
}

/// Puts the displaced first bytes, one for each sector, back into `payload`.
pub fn unescape_payload(payload: &mut [u8], displaced: &[u8]) {
    let sector = payload.len() / displaced.len();
    for (sector, first) in payload.chunks_exact_mut(sector).zip(displaced) {
        sector[0] = *first;
    }
}

impl RecordHeader {
    /// Sectors of the whole record.
    pub fn sectors(&self) -> u64 {
        1 + u64::from(self.payload_sectors)
    }

    /// Writes the header sector, with `displaced` bytes of the payload's sectors; `out` is one log sector.
    ///
    /// # Panics
    /// When the entries do not fit ([`record_fits`]).
    pub fn encode(&self, displaced: &[u8], out: &mut [u8]) {
        assert!(is_log_sector(out.len()), "a header takes one sector");
        assert_eq!(
            displaced.len(),
            self.payload_sectors as usize,
            "one displaced byte a sector"
        );
        let slots = self.slots();
        assert!(
            record_fits(slots, displaced.len(), out.len()),
            "too many entries for one record"
        );
        out.fill(0);
        let raw = RawHeader {
            first_byte: FIRST_BYTE,
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            crc: 0.into(),
            store: self.store,
            epoch: self.epoch.into(),
            seq: self.seq.0.into(),
            prev_sector: self.prev_sector.into(),
            prev_epoch: self.prev_epoch.into(),
            log_start_sector: self.log_start_sector.into(),
            log_start_seq: self.log_start_seq.0.into(),
            durable_seq: self.durable_seq.0.into(),
            first_lsn: self.first_lsn.0.into(),
            slots: (slots as u32).into(),
            payload_sectors: self.payload_sectors.into(),
            flags: if self.continues { FLAG_CONTINUES } else { 0 }.into(),
            reserved: [0; 22],
        };
        out[..RECORD_FIXED_BYTES].copy_from_slice(raw.as_bytes());
        let mut at = RECORD_FIXED_BYTES;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        for run in self.entries.chunk_by(Entry::runs_on) {
            if run.len() < RUN_MIN {
                run.iter().for_each(|entry| put(raw_of(entry).as_bytes()));
                continue;
            }
            put(raw_of_run(run).as_bytes());
            for words in run.chunks(SLOT_WORDS) {
                let mut slot = [0; ENTRY_BYTES];
                for (bytes, entry) in slot.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                    if let EntryKind::Patch { value, .. } = entry.kind {
                        *bytes = value.to_le_bytes();
                    }
                }
                put(&slot);
            }
        }
        out[at..at + displaced.len()].copy_from_slice(displaced);
        seal(out);
    }

    /// Quick test whether a sector can be a header.
    pub fn looks_like_one(sector: &[u8]) -> bool {
        sector.len() >= 8 && sector[0] == FIRST_BYTE && sector[1..8] == MAGIC
    }

    /// Reads a header, which is one log sector. The header, and the displaced bytes of the payload.
    ///
    /// # Errors
    /// When the sector is no header, of another version, damaged, or inconsistent.
    pub fn decode(sector: &[u8]) -> Result<(Self, Vec<u8>), FormatError> {
        if !is_log_sector(sector.len()) || !Self::looks_like_one(sector) {
            return Err(FormatError::Signature(WHAT));
        }
        let (raw, rest) =
            RawHeader::ref_from_prefix(sector).map_err(|_| FormatError::Signature(WHAT))?;
        check(WHAT, sector, raw.version.get(), raw.crc.get())?;
        let count = raw.slots.get() as usize;
        let payload = raw.payload_sectors.get() as usize;
        if count > SECTOR || payload > SECTOR || !record_fits(count, payload, sector.len()) {
            return Err(bad("its entries do not fit into a sector"));
        }
        let (slots, rest) = rest.split_at(count * ENTRY_BYTES);
        let entries = entries_of(slots)?;
        let header = Self {
            store: raw.store,
            epoch: raw.epoch.get(),
            seq: RecordSeq(raw.seq.get()),
            prev_sector: raw.prev_sector.get(),
            prev_epoch: raw.prev_epoch.get(),
            log_start_sector: raw.log_start_sector.get(),
            log_start_seq: RecordSeq(raw.log_start_seq.get()),
            durable_seq: RecordSeq(raw.durable_seq.get()),
            first_lsn: Lsn(raw.first_lsn.get()),
            continues: raw.flags.get() & FLAG_CONTINUES != 0,
            payload_sectors: raw.payload_sectors.get(),
            entries,
        };
        if header.seq.0 == 0
            || header.log_start_seq > header.seq
            || header.durable_seq >= header.seq
        {
            return Err(bad("its sequence numbers do not fit"));
        }
        // Code that counts up from these numbers must not overflow.
        if header.seq.0 > NUMBER_MAX || header.first_lsn.0 > NUMBER_MAX {
            return Err(bad("its sequence numbers are beyond any store's life"));
        }
        Ok((header, rest[..payload].to_vec()))
    }

    /// Slots that the entries take.
    fn slots(&self) -> usize {
        let runs = self.entries.chunk_by(Entry::runs_on);
        runs.map(|run| run_slots(run.len())).sum()
    }

    /// Entries that carry a block of payload.
    pub fn data_entries(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.kind, EntryKind::Data { .. }))
            .count()
    }
}

/// True when a log may have sectors of `bytes` bytes.
pub(crate) const fn is_log_sector(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= LOG_SECTOR_MIN && bytes <= SECTOR
}

fn raw_of(entry: &Entry) -> RawEntry {
    let (kind, count, crc) = match entry.kind {
        EntryKind::Data { crc } => (KIND_DATA, 1, crc),
        EntryKind::Trim { count } => (KIND_TRIM, count, 0),
        EntryKind::Zero { count } => (KIND_ZERO, count, 0),
        EntryKind::Patch { at, value } => (KIND_PATCH, value, at),
        EntryKind::Move { from, crc } => (KIND_MOVE, from, crc),
        EntryKind::Indirect { place, crc } => (KIND_INDIRECT, place, crc),
    };
    RawEntry {
        block: entry.block.into(),
        count: count.into(),
        crc: crc.into(),
        kind,
        flags: if entry.last { ENTRY_LAST } else { 0 },
        reserved: 0.into(),
    }
}

/// The entry before the words of a run.
fn raw_of_run(run: &[Entry]) -> RawEntry {
    let first = raw_of(&run[0]);
    RawEntry {
        count: (run.len() as u64).into(),
        kind: KIND_RUN,
        flags: raw_of(&run[run.len() - 1]).flags,
        ..first
    }
}

/// The entries in `slots`, whole slots.
fn entries_of(slots: &[u8]) -> Result<Vec<Entry>, FormatError> {
    let (slots, _) = slots.as_chunks::<ENTRY_BYTES>();
    let mut entries = Vec::with_capacity(slots.len());
    let mut slots = slots.iter();
    while let Some(slot) = slots.next() {
        let raw = RawEntry::ref_from_bytes(slot).map_err(|_| bad("an entry is cut off"))?;
        if raw.kind == KIND_RUN {
            let (words, rest) = run_of(raw, slots.as_slice())?;
            entries.extend(words);
            slots = rest.iter();
        } else {
            entries.push(entry_of(raw)?);
        }
    }
    Ok(entries)
}

type Slot = [u8; ENTRY_BYTES];

/// The patches of the run that begins with `raw`, whose words are in `slots`, and the slots after it.
fn run_of<'a>(
    raw: &RawEntry,
    slots: &'a [Slot],
) -> Result<(impl Iterator<Item = Entry> + 'a, &'a [Slot]), FormatError> {
    let (block, count, first) = (raw.block.get(), raw.count.get(), raw.crc.get());
    let room = slots.len() * SLOT_WORDS;
    if count < RUN_MIN as u64 || count > room as u64 {
        return Err(bad("a run of words is longer than its entries"));
    }
    let ends = first.is_multiple_of(8) && first.checked_add(8 * count as u32).is_some();
    if !ends || block == u64::MAX {
        return Err(bad("a run of words is not possible"));
    }
    let count = count as usize;
    let (words, rest) = slots.split_at(count.div_ceil(SLOT_WORDS));
    let last = raw.flags & ENTRY_LAST != 0;
    let words = words.as_flattened().as_chunks::<8>().0[..count].iter();
    let words = words.enumerate().map(move |(index, bytes)| Entry {
        block,
        kind: EntryKind::Patch {
            at: first + 8 * index as u32,
            value: u64::from_le_bytes(*bytes),
        },
        last: last && index + 1 == count,
    });
    Ok((words, rest))
}

fn entry_of(raw: &RawEntry) -> Result<Entry, FormatError> {
    let (block, count, crc) = (raw.block.get(), raw.count.get(), raw.crc.get());
    let kind = match raw.kind {
        KIND_DATA => EntryKind::Data { crc },
        KIND_TRIM => EntryKind::Trim { count },
        KIND_ZERO => EntryKind::Zero { count },
        KIND_PATCH => EntryKind::Patch {
            at: crc,
            value: count,
        },
        KIND_MOVE => EntryKind::Move { from: count, crc },
        KIND_INDIRECT => EntryKind::Indirect { place: count, crc },
        _ => return Err(bad("an entry has an unknown kind")),
    };
    let possible = match kind {
        EntryKind::Patch { at, .. } => at.is_multiple_of(8),
        EntryKind::Move { from, .. } => from != u64::MAX,
        EntryKind::Indirect { place, .. } => place <= crate::map_page::NUMBER_MAX,
        _ => count > 0 && block.checked_add(count).is_some(),
    };
    if !possible || block == u64::MAX {
        return Err(bad("an entry's range is not possible"));
    }
    Ok(Entry {
        block,
        kind,
        last: raw.flags & ENTRY_LAST != 0,
    })
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}
