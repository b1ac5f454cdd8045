//! The sheet of a log drive: its physical tracks and the data of the head's predictor, beside the superblock as in
//! Trail 3.2. Byte table: `docs/format/track-sheet.md`.
//!
//! It is written when the store is made and never changes. Valid if and only if: signature and version match, the
//! checksum of the whole sheet is right, and no time is longer than ten seconds.

use crate::array::ARRAY_BYTES;
use crate::error::check_numbers;
use crate::geometry::{SECTOR, SLOT_BYTES, superblock_offset};
use crate::seal::{check, check_version, seal};
use crate::{FORMAT_VERSION, FormatError, Uuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNTRACKS";
const WHAT: &str = "track sheet";
/// Most bytes of a sheet: the space from a superblock slot to the copy of an array's descriptor before the next one.
pub const SHEET_BYTES_MAX: usize = SLOT_BYTES as usize - SECTOR - ARRAY_BYTES;
/// Longest time of a revolution, a switch or a lag.
const TIME_MAX_NS: u64 = 10_000_000_000;

/// Byte offsets of its two copies on a member of `member_bytes` bytes: in the header area and in the trailer area.
pub const fn sheet_offsets(member_bytes: u64) -> [u64; 2] {
    [
        superblock_offset(0, member_bytes) + SECTOR as u64,
        superblock_offset(2, member_bytes) + SECTOR as u64,
    ]
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    store: Uuid,
    member_index: U16,
    reserved_a: U16,
    runs: U32,
    skips: U32,
    lead_turn_sectors: U32,
    period_ps: U64,
    switch_ns: U64,
    leads: [U32; 3],
    read_ahead_sectors: U32,
    read_lag_ns: U64,
    reserved_b: [u8; 40],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRun {
    first: U64,
    tracks: U32,
    sectors: U32,
    turn_sectors: U32,
    angle: U32,
    group: U32,
    at: U32,
    short: U32,
    track_skew: U32,
    cylinder_skew: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAxis {
    first: U64,
    step: U64,
    count: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTable {
    axes: [RawAxis; 3],
    reserved: U32,
    turn_ns: U64,
}

const _: () = assert!(size_of::<RawTable>() == 72);
const _: () = assert!(size_of::<Raw>() == 128);
const _: () = assert!(size_of::<RawRun>() == 48);

/// Adjacent tracks of the same shape. Sectors have 512 bytes and are counted from the start of the member;
/// angles are in units of 2^-32 of a revolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SheetRun {
    /// First sector of the first track.
    pub first: u64,
    /// Number of tracks.
    pub tracks: u32,
    /// Sectors of a track.
    pub sectors: u32,
    /// Sectors of a revolution.
    pub turn_sectors: u32,
    /// Angle of the first sector.
    pub angle: u32,
    /// Tracks of a cylinder.
    pub group: u32,
    /// Place of the first track within its cylinder.
    pub at: u32,
    /// Sectors by which the last track of a cylinder is shorter.
    pub short: u32,
    /// Angle from track to track.
    pub track_skew: u32,
    /// Angle from the last track of a cylinder to the next one.
    pub cylinder_skew: u32,
}

/// Evenly spaced numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SkipAxis {
    /// The first one.
    pub first: u64,
    /// From each to the next.
    pub step: u64,
    /// How many.
    pub count: u32,
}

/// The skip for each request size and think time (Disk Mimic 2.2).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SkipTable {
    /// Request sizes in sectors, think times in nanoseconds, skips in sectors.
    pub axes: [SkipAxis; 3],
    /// Time of a revolution in nanoseconds, after which think times repeat; 0 when they do not.
    pub turn_ns: u64,
    /// Places of the skips on their axis, by size and then by think time.
    pub skips: Vec<u16>,
}

/// The sheet of one log member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrackSheet {
    /// Identity of the store.
    pub store: Uuid,
    /// Which of the members this is.
    pub member_index: u16,
    /// Time of a revolution in picoseconds; 0 when it is not known.
    pub period_ps: u64,
    /// Sectors that pass under the head between the end of a request and the first at which the next one can
    /// begin (Trail's delta): for a write after a write, a write after a read, and a read after a write.
    pub leads: [u32; 3],
    /// Sectors of a revolution where the leads were found; 0 when they are not known.
    pub lead_turn_sectors: u32,
    /// Sectors that the drive reads ahead after a read.
    pub read_ahead_sectors: u32,
    /// Time from the last sector of a read to its end, less the same time of a write, in nanoseconds.
    pub read_lag_ns: i64,
    /// Time to get to the next track, in nanoseconds.
    pub switch_ns: u64,
    /// The tracks; none when the log's tracks are not those of the drive.
    pub runs: Vec<SheetRun>,
    /// Skip distances of a profile.
    pub table: Option<SkipTable>,
}

