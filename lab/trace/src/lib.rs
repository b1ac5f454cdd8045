//! Traces of disk requests, read line by line: what was asked of a disk, when, and how long it took.
//!
//! Invariants:
//! 1. Nothing that a file may hold makes a reader panic. A line that is not of the format is an
//!    error with file, line and reason, and the end of the reading.
//! 2. Memory is bounded, however long the file or a line of it: a line has at most 64 KiB, and the
//!    one format that pairs events (blkparse) keeps at most 65,536 requests open.
//! 3. Arrivals never go back. A step back of up to 10 s, as logs of several processors have it, is
//!    taken as "at the same time" and counted; a longer one is an error.
//! 4. A read or write has at least one sector, and its end is a sector number, too.
//!
//! Times are integer nanoseconds, read from decimal digits without floating point. Lines that are
//! empty or begin with `#` are passed over.

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
mod reader;
mod record;
mod sink;
mod spc;

pub use error::{Reason, TraceError};
pub use format::{Format, UnknownFormat};
pub use reader::Reader;
pub use record::{Arrival, Op, Record, SECTOR_BYTES};
