//! Messages of the transmission phase: requests, the rules that a request must meet before it reaches the store, and
//! replies.
//!
//! A request is a compact header of 28 bytes, and the payload of a write after it:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | magic [`REQUEST_MAGIC`] |
//! | 4..6 | command flags |
//! | 6..8 | command |
//! | 8..16 | cookie, opaque |
//! | 16..24 | offset in bytes |
//! | 24..28 | length in bytes |
//!
//! A wrong magic is found at its first wrong byte, so a client of another protocol is dropped without waiting for a
//! whole header.
//!
//! The rules are checked in a fixed order, so that one request has one answer: command, flags, permission, zero length,
//! range, size. The errors are those of the spec's section "Error values"; where the spec leaves the choice open, the
//! reason is given beside the rule.
//!
//! A simple reply is 16 bytes: magic, error, cookie. A structured reply is a sequence of chunks, each with a 20-byte
//! header: magic, flags (2), type (2), cookie (8), payload length (4). Encoders of data chunks make the header alone;
//! the caller sends the data from its own buffer.

use super::consts::*;
use super::errno::NbdErrno;
use super::info::{ExportInfo, Negotiated};

/// Length of a request header in bytes.
pub const REQUEST_HEADER_BYTES: usize = 28;

/// A parsed header. Nothing but the magic has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command flags (`CMD_FLAG_*`), unchecked.
    pub flags: u16,
    /// Command (`CMD_*`), unchecked.
    pub command: u16,
    /// The client's opaque value, returned in every reply to this request.
    pub cookie: u64,
    /// Offset in the export, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The stream is not a sequence of requests. The connection must be dropped, because the start of the next request is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request does not start with the NBD request magic")]
pub struct BadMagic;

/// Result of looking at the head of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// This many more bytes complete a header.
    NeedMore(usize),
    /// A header, made of the first [`REQUEST_HEADER_BYTES`] bytes.
    Request(Request),
}

impl Request {
    /// Parses a header at the head of `bytes`, ignoring what follows it.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, BadMagic> {
        let magic = REQUEST_MAGIC.to_be_bytes();
        if bytes.iter().zip(magic).any(|(&got, want)| got != want) {
            return Err(BadMagic);
        }
        Ok(match bytes.first_chunk() {
            Some(header) => Parsed::Request(Self::decode(header)),
            None => Parsed::NeedMore(REQUEST_HEADER_BYTES - bytes.len()),
        })
    }

    #[rustfmt::skip]
    fn decode(header: &[u8; REQUEST_HEADER_BYTES]) -> Request {
        let [
            _, _, _, _, f0, f1, c0, c1,
            cookie @ ..,
            o0, o1, o2, o3, o4, o5, o6, o7,
            l0, l1, l2, l3,
        ] = *header;
        Request {
            flags: u16::from_be_bytes([f0, f1]),
            command: u16::from_be_bytes([c0, c1]),
            cookie: u64::from_be_bytes(cookie),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// The header as bytes, as a client sends it.
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut out = [0; REQUEST_HEADER_BYTES];
        out[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.to_be_bytes());
        out[6..8].copy_from_slice(&self.command.to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&self.length.to_be_bytes());
        out
    }

    /// Bytes of payload that follow the header on the wire, valid or not.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == CMD_WRITE {
            self.length
        } else {
            0
        }
    }
}

/// A request that met all rules. Ranges lie within the export and are not
/// empty; reads and writes are at most [`PAYLOAD_BYTES_MAX`] long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read a range.
    Read {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// At most one content chunk.
        dont_fragment: bool,
    },
    /// Write a range; `length` bytes of payload follow the header.
    Write {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// Durable before the reply.
        fua: bool,
    },
    /// End the session after the requests in flight; no reply.
    Disconnect,
    /// Make all completed writes durable.
    Flush,
    /// Forget a range.
    Trim {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// Durable before the reply.
        fua: bool,
    },
    /// Read ahead.
    Cache {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Make a range read as zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// Durable before the reply.
        fua: bool,
        /// Leave the range provisioned.
        no_hole: bool,
        /// Fail with [`NbdErrno::NotSup`] unless faster than a write.
        fast_zero: bool,
    },
    /// Report the extents of a range.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// Exactly one extent, not longer than `length`.
        one_extent: bool,
    },
}

/// What to do with a request whose header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// Receive the payload, if any, and execute.
    Run(Command),
    /// Read the payload, at most [`DRAIN_BYTES_MAX`] bytes, and throw it away; then reply with this error.
    Refuse(NbdErrno),
    /// Drop the connection: the payload is so large that it may be an attack.
    Disconnect,
}