/// Bytes of a sheet with `runs` runs and a table of `skips` skips (none: no table), in whole sectors.
const fn bytes_of(runs: usize, skips: usize) -> usize {
    let table = if skips > 0 { size_of::<RawTable>() } else { 0 };
    let bytes = size_of::<Raw>() + runs * size_of::<RawRun>() + table + 2 * skips;
    bytes.next_multiple_of(SECTOR)
}

impl TrackSheet {
    /// Bytes that it takes, in whole sectors.
    pub fn bytes(&self) -> usize {
        let skips = self.table.as_ref().map_or(0, |table| table.skips.len());
        bytes_of(self.runs.len(), skips)
    }

    /// The sheet in whole sectors.
    ///
    /// # Panics
    /// When it is longer than [`SHEET_BYTES_MAX`]: `create` checks that.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.bytes();
        assert!(
            bytes <= SHEET_BYTES_MAX,
            "a sheet fits beside the superblock"
        );
        let raw = Raw {
            magic: MAGIC,
            version: FORMAT_VERSION.into(),
            crc: 0.into(),
            store: self.store,
            member_index: self.member_index.into(),
            reserved_a: 0.into(),
            runs: (self.runs.len() as u32).into(),
            skips: (self.table.as_ref().map_or(0, |table| table.skips.len()) as u32).into(),
            lead_turn_sectors: self.lead_turn_sectors.into(),
            period_ps: self.period_ps.into(),
            switch_ns: self.switch_ns.into(),
            leads: self.leads.map(U32::from),
            read_ahead_sectors: self.read_ahead_sectors.into(),
            read_lag_ns: self.read_lag_ns.cast_unsigned().into(),
            reserved_b: [0; 40],
        };
        let mut out = Vec::with_capacity(bytes);
        out.extend(raw.as_bytes());
        for run in &self.runs {
            let raw = RawRun {
                first: run.first.into(),
                tracks: run.tracks.into(),
                sectors: run.sectors.into(),
                turn_sectors: run.turn_sectors.into(),
                angle: run.angle.into(),
                group: run.group.into(),
                at: run.at.into(),
                short: run.short.into(),
                track_skew: run.track_skew.into(),
                cylinder_skew: run.cylinder_skew.into(),
                reserved: 0.into(),
            };
            out.extend(raw.as_bytes());
        }
        if let Some(table) = self.table.as_ref().filter(|table| !table.skips.is_empty()) {
            let axis = |axis: SkipAxis| RawAxis {
                first: axis.first.into(),
                step: axis.step.into(),
                count: axis.count.into(),
            };
            let raw = RawTable {
                axes: table.axes.map(axis),
                reserved: 0.into(),
                turn_ns: table.turn_ns.into(),
            };
            out.extend(raw.as_bytes());
            out.extend(table.skips.iter().flat_map(|skip| skip.to_le_bytes()));
        }
        out.resize(bytes, 0);
        seal(&mut out);
        out
    }

    /// Bytes of the sheet whose first sector is `sector`.
    ///
    /// # Errors
    /// When there is no sheet, or a sheet that is too long.
    pub fn bytes_of(sector: &[u8]) -> Result<usize, FormatError> {
        let (raw, _) = Raw::ref_from_prefix(sector).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check_version(WHAT, raw.version.get())?;
        let (runs, skips) = (raw.runs.get() as usize, raw.skips.get() as usize);
        let bytes = bytes_of(runs.min(SHEET_BYTES_MAX), skips.min(SHEET_BYTES_MAX));
        if bytes > SHEET_BYTES_MAX {
            return Err(bad("it is longer than its place"));
        }
        Ok(bytes)
    }

    /// Reads a sheet from at least [`TrackSheet::bytes_of`] bytes.
    ///
    /// # Errors
    /// When the bytes are no sheet, of another version, damaged, or cut off.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let length = Self::bytes_of(bytes)?;
        let whole = bytes.get(..length).ok_or(bad("it is cut off"))?;
        let (raw, rest) = Raw::ref_from_prefix(whole).map_err(|_| bad("it is cut off"))?;
        check(WHAT, whole, raw.version.get(), raw.crc.get())?;
        let count = raw.runs.get() as usize;
        let (runs, rest) = <[RawRun]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| bad("it is cut off"))?;
        let skips = raw.skips.get() as usize;
        let table = if skips > 0 {
            Some(table_of(rest, skips)?)
        } else {
            None
        };
        let lag = raw.read_lag_ns.get().cast_signed().unsigned_abs();
        let times = [
            ("switch_ns", raw.switch_ns.get()),
            ("read_lag_ns", lag),
            ("turn_ns", table.as_ref().map_or(0, |table| table.turn_ns)),
        ];
        check_numbers(WHAT, TIME_MAX_NS, &times)?;
        check_numbers(
            WHAT,
            1000 * TIME_MAX_NS,
            &[("period_ps", raw.period_ps.get())],
        )?;
        Ok(Self {
            store: raw.store,
            member_index: raw.member_index.get(),
            period_ps: raw.period_ps.get(),
            leads: raw.leads.map(U32::get),
            read_ahead_sectors: raw.read_ahead_sectors.get(),
            read_lag_ns: raw.read_lag_ns.get().cast_signed(),
            lead_turn_sectors: raw.lead_turn_sectors.get(),
            switch_ns: raw.switch_ns.get(),
            runs: runs.iter().map(run_of).collect(),
            table,
        })
    }
}

