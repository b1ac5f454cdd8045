//! The header fields that sealed structures share: the version at byte 8, and at byte 12 the CRC-32C of the whole
//! structure with that field zero.

use crate::{FORMAT_VERSION, FormatError};
use tonearm_base::{crc32c, crc32c_of};

const CRC: std::ops::Range<usize> = 12..16;

/// Puts the checksum into `bytes`, whose checksum field is zero.
pub(crate) fn seal(bytes: &mut [u8]) {
    let crc = crc32c(bytes);
    bytes[CRC].copy_from_slice(&crc.to_le_bytes());
}

/// Checks the version that was read.
///
/// # Errors
/// When it is another one than [`FORMAT_VERSION`].
pub(crate) fn check_version(what: &'static str, version: u32) -> Result<(), FormatError> {
    if version == FORMAT_VERSION {
        return Ok(());
    }
    Err(FormatError::Version {
        what,
        found: version,
        supported: FORMAT_VERSION,
    })
}

/// Checks the version and the checksum that were read from `bytes`. The version comes first, because another version
/// may keep its checksum elsewhere.
///
/// # Errors
/// When the version is not supported, or the checksum is wrong.
pub(crate) fn check(
    what: &'static str,
    bytes: &[u8],
    version: u32,
    crc: u32,
) -> Result<(), FormatError> {
    check_version(what, version)?;
    if crc32c_of(&[&bytes[..CRC.start], &[0; 4], &bytes[CRC.end..]]) != crc {
        return Err(FormatError::Checksum(what));
    }
    Ok(())
}
