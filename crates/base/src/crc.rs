//! CRC-32C (Castagnoli), the one checksum of every on-disk structure and of every block.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}
