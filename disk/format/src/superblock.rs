//! The superblock: identity, members, geometry and the log's state. Byte table: `docs/format/superblock.md`.
//!
//! Valid if and only if: signature and version match, the checksum of the whole sector is right, and the fields are
//! consistent with each other. Of several valid copies the one with the highest generation counts.

use crate::array::ArrayLevel;
use crate::error::check_numbers;
use crate::geometry::{
    BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, COUNTER_MAX, Geometry, HEADER_AREA_BYTES, SECTOR,
    SYSTEM_BLOCKS, bytes_with_trailer,
};
use crate::map_page::NUMBER_MAX;
use crate::record::is_log_sector;
use crate::seal::{check, seal};
use crate::segments::{SEGMENT_BLOCKS_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentLayout};
use crate::{FORMAT_VERSION, FormatError, Uuid};

use std::ops::Range;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TONEARM\0";
/// The log's tracks are those of the drives. Each log member has a [`crate::TrackSheet`].
const FLAG_PHYSICAL_TRACKS: u16 = 1;
/// A restore has not written all content yet.
const FLAG_INCOMPLETE: u16 = 1 << 1;
const WHAT: &str = "superblock";
/// Most members of a store.
pub const MEMBERS_MAX: usize = 8;
/// Fewest tracks of a log.
pub const LOG_TRACKS_MIN: u64 = 8;
/// Most bytes of a log track. Recovery reads several at a time.
pub const TRACK_BYTES_MAX: u32 = 64 << 20;
/// Sectors of a log track that may hold no data: a header, a second header for a commit that continues from the track
/// before, and a marker.
pub const TRACK_OVERHEAD_SECTORS: u32 = 3;
/// Most bytes of a member's path.
pub const PATH_MAX: usize = 440;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    store: Uuid,
    generation: U64,
    epoch: U64,
    state: U32,
    block_size: U32,
    member_index: U16,
    member_count: U16,
    log_member: U16,
    log_sector_bytes: U16,
    track_bytes: U32,
    head: U16,
    flags: U16,
    log_offset: U64,
    log_tracks: U64,
    log_start_sector: U64,
    log_start_seq: U64,
    log_end_sector: U64,
    log_end_seq: U64,
    log_end_epoch: U64,
    log_end_lsn: U64,
    start_track: U64,
    size_blocks: U64,
    created_unix_s: U64,
    layout: U16,
    reserved_c: U16,
    segment_bytes: U32,
    trailer_offset: U64,
    reserved_d: [u8; 72],
    redundancy: U16,
    reserved_e: [u8; 6],
    members: [RawMember; MEMBERS_MAX],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMember {
    uuid: Uuid,
    roles: U16,
    path_len: U16,
    reserved: U32,
    data_offset: U64,
    groups: U64,
    path: [u8; PATH_MAX],
}

const _: () = assert!(size_of::<Raw>() == SECTOR);
const _: () = assert!(size_of::<RawMember>() == 480);
const _: () = assert!(std::mem::offset_of!(Raw, members) == 256);

/// Whether the store was closed in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Everything is at home, and no record of the log is needed.
    Clean,
    /// In use, or crashed: the log must be read.
    Open,
}

/// The roles of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Roles {
    /// The log.
    pub log: bool,
    /// Home blocks.
    pub data: bool,
}

/// How the log finds the place of its next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeadKind {
    /// The next sector: for flash, files, and drives without a drive file.
    #[default]
    Sequential,
    /// The geometric formula of Trail 3.1, over the log's physical tracks.
    Formula,
    /// The skip distances of a profile (Disk Mimic).
    Mimic,
    /// Learnt from the writes of the log while it runs.
    Online,
}

impl HeadKind {
    const ALL: [Self; 4] = [Self::Sequential, Self::Formula, Self::Mimic, Self::Online];
}

/// Where blocks live at home.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// Each block has one fixed place.
    #[default]
    Overwrite,
    /// Blocks are found through a map in segments.
    Segments {
        /// Bytes of a segment.
        segment_bytes: u32,
        /// Which blocks are appended, and in which order.
        placement: Placement,
    },
}

/// How the segments layout places blocks that are written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// All are appended.
    #[default]
    Append = 1,
    /// All are appended, those that are written most often first (WOLF).
    Wolf = 2,
    /// Those that are written often are appended, the others are overwritten in place (HyLog).
    Hylog = 3,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Append, Self::Wolf, Self::Hylog];
}

