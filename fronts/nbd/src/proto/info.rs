//! Facts that both sides know when transmission starts.

use super::consts::*;

/// The facts of an export that decide whether a request is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes; may be any number, aligned or not.
    pub size_bytes: u64,
    /// Whether writing commands are refused.
    pub read_only: bool,
}

/// What the client and the server agreed on during the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Structured replies are used; reads must be answered with chunks.
    pub structured_replies: bool,
    /// `base:allocation` was selected under [`BASE_ALLOCATION_ID`]. Implies
    /// `structured_replies`.
    pub base_allocation: bool,
}

/// The transmission flags offered for an export.
///
/// Multi-connection use is always offered: all connections share one engine, so
/// a flush on one covers the completed writes of all.
pub fn transmission_flags(read_only: bool, structured_replies: bool) -> u16 {
    let mut flags = FLAG_HAS_FLAGS
        | FLAG_SEND_FLUSH
        | FLAG_SEND_FUA
        | FLAG_SEND_TRIM
        | FLAG_SEND_WRITE_ZEROES
        | FLAG_SEND_FAST_ZERO
        | FLAG_SEND_CACHE
        | FLAG_CAN_MULTI_CONN;
    if structured_replies {
        flags |= FLAG_SEND_DF;
    }
    if read_only {
        flags |= FLAG_READ_ONLY;
    }
    flags
}
