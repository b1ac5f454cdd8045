//! Transmission replies.
//!
//! A simple reply is 16 bytes: magic, error, cookie. A structured reply is a
//! sequence of chunks, each with a 20-byte header: magic, flags (2), type (2),
//! cookie (8), payload length (4). Encoders of data chunks make the header
//! alone; the caller sends the data from its own buffer.

use super::consts::*;
use super::errno::NbdErrno;
use super::info::Negotiated;

/// One descriptor of a block status chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, not zero.
    pub length: u32,
    /// State flags of the context (`STATE_*`).
    pub flags: u32,
}

/// A simple reply; `None` is success. Data of a successful read follows it.
pub fn simple_reply(cookie: u64, error: Option<NbdErrno>) -> [u8; 16] {
    let mut out = [0; 16];
    out[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.map_or(0, NbdErrno::code).to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// The header of a chunk with `payload_bytes` of payload.
pub fn chunk_header(kind: u16, cookie: u64, payload_bytes: u32, done: bool) -> [u8; 20] {
    let flags = if done { REPLY_FLAG_DONE } else { 0 };
    let mut out = [0; 20];
    out[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..20].copy_from_slice(&payload_bytes.to_be_bytes());
    out
}

/// The head of a data chunk; `data_bytes` of data follow it.
///
/// # Panics
/// When `data_bytes` is zero, which the protocol forbids, or does not fit the
/// chunk's length field.
pub fn offset_data_header(cookie: u64, offset: u64, data_bytes: u32, done: bool) -> [u8; 28] {
    assert!(data_bytes > 0, "a data chunk holds at least one byte");
    let payload_bytes = data_bytes.checked_add(8).expect("data fits a chunk");
    let mut out = [0; 28];
    out[0..20].copy_from_slice(&chunk_header(
        REPLY_TYPE_OFFSET_DATA,
        cookie,
        payload_bytes,
        done,
    ));
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out
}

/// A chunk that says `hole_bytes` bytes at `offset` read as zeroes.
///
/// # Panics
/// When `hole_bytes` is zero, which the protocol forbids.
pub fn offset_hole(cookie: u64, offset: u64, hole_bytes: u32, done: bool) -> [u8; 32] {
    assert!(hole_bytes > 0, "a hole chunk covers at least one byte");
    let mut out = [0; 32];
    out[0..20].copy_from_slice(&chunk_header(REPLY_TYPE_OFFSET_HOLE, cookie, 12, done));
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out[28..32].copy_from_slice(&hole_bytes.to_be_bytes());
    out
}

/// Appends a block status chunk.
///
/// # Panics
/// When `extents` is empty, longer than [`EXTENTS_MAX`], or holds an empty
/// extent, all of which the protocol forbids.
pub fn put_block_status(
    out: &mut Vec<u8>,
    cookie: u64,
    context_id: u32,
    extents: &[Extent],
    done: bool,
) {
    assert!(!extents.is_empty(), "a status chunk holds an extent");
    assert!(extents.len() <= EXTENTS_MAX, "too many extents in a chunk");
    let payload_bytes = 4 + 8 * extents.len() as u32;
    out.extend_from_slice(&chunk_header(
        REPLY_TYPE_BLOCK_STATUS,
        cookie,
        payload_bytes,
        done,
    ));
    out.extend_from_slice(&context_id.to_be_bytes());
    for extent in extents {
        assert!(extent.length > 0, "an extent is not empty");
        out.extend_from_slice(&extent.length.to_be_bytes());
        out.extend_from_slice(&extent.flags.to_be_bytes());
    }
}

/// Appends an error chunk for the whole request. The message is cut at
/// [`STRING_BYTES_MAX`].
pub fn put_error_chunk(out: &mut Vec<u8>, cookie: u64, errno: NbdErrno, message: &str, done: bool) {
    let message = clip(message);
    let payload_bytes = 6 + message.len() as u32;
    out.extend_from_slice(&chunk_header(REPLY_TYPE_ERROR, cookie, payload_bytes, done));
    out.extend_from_slice(&errno.code().to_be_bytes());
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message.as_bytes());
}

/// Appends a whole error reply in the form that was negotiated: a read must get
/// a structured one, and any other command may, so all do.
pub fn put_error_reply(
    out: &mut Vec<u8>,
    negotiated: &Negotiated,
    cookie: u64,
    errno: NbdErrno,
    message: &str,
) {
    if negotiated.structured_replies {
        put_error_chunk(out, cookie, errno, message, true);
    } else {
        out.extend_from_slice(&simple_reply(cookie, Some(errno)));
    }
}

/// The longest prefix of whole characters that is a legal string.
pub(crate) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}