/// Decides about a request, payload included.
pub fn admit(request: &Request, export: &ExportInfo, negotiated: &Negotiated) -> Intake {
    match validate_request(request, export, negotiated) {
        Ok(command) => Intake::Run(command),
        Err(_) if request.payload_bytes() > DRAIN_BYTES_MAX => Intake::Disconnect,
        Err(errno) => Intake::Refuse(errno),
    }
}

/// Checks a request against the spec, the export and what was negotiated.
pub fn validate_request(
    request: &Request,
    export: &ExportInfo,
    negotiated: &Negotiated,
) -> Result<Command, NbdErrno> {
    let &Request { offset, length, .. } = request;
    let has = |flag: u16| request.flags & flag != 0;
    let fua = has(CMD_FLAG_FUA);

    // A client may always disconnect, whatever else the header says.
    if request.command == CMD_DISC {
        return Ok(Command::Disconnect);
    }
    check_flags(request, negotiated)?;
    if export.read_only && writes(request.command) {
        return Err(NbdErrno::Perm);
    }
    if request.command == CMD_FLUSH {
        // Offset and length are reserved and must be zero.
        return match (offset, length) {
            (0, 0) => Ok(Command::Flush),
            _ => Err(NbdErrno::Inval),
        };
    }
    check_range(request, export)?;

    match request.command {
        CMD_READ if length > PAYLOAD_BYTES_MAX => Err(oversize_read(negotiated)),
        CMD_READ => Ok(Command::Read {
            offset,
            length,
            dont_fragment: has(CMD_FLAG_DF),
        }),
        CMD_WRITE if length > PAYLOAD_BYTES_MAX => Err(NbdErrno::Inval),
        CMD_WRITE => Ok(Command::Write {
            offset,
            length,
            fua,
        }),
        CMD_TRIM => Ok(Command::Trim {
            offset,
            length,
            fua,
        }),
        CMD_CACHE => Ok(Command::Cache { offset, length }),
        CMD_WRITE_ZEROES => Ok(Command::WriteZeroes {
            offset,
            length,
            fua,
            no_hole: has(CMD_FLAG_NO_HOLE),
            fast_zero: has(CMD_FLAG_FAST_ZERO),
        }),
        CMD_BLOCK_STATUS if negotiated.base_allocation => Ok(Command::BlockStatus {
            offset,
            length,
            one_extent: has(CMD_FLAG_REQ_ONE),
        }),
        _ => Err(NbdErrno::Inval),
    }
}

/// Whether a command changes the export.
fn writes(command: u16) -> bool {
    matches!(command, CMD_WRITE | CMD_TRIM | CMD_WRITE_ZEROES)
}

/// Refuses unknown commands and flags that the command does not document.
fn check_flags(request: &Request, negotiated: &Negotiated) -> Result<(), NbdErrno> {
    let allowed = CMD_FLAG_FUA
        | match request.command {
            CMD_READ if negotiated.structured_replies => CMD_FLAG_DF,
            CMD_WRITE_ZEROES => CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO,
            CMD_BLOCK_STATUS => CMD_FLAG_REQ_ONE,
            CMD_READ | CMD_WRITE | CMD_FLUSH | CMD_TRIM | CMD_CACHE => 0,
            _ => return Err(NbdErrno::Inval),
        };
    if request.flags & !allowed == 0 {
        Ok(())
    } else {
        Err(NbdErrno::Inval)
    }
}

/// Refuses empty ranges (unspecified by the spec, useless to every client) and
/// ranges beyond the end.
fn check_range(request: &Request, export: &ExportInfo) -> Result<(), NbdErrno> {
    if request.length == 0 {
        return Err(NbdErrno::Inval);
    }
    match request.offset.checked_add(u64::from(request.length)) {
        Some(end) if end <= export.size_bytes => Ok(()),
        _ if matches!(request.command, CMD_WRITE | CMD_WRITE_ZEROES) => Err(NbdErrno::NoSpc),
        _ => Err(NbdErrno::Inval),
    }
}

/// EOVERFLOW asks the client to retry with smaller reads, and is documented for
/// structured replies only.
fn oversize_read(negotiated: &Negotiated) -> NbdErrno {
    if negotiated.structured_replies {
        NbdErrno::Overflow
    } else {
        NbdErrno::Inval
    }
}

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
