//! Messages of option haggling.
//!
//! A client's option is 16 bytes: magic (8), option (4), data length (4), then
//! the data. A reply is 20 bytes: magic (8), option (4), type (4), data length
//! (4), then the data.

use super::consts::*;
use super::messages::clip;
use super::{be16, be32, be64};

/// The head of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// The option (`OPT_*`), unchecked.
    pub option: u32,
    /// Length of the data that follows, as claimed by the client.
    pub data_bytes: u32,
}

impl OptionHeader {
    /// Length of the head in bytes.
    pub const BYTES: usize = 16;

    /// Parses a whole head; `None` when the magic is wrong.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<OptionHeader> {
        if be64(bytes, 0)? != OPTION_MAGIC {
            return None;
        }
        Some(OptionHeader {
            option: be32(bytes, 8)?,
            data_bytes: be32(bytes, 12)?,
        })
    }

    /// The head as bytes, as a client sends it.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        out[8..12].copy_from_slice(&self.option.to_be_bytes());
        out[12..16].copy_from_slice(&self.data_bytes.to_be_bytes());
        out
    }
}

/// Option data that breaks the syntax of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed option data: {0}")]
pub struct MalformedOption(pub &'static str);

/// Data of `OPT_INFO` and `OPT_GO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty for the default one.
    pub export: &'a str,
    /// Which `INFO_*` the client asks for, unknown ones too.
    pub kinds: Vec<u16>,
}

/// Parses the data of `OPT_INFO` and `OPT_GO`.
pub fn parse_info_request(data: &[u8]) -> Result<InfoRequest<'_>, MalformedOption> {
    let mut cursor = Cursor(data);
    let export = cursor.string()?;
    let count = cursor.u16()?;
    if cursor.0.len() != 2 * usize::from(count) {
        return Err(MalformedOption("information requests do not fill the data"));
    }
    let kinds = (0..usize::from(count))
        .filter_map(|i| be16(cursor.0, 2 * i))
        .collect();
    Ok(InfoRequest { export, kinds })
}

/// Data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaContextRequest<'a> {
    /// Name of the export; empty for the default one.
    pub export: &'a str,
    /// Queries, in order.
    pub queries: Vec<&'a str>,
}

/// Parses the data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
pub fn parse_meta_context_request(data: &[u8]) -> Result<MetaContextRequest<'_>, MalformedOption> {
    let mut cursor = Cursor(data);
    let export = cursor.string()?;
    let count = cursor.u32()? as usize;
    // Each query takes at least its length field: a claimed count cannot make
    // the list larger than the data.
    if count > cursor.0.len() / 4 {
        return Err(MalformedOption("more queries than the data can hold"));
    }
    let queries = (0..count)
        .map(|_| cursor.string())
        .collect::<Result<Vec<_>, _>>()?;
    if cursor.0.is_empty() {
        Ok(MetaContextRequest { export, queries })
    } else {
        Err(MalformedOption("bytes left over after the last query"))
    }
}

/// Reads option data from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    const SHORT: MalformedOption = MalformedOption("data ends early");

    fn take(&mut self, count: usize) -> Result<&'a [u8], MalformedOption> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Self::SHORT)?;
        self.0 = tail;
        Ok(head)
    }

    fn u16(&mut self) -> Result<u16, MalformedOption> {
        be16(self.take(2)?, 0).ok_or(Self::SHORT)
    }

    fn u32(&mut self) -> Result<u32, MalformedOption> {
        be32(self.take(4)?, 0).ok_or(Self::SHORT)
    }

    /// A length and a string of the protocol: UTF-8, no NUL, bounded.
    fn string(&mut self) -> Result<&'a str, MalformedOption> {
        let length = self.u32()? as usize;
        if length > STRING_BYTES_MAX {
            return Err(MalformedOption("string is longer than 4096 bytes"));
        }
        let text = std::str::from_utf8(self.take(length)?)
            .map_err(|_| MalformedOption("string is not UTF-8"))?;
        if text.contains('\0') {
            return Err(MalformedOption("string contains NUL"));
        }
        Ok(text)
    }
}

/// Appends the greeting that opens a connection.
pub fn put_greeting(out: &mut Vec<u8>) {
    out.extend_from_slice(&INIT_PASSWD.to_be_bytes());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
}

/// Appends the reply to `OPT_EXPORT_NAME`, which has no reply head; `zeroes`
/// adds the 124 reserved bytes.
pub fn put_export_name_reply(out: &mut Vec<u8>, size_bytes: u64, flags: u16, zeroes: bool) {
    out.extend_from_slice(&size_bytes.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    if zeroes {
        out.extend_from_slice(&[0; 124]);
    }
}

/// Appends an option reply with `data`, which for errors is a message.
///
/// # Panics
/// When `data` does not fit the length field.
pub fn put_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    put_head(out, option, kind, data.len());
    out.extend_from_slice(data);
}

/// Appends a `REP_SERVER` that names an export.
pub fn put_option_server(out: &mut Vec<u8>, name: &str, description: &str) {
    let (name, description) = (clip(name), clip(description));
    put_head(
        out,
        OPT_LIST,
        REP_SERVER,
        4 + name.len() + description.len(),
    );
    out.extend_from_slice(&(name.len() as u32).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(description.as_bytes());
}

/// Appends a `REP_INFO` with [`INFO_EXPORT`].
pub fn put_info_export(out: &mut Vec<u8>, option: u32, size_bytes: u64, flags: u16) {
    put_head(out, option, REP_INFO, 12);
    out.extend_from_slice(&INFO_EXPORT.to_be_bytes());
    out.extend_from_slice(&size_bytes.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
}

/// Appends a `REP_INFO` with [`INFO_NAME`] or [`INFO_DESCRIPTION`].
pub fn put_info_text(out: &mut Vec<u8>, option: u32, info: u16, text: &str) {
    let text = clip(text);
    put_head(out, option, REP_INFO, 2 + text.len());
    out.extend_from_slice(&info.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a `REP_INFO` with [`INFO_BLOCK_SIZE`]: the smallest size is this server's constant.
pub fn put_info_block_size(out: &mut Vec<u8>, option: u32, preferred_bytes: u32, max_bytes: u32) {
    put_head(out, option, REP_INFO, 14);
    out.extend_from_slice(&INFO_BLOCK_SIZE.to_be_bytes());
    out.extend_from_slice(&BLOCK_SIZE_MIN.to_be_bytes());
    out.extend_from_slice(&preferred_bytes.to_be_bytes());
    out.extend_from_slice(&max_bytes.to_be_bytes());
}

/// Appends a `REP_META_CONTEXT`.
pub fn put_option_meta_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    put_head(out, option, REP_META_CONTEXT, 4 + name.len());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn put_head(out: &mut Vec<u8>, option: u32, kind: u32, data_bytes: usize) {
    let data_bytes = u32::try_from(data_bytes).expect("option replies are short");
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&data_bytes.to_be_bytes());
}
