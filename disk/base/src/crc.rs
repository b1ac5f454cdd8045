//! CRC-32C (Castagnoli), the checksum of every on-disk structure and of every block.

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// CRC-32C of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}

/// CRC-32C of the concatenation of `parts`.
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::{crc32c, crc32c_of};

    #[test]
    fn the_checksum_of_parts_is_that_of_the_whole() {
        let whole = *b"123456789";
        assert_eq!(crc32c(&whole), 0xe306_9283);
        let parts = [&whole[..2], &whole[2..2], &whole[2..5], &whole[5..]];
        assert_eq!(crc32c_of(&parts), crc32c(&whole));
    }
}
