//! The lowest layer: units, CRC-32C and aligned buffers. Nothing here knows of a store.

mod buf;
mod crc;
mod units;

pub use buf::{ALIGN, Buf, BufPool, Slice};
pub use crc::crc32c;
pub use units::{BlockNo, Lsn, Nanos, RecordSeq};

#[cfg(test)]
mod buf_test;
