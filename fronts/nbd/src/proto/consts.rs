//! Magic numbers, codes and limits of the protocol, named as in the spec
//! without the `NBD_` prefix.

/// First greeting word, ASCII `NBDMAGIC`.
pub const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// Second greeting word and head of every option, ASCII `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Head of every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Head of a compact transmission request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Head of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Head of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake and client flag: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake and client flag: no 124 zeroes after `OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Transmission flag, always set.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writes are refused.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `CMD_FLUSH` works.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `CMD_FLAG_FUA` works.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: a rotational medium. Not offered by this server.
pub const FLAG_ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: `CMD_TRIM` works.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `CMD_WRITE_ZEROES` works.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `CMD_FLAG_DF` works; only with structured replies.
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: flush and FUA hold across connections.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: `CMD_CACHE` works.
pub const FLAG_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: `CMD_FLAG_FAST_ZERO` works.
pub const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

/// Option: choose an export and enter transmission, no error reply possible.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option: upgrade to TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and enter transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: 64-bit request headers. Not offered by this server.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: done.
pub const REP_ACK: u32 = 1;
/// Option reply: one export.
pub const REP_SERVER: u32 = 2;
/// Option reply: one fact about an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Option error: unknown option.
pub const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
/// Option error: forbidden by configuration.
pub const REP_ERR_POLICY: u32 = (1 << 31) + 2;
/// Option error: malformed, or not valid now.
pub const REP_ERR_INVALID: u32 = (1 << 31) + 3;
/// Option error: TLS comes first.
pub const REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
/// Option error: no such export.
pub const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
/// Option error: the server is shutting down.
pub const REP_ERR_SHUTDOWN: u32 = (1 << 31) + 7;
/// Option error: request or reply too large.
pub const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

/// Information: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information: canonical name.
pub const INFO_NAME: u16 = 1;
/// Information: description.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: size constraints.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write; the payload follows the header.
pub const CMD_WRITE: u16 = 1;
/// Command: disconnect; no reply.
pub const CMD_DISC: u16 = 2;
/// Command: flush.
pub const CMD_FLUSH: u16 = 3;
/// Command: trim.
pub const CMD_TRIM: u16 = 4;
/// Command: read ahead.
pub const CMD_CACHE: u16 = 5;
/// Command: write zeroes.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: query extents.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: durable before the reply. Valid on every command.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of write zeroes: leave the range provisioned.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of read: at most one content chunk.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of block status: exactly one extent.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of write zeroes: fail unless faster than a write.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Chunk flag: the last chunk of a reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// Chunk: nothing; ends a reply.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk: data at an offset.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: zeroes at an offset.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: extents of one metadata context.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Chunk: an error of the whole request.
pub const REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;
/// Chunk: an error at an offset.
pub const REPLY_TYPE_ERROR_OFFSET: u16 = (1 << 15) + 2;

/// `base:allocation`: the extent is a hole.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation`: the extent reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// The one metadata context of this server.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Wildcard of the `base` namespace, valid when listing only.
pub const BASE_WILDCARD: &str = "base:";
/// The id under which [`BASE_ALLOCATION`] is selected.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Longest string of the protocol in bytes (names, messages, queries).
pub const STRING_BYTES_MAX: usize = 4096;
/// Smallest length and alignment of a request, in bytes.
pub const BLOCK_SIZE_MIN: u32 = 1;
/// Largest payload of one request, in bytes (advertised as the maximum).
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Largest payload of a refused write that is still read and thrown away, in
/// bytes. Beyond it the connection is dropped.
pub const DRAIN_BYTES_MAX: u32 = 64 << 20;
/// Most extents in one block status chunk (the spec's SHOULD).
pub const EXTENTS_MAX: usize = 1 << 20;
/// Largest read that must be served unfragmented, in bytes. Larger ones, up to
/// [`PAYLOAD_BYTES_MAX`], are served unfragmented by this server too.
pub const UNFRAGMENTED_BYTES_MIN: u32 = 65_536;
