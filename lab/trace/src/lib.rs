//! Reads traces of disk requests line by line: each request, when it was sent, and how long it took.
//!
//! Invariants:
//! 1. No content of a file makes a reader panic. A line that does not have the format is an error with file, line and
//!    reason, and ends the reading.
//! 2. Memory is bounded for files and lines of any length: a line has at most 64 KiB, and the one format that pairs
//!    events (blkparse) keeps at most 65,536 requests open.
//! 3. Arrivals never go back. A step back of up to 10 s, as in logs of several processors, is taken as "at the same
//!    time" and counted. A longer one is an error.
//! 4. A read or write has at least one sector, and its end is a valid sector number.
//!
//! Times are integer nanoseconds, read from decimal digits without floating point. Empty lines and lines that begin
//! with `#` are skipped.

mod blkparse;
mod csv;
mod disksim;
mod error;
mod fields;
mod fio;
mod format;
mod lines;
mod msr;
mod number;
mod pairs;
mod parser;
mod reader;
mod record;
mod sink;
mod spc;

pub use error::{Reason, TraceError};
pub use format::{Format, UnknownFormat};
pub use reader::Reader;
pub use record::{Arrival, Op, Record, SECTOR_BYTES};
