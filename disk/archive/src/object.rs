//! An object: a header and a payload, which is compressed and may be encrypted.

use crate::keys::Keys;
use bytes::Bytes;
use std::io::{Read, Write};
use tonearm_base::crc32c;
use tonearm_format::{ARCHIVE_HEADER_BYTES, ArchiveHeader, ArchiveKind, FormatError};
use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

/// Level of compression. Higher ones take more time than they save on what databases write.
const LEVEL: i32 = 1;
/// Largest window of a frame that is decompressed, as a power of two. Those of [`LEVEL`] are smaller.
const WINDOW_LOG_MAX: u32 = 23;
/// Most bytes for which there is memory before there is content.
const ROOM_BYTES: u64 = 32 << 20;
const WHAT: &str = "archive object";

/// An object that is being made. Its payload is compressed as it comes, so that it is not all in memory twice.
pub(crate) struct Packer {
    /// Room for the header, and the payload so far.
    encoder: Encoder<'static, Vec<u8>>,
    raw_bytes: u64,
}

impl Packer {
    /// An object without a payload, in the memory of `buffer`: fresh memory costs more time than to compress does.
    pub(crate) fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(ARCHIVE_HEADER_BYTES, 0);
        Self {
            encoder: Encoder::new(buffer, LEVEL).expect("the level is one of zstd"),
            raw_bytes: 0,
        }
    }

    /// An object with this payload.
    pub(crate) fn of(payload: &[u8]) -> Self {
        let mut packer = Self::new(Vec::new());
        packer.add(payload);
        packer
    }

    /// Adds to the payload.
    pub(crate) fn add(&mut self, payload: &[u8]) {
        let added = self.encoder.write_all(payload);
        added.expect("memory takes any number of bytes");
        self.raw_bytes += payload.len() as u64;
    }

    /// Bytes of the payload so far.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// The object. Sizes, checksum and encryption of `header` are filled in. Changes and blocks are encrypted. What the
    /// archiver itself reads again is not: it has no key to decrypt with.
    pub(crate) fn seal(self, keys: &dyn Keys, mut header: ArchiveHeader) -> (ArchiveHeader, Bytes) {
        let finished = self.encoder.finish();
        let mut object = finished.expect("memory takes any number of bytes");
        let encrypted = match header.kind {
            ArchiveKind::Range | ArchiveKind::Merged | ArchiveKind::BasePart => {
                keys.encrypt(&object[ARCHIVE_HEADER_BYTES..])
            }
            ArchiveKind::Opening | ArchiveKind::Base | ArchiveKind::Mark => None,
        };
        header.encrypted = encrypted.is_some();
        if let Some(encrypted) = encrypted {
            object.truncate(ARCHIVE_HEADER_BYTES);
            object.extend(encrypted);
        }
        let stored = &object[ARCHIVE_HEADER_BYTES..];
        header.raw_bytes = self.raw_bytes;
        header.stored_bytes = stored.len() as u64;
        header.payload_crc = crc32c(stored);
        object[..ARCHIVE_HEADER_BYTES].copy_from_slice(&header.encode());
        (header, object.into())
    }
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
    if crc32c(stored) == header.payload_crc {
        Ok((header, stored))
    } else {
        Err(FormatError::Checksum(WHAT))
    }
}

/// The payload of an object that is not encrypted any more.
///
/// # Errors
/// When it is damaged.
pub(crate) fn unpack(header: &ArchiveHeader, compressed: &[u8]) -> Result<Vec<u8>, FormatError> {
    // Memory is taken as the payload comes. The header may claim any size.
    let mut payload = Vec::with_capacity(header.raw_bytes.min(ROOM_BYTES) as usize);
    let decoder = Decoder::with_buffer(compressed);
    let read = decoder.and_then(|mut decoder| {
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        let mut decoder = decoder.single_frame().take(header.raw_bytes + 1);
        decoder.read_to_end(&mut payload)
    });
    read.map_err(|_| wrong("its payload cannot be decompressed"))?;
    if payload.len() as u64 == header.raw_bytes {
        Ok(payload)
    } else {
        Err(wrong("its payload is not as long as its header says"))
    }
}

fn wrong(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}

#[cfg(test)]
#[path = "object_test.rs"]
mod object_test;
