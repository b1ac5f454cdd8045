//! The bytes of the protocol.
//!
//! ```text
//! hello, both ways  magic 8 bytes "tonearmF", version u32, zero u32
//! request           length u32 of what follows, number u32, `Request`, data of a write
//! reply             length u32 of what follows, number u32, `Result<T, FilesError>`, data of a read
//! ```
//!
//! Versions, lengths and numbers are little-endian. `Request` and `Result` are encoded by postcard; `T` is what the
//! request asks for. Any change of these types needs another [`VERSION`]. The number of a reply is that of its request;
//! 0 is the server's when it ends the connection. The length is at most [`FRAME_MAX`].

use crate::files::{AruId, FileId, FileInfo, FilesError, Level, Listing, NewAttr, Open};
use serde::{Deserialize, Serialize};
use tonearm_engine::ArchiveInfo;

/// First bytes of either side.
pub const MAGIC: [u8; 8] = *b"tonearmF";
/// Version of the protocol: both sides speak the same.
pub const VERSION: u32 = 6;
/// Length of a hello in bytes.
pub const HELLO_LEN: usize = 16;
/// Most bytes of file content in one frame.
pub const DATA_MAX: usize = 1 << 20;
/// Longest path in bytes.
const NAME_MAX: usize = 4096;
/// Most bytes of a frame after its length.
pub const FRAME_MAX: usize = DATA_MAX + 4096;

/// A request of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request<'a> {
    Open {
        name: &'a str,
        how: Open,
    },
    Close {
        file: FileId,
    },
    List {
        path: &'a str,
        after: u64,
    },
    Exists {
        name: &'a str,
    },
    Delete {
        name: &'a str,
    },
    Rename {
        from: &'a str,
        to: &'a str,
    },
    Size {
        file: FileId,
        aru: Option<AruId>,
    },
    Read {
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        len: u32,
    },
    Begin {
        aru: AruId,
    },
    Write {
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        /// The data comes after all other fields, without a length of its own.
        #[serde(skip)]
        data: &'a [u8],
    },
    Truncate {
        file: FileId,
        aru: Option<AruId>,
        size: u64,
    },
    End {
        aru: AruId,
        durable: bool,
    },
    Abort {
        aru: AruId,
    },
    Flush,
    Lock {
        file: FileId,
        level: Level,
    },
    Unlock {
        file: FileId,
        level: Level,
    },
    Reserved {
        file: FileId,
    },
    Create {
        aru: AruId,
        name: &'a str,
    },
    OpenVolume {
        name: &'a str,
    },
    Zero {
        file: FileId,
        offset: u64,
        len: u64,
    },
    Status {
        file: FileId,
        offset: u64,
        len: u64,
    },
    Marks,
    WaitDurable {
        lsn: u64,
    },
    Archive,
    WaitArchived {
        lsn: u64,
    },
    Look {
        path: &'a str,
    },
    MakeDir {
        path: &'a str,
    },
    ReadLink {
        path: &'a str,
    },
    MakeLink {
        path: &'a str,
        target: &'a str,
    },
    SetAttr {
        path: &'a str,
        aru: Option<AruId>,
        set: NewAttr,
    },
}

/// Bytes that are not a frame of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub &'static str);

const WRONG_LENGTH: Violation = Violation("a frame is too short or too long");

/// The first bytes of either side.
pub fn hello() -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The version in the other side's hello.
///
/// # Errors
/// When the bytes are no hello.
pub fn version_of(bytes: &[u8; HELLO_LEN]) -> Result<u32, Violation> {
    let [magic @ .., a, b, c, d, _, _, _, _] = bytes;
    if *magic != MAGIC {
        return Err(Violation(
            "it does not speak the protocol of Tonearm's files",
        ));
    }
    Ok(u32::from_le_bytes([*a, *b, *c, *d]))
}

impl Request<'_> {
    /// False for requests that have no reply, or only that of their unit's end.
    pub fn is_answered(&self) -> bool {
        let in_unit = matches!(
            self,
            Request::Write { aru: Some(_), .. } | Request::Truncate { aru: Some(_), .. }
        );
        let silent = matches!(self, Request::Begin { .. } | Request::Abort { .. });
        !in_unit && !silent
    }

    /// The unit that the request reads or changes.
    pub fn unit(&self) -> Option<AruId> {
        match self {
            Request::Size { aru, .. }
            | Request::Read { aru, .. }
            | Request::Write { aru, .. }
            | Request::Truncate { aru, .. }
            | Request::SetAttr { aru, .. } => *aru,
            Request::Create { aru, .. } => Some(*aru),
            _ => None,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        let data: &[u8] = match self {
            Request::Write { data, .. } => data,
            _ => &[],
        };
        frame(number, self, data.len(), out);
        out.extend_from_slice(data);
    }

    /// Whether the request keeps the bounds of the protocol.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(&self) -> Result<(), Violation> {
        let (name, data_len) = match self {
            Request::Open { name, .. }
            | Request::Create { name, .. }
            | Request::OpenVolume { name }
            | Request::Exists { name }
            | Request::Delete { name } => (name.len(), 0),
            Request::Look { path }
            | Request::List { path, .. }
            | Request::MakeDir { path }
            | Request::ReadLink { path }
            | Request::SetAttr { path, .. } => (path.len(), 0),
            Request::MakeLink { path, target } => (path.len().max(target.len()), 0),
            Request::Rename { from, to } => (from.len().max(to.len()), 0),
            Request::Read { len, .. } => (0, *len as usize),
            Request::Write { data, .. } => (0, data.len()),
            _ => (0, 0),
        };
        if name > NAME_MAX {
            return Err(Violation("a path has at most 4096 bytes"));
        }
        if data_len > DATA_MAX {
            return Err(Violation("a read or write is longer than 1 MiB"));
        }
        Ok(())
    }
}

