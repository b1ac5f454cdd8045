//! The formats, by name.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A trace format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// `R|W buffer-action lbn sectors measured_us think_us`: DiskSim's validation traces. Closed
    /// loop, one request at a time.
    DisksimValid,
    /// `arrival_ms device lbn sectors flags`, flags in hexadecimal, bit 0 = read: DiskSim's default.
    DisksimAscii,
    /// `ASU,LBA,size_bytes,opcode,timestamp_s`: Storage Performance Council.
    Spc,
    /// `timestamp,host,disk,type,offset_bytes,size_bytes,response`, times in units of 100 ns: MSR Cambridge. Arrivals
    /// count from the first line.
    Msr,
    /// The default text output of blkparse: requests from Q (or D, if there is no Q) to C.
    Blkparse,
    /// fio's iolog, version 2 (closed loop, `wait` as think time) and 3 (timestamps in us).
    FioIolog,
    /// Columns named in a header: `rw`, `blkno` or `lba`, `blocks` or `sectors`; then `think_ms_before_next` (closed
    /// loop) or `arrival_ms`; `measured_ms` or `response_ms`, `device` and `fua` (0 or 1) if known. Measured traces, the
    /// output of a replay, and that of `tonearm trace record`. `rw` is R, W or F (flush); T (trim) and Z (zeroing) are
    /// left out.
    Csv,
}

/// A name that is none of a format.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[error(
    "'{0}' is no trace format: disksim-valid, disksim-ascii, spc, msr, blkparse, fio-iolog or csv"
)]
pub struct UnknownFormat(String);

impl Format {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::DisksimValid,
        Self::DisksimAscii,
        Self::Spc,
        Self::Msr,
        Self::Blkparse,
        Self::FioIolog,
        Self::Csv,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DisksimValid => "disksim-valid",
            Self::DisksimAscii => "disksim-ascii",
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::Blkparse => "blkparse",
            Self::FioIolog => "fio-iolog",
            Self::Csv => "csv",
        }
    }

    /// A sentence about the form of its lines.
    pub const fn about(self) -> &'static str {
        match self {
            Self::DisksimValid => {
                "R|W buffer-action lbn sectors measured_us think_us (closed loop)"
            }
            Self::DisksimAscii => "arrival_ms device lbn sectors flags (bit 0 = read)",
            Self::Spc => "ASU,LBA,size_bytes,r|w,timestamp_s (Storage Performance Council)",
            Self::Msr => "timestamp,host,disk,Read|Write,offset_bytes,size_bytes,response (100 ns)",
            Self::Blkparse => "the default text output of blkparse",
            Self::FioIolog => "fio's iolog, version 2 or 3",
            Self::Csv => {
                "columns named in a header, as of a measured trace, a replay or `tonearm trace record`"
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat(name.to_string()))
    }
}