fn run_of(raw: &RawRun) -> SheetRun {
    SheetRun {
        first: raw.first.get(),
        tracks: raw.tracks.get(),
        sectors: raw.sectors.get(),
        turn_sectors: raw.turn_sectors.get(),
        angle: raw.angle.get(),
        group: raw.group.get(),
        at: raw.at.get(),
        short: raw.short.get(),
        track_skew: raw.track_skew.get(),
        cylinder_skew: raw.cylinder_skew.get(),
    }
}

fn table_of(bytes: &[u8], skips: usize) -> Result<SkipTable, FormatError> {
    let cut = bad("it is cut off");
    let (raw, rest) = RawTable::ref_from_prefix(bytes).map_err(|_| cut)?;
    let axes = raw.axes.each_ref().map(|axis| SkipAxis {
        first: axis.first.get(),
        step: axis.step.get(),
        count: axis.count.get(),
    });
    let points = u64::from(axes[0].count) * u64::from(axes[1].count);
    if points != skips as u64 {
        return Err(bad("its table does not have one skip for each point"));
    }
    let (skips, _) = <[U16]>::ref_from_prefix_with_elems(rest, skips).map_err(|_| cut)?;
    let skips: Vec<u16> = skips.iter().map(|skip| skip.get()).collect();
    if skips.iter().any(|skip| u32::from(*skip) >= axes[2].count) {
        return Err(bad("its table names a skip that does not exist"));
    }
    Ok(SkipTable {
        axes,
        turn_ns: raw.turn_ns.get(),
        skips,
    })
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}
