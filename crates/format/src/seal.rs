//! What the structures of one sector have in common: a version at byte 8 and, at byte 12, the CRC-32C over
//! the sector with that field zero.

use crate::geometry::SECTOR;
use crate::{FORMAT_VERSION, FormatError};
use base::crc32c;

const CRC: std::ops::Range<usize> = 12..16;

/// Puts the checksum into `sector`, of at most [`SECTOR`] bytes, whose checksum field is zero.
pub(crate) fn seal(sector: &mut [u8]) {
    let crc = crc32c(sector);
    sector[CRC].copy_from_slice(&crc.to_le_bytes());
}

/// Checks version and checksum as the sector tells them. The version comes first: another version may keep
/// its checksum elsewhere.
///
/// # Errors
/// When the version is another, or the checksum does not hold.
pub(crate) fn check(
    what: &'static str,
    sector: &[u8],
    version: u32,
    crc: u32,
) -> Result<(), FormatError> {
    check_versions(what, FORMAT_VERSION, sector, version, crc)
}

/// [`check`] of a structure that has versions up to `newest`.
pub(crate) fn check_versions(
    what: &'static str,
    newest: u32,
    sector: &[u8],
    version: u32,
    crc: u32,
) -> Result<(), FormatError> {
    if version == 0 || version > newest {
        return Err(FormatError::Version {
            what,
            found: version,
            supported: newest,
        });
    }
    let mut copy = [0; SECTOR];
    let copy = &mut copy[..sector.len()];
    copy.copy_from_slice(sector);
    copy[CRC].fill(0);
    if crc32c(copy) != crc {
        return Err(FormatError::Checksum(what));
    }
    Ok(())
}
