//! The lowest layer: units, CRC-32C and aligned buffers. It knows nothing of stores.

mod buf;
mod crc;
mod units;
mod zero;

pub use buf::{ALIGN, AlignedMemory, Buf, BufPool, LooseBuf, Slice};
pub use crc::{crc32c, crc32c_of};
pub use units::{Lsn, Nanos, RecordSeq};
pub use zero::is_zero;

#[cfg(test)]
mod buf_test;