impl<'a> Request<'a> {
    /// The request of a frame without its length.
    ///
    /// # Errors
    /// When the frame is no request.
    pub fn decode(frame: &'a [u8]) -> Result<(u32, Self), Violation> {
        let (number, body) = number_of(frame)?;
        if number == 0 {
            return Err(Violation("a request has the number 0"));
        }
        let unknown = |_| Violation("a frame holds no request of the protocol");
        let (mut request, rest) = postcard::take_from_bytes(body).map_err(unknown)?;
        match &mut request {
            Request::Write { data, .. } => *data = rest,
            _ if rest.is_empty() => {}
            _ => return Err(Violation("a frame goes on after its last field")),
        }
        request.check()?;
        Ok((number, request))
    }
}

/// The frame of a reply.
pub struct Reply {
    /// All of the reply before its data.
    pub head: Vec<u8>,
    /// Data of a read.
    pub data: Vec<u8>,
}

impl Reply {
    /// The reply to request `number`.
    pub fn new<T: Serialize>(number: u32, result: Result<T, FilesError>) -> Self {
        Self::framed(number, &result, Vec::new())
    }

    /// The reply to a read.
    pub fn with_data(number: u32, result: Result<Vec<u8>, FilesError>) -> Self {
        match result {
            Ok(data) => Self::framed(number, &Ok::<(), FilesError>(()), data),
            Err(error) => Self::new::<()>(number, Err(error)),
        }
    }

    fn framed(number: u32, result: &impl Serialize, data: Vec<u8>) -> Self {
        let mut head = Vec::with_capacity(64);
        frame(number, result, data.len(), &mut head);
        Self { head, data }
    }
}

/// Decodes result and data of a reply from after its number; `None` when the result is no `T`.
pub fn result_of<'a, T: Deserialize<'a>>(
    body: &'a [u8],
) -> Option<(Result<T, FilesError>, &'a [u8])> {
    postcard::take_from_bytes(body).ok()
}

/// Appends a frame without the `data_len` bytes of data at its end.
fn frame(number: u32, message: &impl Serialize, data_len: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    let encoded = postcard::to_extend(message, std::mem::take(out));
    *out = encoded.expect("a message has a form, and a vector grows");
    let len = (out.len() - start - 4 + data_len) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Number of a frame without its length, and the bytes after the number.
///
/// # Errors
/// When the frame is too short for a number.
pub fn number_of(frame: &[u8]) -> Result<(u32, &[u8]), Violation> {
    match frame.split_first_chunk() {
        Some((number, body)) => Ok((u32::from_le_bytes(*number), body)),
        None => Err(WRONG_LENGTH),
    }
}

/// Length of the first frame of `bytes` with its length field; `None` when that is not there yet.
///
/// # Errors
/// When no frame has such a length.
pub fn frame_len(bytes: &[u8]) -> Result<Option<usize>, Violation> {
    let Some(len) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*len) as usize;
    if !(5..=FRAME_MAX).contains(&len) {
        return Err(WRONG_LENGTH);
    }
    Ok(Some(4 + len))
}

/// For fuzzing: decodes `bytes` as either side would. Whatever can be decoded must encode to a frame of the same
/// meaning.
///
/// # Panics
/// When it does not.
#[doc(hidden)]
pub fn decode_any(bytes: &[u8]) {
    if let Ok((number, request)) = Request::decode(bytes) {
        let mut out = Vec::new();
        request.encode(number, &mut out);
        assert_eq!(Request::decode(&out[4..]), Ok((number, request)));
    }
    if let Ok((number, body)) = number_of(bytes) {
        decode_result::<()>(number, body);
        decode_result::<bool>(number, body);
        decode_result::<u64>(number, body);
        decode_result::<(u64, u64, u64)>(number, body);
        decode_result::<String>(number, body);
        decode_result::<FileInfo>(number, body);
        decode_result::<Listing>(number, body);
        decode_result::<Vec<(u64, bool)>>(number, body);
        decode_result::<Option<ArchiveInfo>>(number, body);
    }
    let _ = frame_len(bytes);
}

fn decode_result<T>(number: u32, body: &[u8])
where
    T: Serialize + serde::de::DeserializeOwned + Clone + PartialEq + std::fmt::Debug,
{
    if let Some((result, _)) = result_of::<T>(body) {
        let reply = Reply::new(number, result.clone());
        assert_eq!(result_of::<T>(&reply.head[8..]), Some((result, &[][..])));
    }
}

/// For fuzzing: the frames at the start of a stream, without their lengths, up to the first that is invalid or
/// incomplete.
#[doc(hidden)]
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = frame_len(bytes).ok()??;
        let (frame, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        Some(&frame[4..])
    })
}

#[cfg(test)]
#[path = "wire_test.rs"]
mod wire_test;
