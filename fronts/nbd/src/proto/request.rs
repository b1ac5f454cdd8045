//! Transmission requests: the compact 28-byte header.
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
//! A wrong magic is found at its first wrong byte, so a client that talks
//! another protocol is dropped without waiting for a whole header.

use super::consts::*;
use super::{be16, be32, be64};

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

/// The stream is not a sequence of requests; the connection must be dropped,
/// for nothing after this point can be framed.
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
        match Self::fields(bytes) {
            Some(request) => Ok(Parsed::Request(request)),
            None => Ok(Parsed::NeedMore(REQUEST_HEADER_BYTES - bytes.len())),
        }
    }

    fn fields(bytes: &[u8]) -> Option<Request> {
        Some(Request {
            flags: be16(bytes, 4)?,
            command: be16(bytes, 6)?,
            cookie: be64(bytes, 8)?,
            offset: be64(bytes, 16)?,
            length: be32(bytes, 24)?,
        })
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

/// Collects a header from arbitrarily split input.
#[derive(Clone, Debug, Default)]
pub struct HeaderParser {
    bytes: [u8; REQUEST_HEADER_BYTES],
    filled: usize,
}

impl HeaderParser {
    /// An empty parser.
    pub fn new() -> HeaderParser {
        HeaderParser::default()
    }

    /// Takes bytes from the head of `input` until a header is complete, and
    /// returns how many were taken. Never takes a byte behind the header, which
    /// may be payload. After a header the parser is empty again.
    pub fn push(&mut self, input: &[u8]) -> Result<(usize, Option<Request>), BadMagic> {
        let taken = input.len().min(REQUEST_HEADER_BYTES - self.filled);
        let end = self.filled + taken;
        self.bytes[self.filled..end].copy_from_slice(&input[..taken]);
        self.filled = end;
        match Request::parse(&self.bytes[..end])? {
            Parsed::NeedMore(_) => Ok((taken, None)),
            Parsed::Request(request) => {
                self.filled = 0;
                Ok((taken, Some(request)))
            }
        }
    }

    /// Bytes still missing from the header in progress.
    pub fn missing(&self) -> usize {
        REQUEST_HEADER_BYTES - self.filled
    }

    /// Whether no byte of a header has arrived: the only place at which the end
    /// of the stream is not a truncated request.
    pub fn is_idle(&self) -> bool {
        self.filled == 0
    }
}