/// One member of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    /// Its identity.
    pub uuid: Uuid,
    /// Its roles.
    pub roles: Roles,
    /// On a data member, byte offset of the first group, or of the checkpoint or first segment. On a member with only the
    /// log, of a store with heads, byte offset of the log's end.
    pub data_offset: u64,
    /// Number of groups, or of segments (data members).
    pub groups: u64,
    /// Its path when the store was made: empty for the primary member, else relative to the primary's folder or absolute.
    pub path: String,
}

/// The log's part of the superblock. Positions are log sectors, counted from the log's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogState {
    /// First record that recovery must read.
    pub log_start_sector: u64,
    /// Its sequence number.
    pub log_start_seq: u64,
    /// Last record before this epoch.
    pub log_end_sector: u64,
    /// Its sequence number. Records of earlier epochs with higher numbers are dead.
    pub log_end_seq: u64,
    /// Its epoch.
    pub log_end_epoch: u64,
    /// Last commit before this epoch.
    pub log_end_lsn: u64,
    /// Track that takes this epoch's first record.
    pub start_track: u64,
}

/// The superblock of one member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Identity of the store.
    pub store: Uuid,
    /// Number of this update.
    pub generation: u64,
    /// Number of this opening; every record carries it.
    pub epoch: u64,
    /// Clean or open.
    pub state: State,
    /// Bytes of a home block.
    pub block_size: u32,
    /// Which of the members this is.
    pub member_index: u16,
    /// Index of the first member with the log. Members with the log take its tracks in turn.
    pub log_member: u16,
    /// Bytes of a log sector.
    pub log_sector_bytes: u16,
    /// How the head of the log's drive is followed.
    pub head: HeadKind,
    /// The log's tracks are those of its drives; each log member has a [`crate::TrackSheet`].
    pub physical_tracks: bool,
    /// A restore has not written all content yet: nobody else may take it for a store.
    pub incomplete: bool,
    /// Bytes of a log track; of the longest one when tracks are those of the drive.
    pub track_bytes: u32,
    /// Byte offset of the log on its member.
    pub log_offset: u64,
    /// Tracks of the log.
    pub log_tracks: u64,
    /// Where the log starts, and where it ended before this epoch.
    pub log: LogState,
    /// Home blocks of the store, the system blocks included.
    pub size_blocks: u64,
    /// When the store was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// Byte offset of the trailer area on this member when this copy was written. Where the member has another size now,
    /// what lies at its end is not this copy's.
    pub trailer_offset: u64,
    /// Where blocks live at home.
    pub layout: Layout,
    /// The data member is an array. Its [`crate::ArrayDescriptor`] is on the primary member and on the array's members.
    pub array: Option<ArrayLevel>,
    /// All members.
    pub members: Vec<MemberEntry>,
}

