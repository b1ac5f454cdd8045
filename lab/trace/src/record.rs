//! One request of a trace, in any format.

use crate::error::Reason;
use tonearm_base::Nanos;

/// Bytes of a sector. All traces count in sectors.
pub const SECTOR_BYTES: u64 = 512;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// Reads sectors.
    Read,
    /// Writes sectors.
    Write,
    /// Empties the drive's write cache.
    Flush,
}

/// When a request is issued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arrival {
    /// At this time of the trace, independent of the drive (open loop).
    At(Nanos),
    /// This long after the previous request was done (closed loop).
    AfterThink(Nanos),
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The line of the file on which it begins, from 1.
    pub line: u64,
    /// When it is issued.
    pub arrival: Arrival,
    /// The device in the trace: the disk's number, the ASU, the file in order of appearance, or
    /// major number << 20 | minor number.
    pub device: u32,
    /// The operation.
    pub op: Op,
    /// A write that must be on the medium when it is done (force unit access).
    pub fua: bool,
    /// First sector; 0 for a flush.
    pub sector: u64,
    /// How many sectors; 0 for a flush.
    pub sectors: u32,
    /// Its duration when the trace was taken, if the trace has it.
    pub response: Option<Nanos>,
}

/// A range of sectors that keeps invariant 4.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub sector: u64,
    pub sectors: u32,
}

impl Extent {
    pub fn new(sector: u64, sectors: u64) -> Result<Self, Reason> {
        if sectors == 0 {
            return Err(Reason::NoSectors);
        }
        let sectors = u32::try_from(sectors).map_err(|_| Reason::TooLarge)?;
        match sector.checked_add(u64::from(sectors)) {
            Some(_) => Ok(Self { sector, sectors }),
            None => Err(Reason::TooLarge),
        }
    }

    /// All sectors that contain a byte of the range; none when the range is empty.
    pub fn of_bytes(offset: u64, bytes: u64) -> Result<Option<Self>, Reason> {
        if bytes == 0 {
            return Ok(None);
        }
        let end = offset.checked_add(bytes).ok_or(Reason::TooLarge)?;
        let sector = offset / SECTOR_BYTES;
        Self::new(sector, end.div_ceil(SECTOR_BYTES) - sector).map(Some)
    }
}
