//! An object: a header and a payload, which is compressed and may be encrypted.

use crate::keys::Keys;
use tonearm_base::crc32c;
use tonearm_format::{
    ARCHIVE_HEADER_BYTES, ArchiveEntry, ArchiveHeader, ArchiveKind, ArchiveReader, FormatError,
    SYSTEM_BLOCKS,
};

/// Level of compression. Higher ones take more time than they save on what databases write.
const LEVEL: i32 = 1;
const WHAT: &str = "archive object";

/// Makes an object. Sizes, checksum and encryption of `header` are filled in. Changes and blocks are encrypted. What the
/// archiver itself reads again is not: it has no key to decrypt with.
pub(crate) fn seal(
    keys: &dyn Keys,
    mut header: ArchiveHeader,
    payload: &[u8],
) -> (ArchiveHeader, Vec<u8>) {
    let compressed = zstd::bulk::compress(payload, LEVEL);
    let compressed = compressed.expect("memory takes any number of bytes");
    let encrypted = match header.kind {
        ArchiveKind::Range | ArchiveKind::Merged | ArchiveKind::BasePart => {
            keys.encrypt(&compressed)
        }
        ArchiveKind::Opening | ArchiveKind::Base | ArchiveKind::Mark => None,
    };
    header.encrypted = encrypted.is_some();
    let stored = encrypted.unwrap_or(compressed);
    header.raw_bytes = payload.len() as u64;
    header.stored_bytes = stored.len() as u64;
    header.payload_crc = crc32c(&stored);
    let mut object = header.encode().to_vec();
    object.extend(stored);
    (header, object)
}

/// The header of an object, and its payload as it is stored, which has its checksum.
///
/// # Errors
/// When it is none, or damaged.
pub(crate) fn check(object: &[u8]) -> Result<(ArchiveHeader, &[u8]), FormatError> {
    let header = ArchiveHeader::decode(object)?;
    let stored = &object[ARCHIVE_HEADER_BYTES..];
    if stored.len() as u64 != header.stored_bytes {
        return Err(wrong("it is not as long as its header says"));
    }
    match crc32c(stored) == header.payload_crc {
        true => Ok((header, stored)),
        false => Err(FormatError::Checksum(WHAT)),
    }
}

/// The payload of an object that is not encrypted any more.
///
/// # Errors
/// When it is damaged.
pub(crate) fn unpack(header: &ArchiveHeader, compressed: &[u8]) -> Result<Vec<u8>, FormatError> {
    let payload = zstd::bulk::decompress(compressed, header.raw_bytes as usize);
    let payload = payload.map_err(|_| wrong("its payload cannot be decompressed"))?;
    match payload.len() as u64 == header.raw_bytes {
        true => Ok(payload),
        false => Err(wrong("its payload is not as long as its header says")),
    }
}

fn wrong(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}

/// True when the entries of a range change no block of the volume table.
pub(crate) fn spares_table(entries: &[u8], block_size: u32) -> bool {
    let mut reader = ArchiveReader::new(entries, block_size as usize);
    while let Some(entry) = reader.next() {
        let first = match entry {
            Ok(ArchiveEntry::Data { block, .. } | ArchiveEntry::Patch { block, .. }) => block,
            Ok(ArchiveEntry::Zero { first, .. }) => first,
            Ok(ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. }) => continue,
            Err(_) => return false,
        };
        if first < SYSTEM_BLOCKS {
            return false;
        }
    }
    true
}