impl Superblock {
    /// The superblock as one sector.
    ///
    /// # Panics
    /// When there are too many members or a path is too long; `create` checks both.
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.store = self.store;
        raw.generation = self.generation.into();
        raw.epoch = self.epoch.into();
        raw.state = match self.state {
            State::Clean => 1,
            State::Open => 2,
        }
        .into();
        raw.block_size = self.block_size.into();
        raw.member_index = self.member_index.into();
        raw.member_count = (self.members.len() as u16).into();
        raw.log_member = self.log_member.into();
        raw.log_sector_bytes = self.log_sector_bytes.into();
        raw.head = (self.head as u16).into();
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        raw.flags = (flag(self.physical_tracks, FLAG_PHYSICAL_TRACKS)
            | flag(self.incomplete, FLAG_INCOMPLETE))
        .into();
        if let Layout::Segments {
            segment_bytes,
            placement,
        } = self.layout
        {
            raw.layout = (placement as u16).into();
            raw.segment_bytes = segment_bytes.into();
        }
        raw.redundancy = match self.array {
            None => 0,
            Some(ArrayLevel::Raid0) => 1,
            Some(ArrayLevel::Raid5) => 5,
        }
        .into();
        raw.track_bytes = self.track_bytes.into();
        raw.log_offset = self.log_offset.into();
        raw.log_tracks = self.log_tracks.into();
        raw.log_start_sector = self.log.log_start_sector.into();
        raw.log_start_seq = self.log.log_start_seq.into();
        raw.log_end_sector = self.log.log_end_sector.into();
        raw.log_end_seq = self.log.log_end_seq.into();
        raw.log_end_epoch = self.log.log_end_epoch.into();
        raw.log_end_lsn = self.log.log_end_lsn.into();
        raw.start_track = self.log.start_track.into();
        raw.size_blocks = self.size_blocks.into();
        raw.created_unix_s = self.created_unix_s.into();
        raw.trailer_offset = self.trailer_offset.into();
        for (slot, member) in raw.members.iter_mut().zip(&self.members) {
            slot.uuid = member.uuid;
            slot.roles = (u16::from(member.roles.log) | u16::from(member.roles.data) << 1).into();
            slot.path_len = (member.path.len() as u16).into();
            slot.data_offset = member.data_offset.into();
            slot.groups = member.groups.into();
            slot.path[..member.path.len()].copy_from_slice(member.path.as_bytes());
        }
        let mut sector = [0; SECTOR];
        sector.copy_from_slice(raw.as_bytes());
        seal(&mut sector);
        sector
    }

    /// Reads a superblock.
    ///
    /// # Errors
    /// When the bytes are no superblock, of another version, damaged, or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = Raw::ref_from_bytes(bytes).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check(WHAT, bytes, raw.version.get(), raw.crc.get())?;
        let head = HeadKind::ALL.get(usize::from(raw.head.get())).copied();
        let number = raw.layout.get();
        let placement = Placement::ALL.into_iter().find(|one| *one as u16 == number);
        let layout = match placement {
            Some(placement) => Layout::Segments {
                segment_bytes: raw.segment_bytes.get(),
                placement,
            },
            None if number == 0 => Layout::Overwrite,
            _ => return Err(bad("the layout is unknown")),
        };
        let array = match raw.redundancy.get() {
            0 => None,
            1 => Some(ArrayLevel::Raid0),
            5 => Some(ArrayLevel::Raid5),
            _ => return Err(bad("the redundancy is unknown")),
        };
        let superblock = Self {
            store: raw.store,
            generation: raw.generation.get(),
            epoch: raw.epoch.get(),
            state: match raw.state.get() {
                1 => State::Clean,
                2 => State::Open,
                _ => return Err(bad("the state is neither clean nor open")),
            },
            block_size: raw.block_size.get(),
            member_index: raw.member_index.get(),
            log_member: raw.log_member.get(),
            log_sector_bytes: raw.log_sector_bytes.get(),
            physical_tracks: raw.flags.get() & FLAG_PHYSICAL_TRACKS != 0,
            incomplete: raw.flags.get() & FLAG_INCOMPLETE != 0,
            head: head.ok_or(bad("the way to follow the head is unknown"))?,
            track_bytes: raw.track_bytes.get(),
            log_offset: raw.log_offset.get(),
            log_tracks: raw.log_tracks.get(),
            log: LogState {
                log_start_sector: raw.log_start_sector.get(),
                log_start_seq: raw.log_start_seq.get(),
                log_end_sector: raw.log_end_sector.get(),
                log_end_seq: raw.log_end_seq.get(),
                log_end_epoch: raw.log_end_epoch.get(),
                log_end_lsn: raw.log_end_lsn.get(),
                start_track: raw.start_track.get(),
            },
            size_blocks: raw.size_blocks.get(),
            created_unix_s: raw.created_unix_s.get(),
            trailer_offset: raw.trailer_offset.get(),
            layout,
            array,
            members: members_of(raw)?,
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// The segments layout, if the store has it.
    pub fn segments(&self) -> Option<SegmentLayout> {
        let Layout::Segments { segment_bytes, .. } = self.layout else {
            return None;
        };
        let data = self.members.iter().filter(|member| member.roles.data);
        Some(SegmentLayout {
            block_size: self.block_size,
            segment_bytes,
            segments: data.map(|member| member.groups).sum(),
        })
    }

    /// Byte offset after the home blocks of data member `index`.
    pub fn data_end(&self, index: usize) -> u64 {
        let member = &self.members[index];
        match self.segments() {
            None => Geometry {
                block_size: self.block_size,
                data_offset: member.data_offset,
                groups: member.groups,
            }
            .end_offset(),
            Some(layout) => {
                self.first_segment_offset(index) + member.groups * u64::from(layout.segment_bytes)
            }
        }
    }

    /// Bytes that member `index` must have.
    pub fn member_bytes(&self, index: usize) -> u64 {
        let log_end = self.log_range(index).end.max(HEADER_AREA_BYTES);
        let data_end = if self.members[index].roles.data {
            self.data_end(index)
        } else {
            0
        };
        bytes_with_trailer(log_end.max(data_end))
    }

    /// Byte offset of the first segment on data member `index`. The first data member has the checkpoint before it.
    pub fn first_segment_offset(&self, index: usize) -> u64 {
        let first = self.members.iter().position(|member| member.roles.data);
        let checkpoint = match self.segments() {
            Some(layout) if first == Some(index) => layout.checkpoint_bytes(),
            _ => 0,
        };
        self.members[index].data_offset + checkpoint
    }

    /// Bytes that the log takes on its members.
    pub fn log_size_bytes(&self) -> u64 {
        let ranges = self.log_members().map(|index| self.log_range(index));
        ranges.map(|range| range.end - range.start).sum()
    }

    /// Bytes that the log's tracks would have if all were as long as the longest.
    fn log_bytes(&self) -> u64 {
        self.log_tracks * u64::from(self.track_bytes)
    }

    /// Indexes of the members with the log, in the order in which they hold its tracks.
    pub fn log_members(&self) -> impl Iterator<Item = usize> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(_, member)| member.roles.log)
            .map(|(index, _)| index)
    }

    /// Bytes of member `index` that the log takes.
    pub fn log_range(&self, index: usize) -> Range<u64> {
        let member = &self.members[index];
        match (member.roles.log, self.head) {
            (false, _) => 0..0,
            (true, HeadKind::Sequential) => self.log_offset..self.log_offset + self.log_bytes(),
            (true, _) => self.log_offset..member.data_offset,
        }
    }

    /// Checks that the fields are consistent with each other. A superblock that breaks a rule is not written either.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), FormatError> {
        let numbers = [
            ("generation", self.generation),
            ("epoch", self.epoch),
            ("log_end_seq", self.log.log_end_seq),
            ("log_end_lsn", self.log.log_end_lsn),
        ];
        check_numbers(WHAT, COUNTER_MAX, &numbers)?;
        let count = self.members.len();
        let block = self.block_size;
        if !block.is_power_of_two() || !(BLOCK_SIZE_MIN..=BLOCK_SIZE_MAX).contains(&block) {
            return Err(bad(
                "the block size is not a power of two from 4096 to 65536",
            ));
        }
        if usize::from(self.member_index) >= count || usize::from(self.log_member) >= count {
            return Err(bad("a member index is out of range"));
        }
        self.check_log()?;
        let data = self.members.iter().filter(|member| member.roles.data);
        let apart = self.members[0].roles
            == Roles {
                log: true,
                data: false,
            };
        if self.array.is_some() && !(apart && count == 2 && data.count() == 1) {
            return Err(bad("an array is the only data member, beside the log"));
        }
        self.check_data()
    }

    fn check_log(&self) -> Result<(), FormatError> {
        let (log, block) = (&self.log, self.block_size);
        let plain = self.head == HeadKind::Sequential;
        let logs = self.log_members().count();
        if self.log_members().next() != Some(usize::from(self.log_member)) {
            return Err(bad("the log is not on the member that is named"));
        }
        if plain && logs != 1 {
            return Err(bad("there must be exactly one log member"));
        }
        let sector = u32::from(self.log_sector_bytes);
        if !is_log_sector(sector as usize) {
            return Err(bad("the log's sector size is not possible"));
        }
        let least = if plain {
            (16 * sector).max(4 * block)
        } else {
            block + TRACK_OVERHEAD_SECTORS * sector
        };
        if !self.track_bytes.is_multiple_of(sector)
            || !(least..=TRACK_BYTES_MAX).contains(&self.track_bytes)
        {
            return Err(bad("the track size is not possible"));
        }
        let in_range = |member: &MemberEntry| {
            !member.roles.data && (self.log_offset..1 << 62).contains(&member.data_offset)
        };
        if !plain
            && !self
                .log_members()
                .all(|index| in_range(&self.members[index]))
        {
            return Err(bad("a log member's place is not possible"));
        }
        let log_end = self.log_tracks.checked_mul(u64::from(self.track_bytes));
        let log_end = log_end.and_then(|bytes| bytes.checked_add(self.log_offset));
        if self.log_tracks < 4
            || self.log_offset < HEADER_AREA_BYTES
            || !self.log_offset.is_multiple_of(SECTOR as u64)
            || log_end.is_none_or(|end| end >> 62 != 0)
        {
            return Err(bad("the log's place is not possible"));
        }
        // If the tracks are those of a drive, its sheet says where they are.
        let share = self.log_tracks.div_ceil(logs as u64) * u64::from(self.track_bytes);
        let short = |index: usize| self.members[index].data_offset - self.log_offset < share;
        if !plain && !self.physical_tracks && self.log_members().any(short) {
            return Err(bad("a log member is too short for its tracks"));
        }
        let sectors = self.log_bytes() / u64::from(sector);
        if log.log_start_sector >= sectors
            || log.log_end_sector >= sectors
            || log.start_track >= self.log_tracks
        {
            return Err(bad("a log position lies outside the log"));
        }
        if log.log_start_seq > log.log_end_seq + 1 || log.log_end_epoch > self.epoch {
            return Err(bad("the log's sequence numbers do not fit"));
        }
        Ok(())
    }

    fn check_data(&self) -> Result<(), FormatError> {
        let block = u64::from(self.block_size);
        let (unit_blocks, unit_bytes) = match self.layout {
            Layout::Overwrite => {
                let blocks = crate::slot_entries(self.block_size) as u64;
                (blocks, (blocks + 2) * block)
            }
            Layout::Segments { segment_bytes, .. } => {
                let bytes = u64::from(segment_bytes);
                if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
                    || !bytes.is_multiple_of(block)
                    || !(SEGMENT_BLOCKS_MIN..1 << 15).contains(&(bytes / block))
                {
                    return Err(bad("the segment size is not possible"));
                }
                let layout = SegmentLayout {
                    block_size: self.block_size,
                    segment_bytes,
                    segments: 0,
                };
                (layout.payload_blocks(), bytes)
            }
        };
        let mut blocks = 0u64;
        for (index, member) in self.members.iter().enumerate() {
            if !member.roles.data {
                continue;
            }
            // On a member with the log, the log comes first.
            let before = self.log_range(index).end.max(HEADER_AREA_BYTES);
            // The checkpoint takes less than one more segment for each.
            let end = member.groups.checked_mul(2 * unit_bytes);
            let end = end.and_then(|bytes| bytes.checked_add(member.data_offset));
            if member.data_offset < before
                || !member.data_offset.is_multiple_of(SECTOR as u64)
                || end.is_none_or(|end| end >> 63 != 0)
            {
                return Err(bad("a data member's place is not possible"));
            }
            blocks += member.groups * unit_blocks;
        }
        if self.size_blocks > blocks {
            return Err(bad("the size is not covered by the data members"));
        }
        if self.size_blocks < SYSTEM_BLOCKS {
            return Err(bad("the store is smaller than its volume table"));
        }
        // The last two numbers are not places.
        let places = self.segments().map_or(0, |layout| {
            u128::from(layout.segments + 1) * u128::from(layout.segment_blocks())
        });
        if places >= u128::from(NUMBER_MAX) {
            return Err(bad("it has more segments than place numbers can count"));
        }
        Ok(())
    }
}

fn members_of(raw: &Raw) -> Result<Vec<MemberEntry>, FormatError> {
    let count = usize::from(raw.member_count.get());
    if count == 0 || count > MEMBERS_MAX {
        return Err(bad("the number of members is not possible"));
    }
    raw.members[..count]
        .iter()
        .map(|member| {
            let path = member.path.get(..usize::from(member.path_len.get()));
            let path = path.and_then(|path| std::str::from_utf8(path).ok());
            Ok(MemberEntry {
                uuid: member.uuid,
                roles: Roles {
                    log: member.roles.get() & 1 != 0,
                    data: member.roles.get() & 2 != 0,
                },
                data_offset: member.data_offset.get(),
                groups: member.groups.get(),
                path: path.ok_or(bad("a member's path is not text"))?.to_string(),
            })
        })
        .collect()
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}
