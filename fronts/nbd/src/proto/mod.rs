//! The NBD wire format: constants, parsers and encoders, without I/O.
//!
//! All integers are big-endian on the wire. Parsers take byte slices, never
//! panic on any input, and never look at a byte beyond the message they parse.

mod consts;
mod errno;
mod info;
mod messages;
mod option;

pub use consts::*;
pub use errno::NbdErrno;
pub use info::{ExportInfo, Negotiated, transmission_flags};
pub use messages::{
    BadMagic, Command, Extent, Intake, Parsed, REQUEST_HEADER_BYTES, Request, admit, chunk_header,
    offset_data_header, offset_hole, put_block_status, put_error_chunk, put_error_reply,
    simple_reply, validate_request,
};
pub use option::{
    InfoRequest, MalformedOption, MetaContextRequest, OptionHeader, parse_info_request,
    parse_meta_context_request, put_export_name_reply, put_greeting, put_info_block_size,
    put_info_export, put_info_text, put_option_meta_context, put_option_reply, put_option_server,
};

#[cfg(test)]
mod option_test;
#[cfg(test)]
mod reply_test;
#[cfg(test)]
mod request_test;

/// Reads a big-endian integer at `at`, or `None` when `bytes` is too short.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(field.try_into().ok()?))
}

/// See [`be16`].
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

/// See [`be16`].
pub(crate) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}
