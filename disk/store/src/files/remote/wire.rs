//! The bytes of the protocol, little-endian.
//!
//! ```text
//! hello, both ways  magic 8 bytes "tonearmF", version u32, zero u32
//! frame, both ways  length u32 of what follows, number u32, kind u8, fields
//! text              length u16, UTF-8
//! unit              u64, 0 for none; file, offset, size: u64
//! ```
//!
//! The number of a reply is that of its request; 0 is the server's when it ends the connection. The length is at most
//! [`FRAME_MAX`], and a frame has nothing behind its last field.

use crate::files::{AruId, FileId, FileInfo, FilesError, FilesErrorKind, Level, Open};

/// First bytes of either side.
pub const MAGIC: [u8; 8] = *b"tonearmF";
/// Version of the protocol: both sides speak the same.
pub const VERSION: u32 = 2;
/// Bytes of a hello.
pub const HELLO_LEN: usize = 16;
/// Most bytes of file content in one frame.
pub const DATA_MAX: usize = 1 << 20;
/// Most bytes of a frame behind its length.
pub const FRAME_MAX: usize = DATA_MAX + 1024;
/// Bytes of a frame's length and number.
const HEAD: usize = 8;
/// The kind of a reply with data.
const REPLY_DATA: u8 = 4;

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    Open {
        name: &'a str,
        how: Open,
    },
    Close {
        file: FileId,
    },
    List,
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
}

/// What a server answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Done,
    Number(u64),
    Flag(bool),
    Data(Vec<u8>),
    Files(Vec<FileInfo>),
    /// Bytes, and whether they are allocated.
    Runs(Vec<(u64, bool)>),
    Failed(FilesError),
}

/// Bytes that are no frame of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub &'static str);

/// What either side says first.
pub fn hello() -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The version of the other side's hello.
///
/// # Errors
/// When it is none.
pub fn version_of(bytes: &[u8; HELLO_LEN]) -> Result<u32, Violation> {
    let mut fields = Fields(bytes);
    match fields.take(8)? == MAGIC {
        true => fields.u32(),
        false => Err(Violation(
            "it does not speak the protocol of Tonearm's files",
        )),
    }
}

impl Request<'_> {
    /// False for what is answered by nothing, or by the end of its unit.
    pub fn is_answered(&self) -> bool {
        let in_unit = matches!(
            self,
            Request::Write { aru: Some(_), .. } | Request::Truncate { aru: Some(_), .. }
        );
        let silent = matches!(self, Request::Begin { .. } | Request::Abort { .. });
        !in_unit && !silent
    }

    /// The unit that it looks at or changes.
    pub fn unit(&self) -> Option<AruId> {
        match self {
            Request::Size { aru, .. }
            | Request::Read { aru, .. }
            | Request::Write { aru, .. }
            | Request::Truncate { aru, .. } => *aru,
            Request::Create { aru, .. } => Some(*aru),
            _ => None,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        frame(number, out, |out| match self {
            Request::Open { name, how } => {
                out.push(1);
                text(out, name);
                out.push(u8::from(how.create) | u8::from(how.exclusive) << 1);
            }
            Request::Close { file } => numbers(out, 2, &[file.0]),
            Request::List => out.push(3),
            Request::Exists { name } => {
                out.push(4);
                text(out, name);
            }
            Request::Delete { name } => {
                out.push(5);
                text(out, name);
            }
            Request::Rename { from, to } => {
                out.push(6);
                text(out, from);
                text(out, to);
            }
            Request::Size { file, aru } => numbers(out, 7, &[file.0, unit(*aru)]),
            Request::Read {
                file,
                aru,
                offset,
                len,
            } => {
                numbers(out, 8, &[file.0, unit(*aru), *offset]);
                out.extend_from_slice(&len.to_le_bytes());
            }
            Request::Begin { aru } => numbers(out, 9, &[aru.0]),
            Request::Write {
                file,
                aru,
                offset,
                data,
            } => {
                numbers(out, 10, &[file.0, unit(*aru), *offset]);
                out.extend_from_slice(data);
            }
            Request::Truncate { file, aru, size } => {
                numbers(out, 11, &[file.0, unit(*aru), *size]);
            }
            Request::End { aru, durable } => {
                numbers(out, 12, &[aru.0]);
                out.push(u8::from(*durable));
            }
            Request::Abort { aru } => numbers(out, 13, &[aru.0]),
            Request::Flush => out.push(14),
            Request::Lock { file, level } => {
                numbers(out, 15, &[file.0]);
                out.push(*level as u8);
            }
            Request::Unlock { file, level } => {
                numbers(out, 16, &[file.0]);
                out.push(*level as u8);
            }
            Request::Reserved { file } => numbers(out, 17, &[file.0]),
            Request::Create { aru, name } => {
                numbers(out, 18, &[aru.0]);
                text(out, name);
            }
            Request::OpenVolume { name } => {
                out.push(19);
                text(out, name);
            }
            Request::Zero { file, offset, len } => numbers(out, 20, &[file.0, *offset, *len]),
            Request::Status { file, offset, len } => numbers(out, 21, &[file.0, *offset, *len]),
        });
    }
}

impl<'a> Request<'a> {
    /// The request of a frame without its length.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(frame: &'a [u8]) -> Result<(u32, Self), Violation> {
        let mut fields = Fields(frame);
        let number = fields.u32()?;
        if number == 0 {
            return Err(Violation("a request has the number 0"));
        }
        let request = match fields.u8()? {
            1 => Request::Open {
                name: fields.text()?,
                how: fields.how()?,
            },
            2 => Request::Close {
                file: fields.file()?,
            },
            3 => Request::List,
            4 => Request::Exists {
                name: fields.text()?,
            },
            5 => Request::Delete {
                name: fields.text()?,
            },
            6 => Request::Rename {
                from: fields.text()?,
                to: fields.text()?,
            },
            7 => Request::Size {
                file: fields.file()?,
                aru: fields.unit()?,
            },
            8 => Request::Read {
                file: fields.file()?,
                aru: fields.unit()?,
                offset: fields.u64()?,
                len: fields.u32()?,
            },
            9 => Request::Begin { aru: fields.aru()? },
            10 => Request::Write {
                file: fields.file()?,
                aru: fields.unit()?,
                offset: fields.u64()?,
                data: fields.rest(),
            },
            11 => Request::Truncate {
                file: fields.file()?,
                aru: fields.unit()?,
                size: fields.u64()?,
            },
            12 => Request::End {
                aru: fields.aru()?,
                durable: fields.flag()?,
            },
            13 => Request::Abort { aru: fields.aru()? },
            14 => Request::Flush,
            15 => Request::Lock {
                file: fields.file()?,
                level: fields.level()?,
            },
            16 => Request::Unlock {
                file: fields.file()?,
                level: fields.level()?,
            },
            17 => Request::Reserved {
                file: fields.file()?,
            },
            18 => Request::Create {
                aru: fields.aru()?,
                name: fields.text()?,
            },
            19 => Request::OpenVolume {
                name: fields.text()?,
            },
            20 => Request::Zero {
                file: fields.file()?,
                offset: fields.u64()?,
                len: fields.u64()?,
            },
            21 => Request::Status {
                file: fields.file()?,
                offset: fields.u64()?,
                len: fields.u64()?,
            },
            _ => return Err(Violation("a request is of no known kind")),
        };
        let too_long = match &request {
            Request::Read { len, .. } => *len as usize > DATA_MAX,
            Request::Write { data, .. } => data.len() > DATA_MAX,
            _ => false,
        };
        if too_long {
            return Err(Violation("a read or write is longer than 1 MiB"));
        }
        fields.end()?;
        Ok((number, request))
    }
}

/// What precedes `len` bytes of data in the frame of a [`Reply::Data`].
pub fn data_head(number: u32, len: usize) -> [u8; HEAD + 1] {
    let mut head = [0; HEAD + 1];
    head[..4].copy_from_slice(&((HEAD - 4 + 1 + len) as u32).to_le_bytes());
    head[4..HEAD].copy_from_slice(&number.to_le_bytes());
    head[HEAD] = REPLY_DATA;
    head
}

impl Reply {
    /// Appends the frame.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        frame(number, out, |out| match self {
            Reply::Done => out.push(1),
            Reply::Number(value) => numbers(out, 2, &[*value]),
            Reply::Flag(value) => out.extend_from_slice(&[3, u8::from(*value)]),
            Reply::Data(data) => {
                out.push(REPLY_DATA);
                out.extend_from_slice(data);
            }
            Reply::Files(files) => {
                out.push(5);
                for file in files {
                    text(out, &file.name);
                    out.extend_from_slice(&file.size_bytes.to_le_bytes());
                    out.extend_from_slice(&file.created_unix_s.to_le_bytes());
                }
            }
            Reply::Failed(error) => {
                out.push(6);
                let kind = KINDS.iter().position(|kind| *kind == error.kind);
                out.push(kind.expect("all kinds are listed") as u8);
                text(out, &error.text);
            }
            Reply::Runs(runs) => {
                out.push(7);
                for (bytes, allocated) in runs {
                    out.extend_from_slice(&bytes.to_le_bytes());
                    out.push(u8::from(*allocated));
                }
            }
        });
    }

    /// The reply of a frame without its length.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(frame: &[u8]) -> Result<(u32, Self), Violation> {
        let mut fields = Fields(frame);
        let number = fields.u32()?;
        let reply = match fields.u8()? {
            1 => Reply::Done,
            2 => Reply::Number(fields.u64()?),
            3 => Reply::Flag(fields.flag()?),
            REPLY_DATA => Reply::Data(fields.rest().to_vec()),
            5 => {
                let mut files = Vec::new();
                while !fields.0.is_empty() {
                    files.push(FileInfo {
                        name: fields.text()?.to_string(),
                        size_bytes: fields.u64()?,
                        created_unix_s: fields.u64()?,
                    });
                }
                Reply::Files(files)
            }
            6 => {
                let kind = KINDS.get(usize::from(fields.u8()?));
                let kind = *kind.ok_or(Violation("an error is of no known kind"))?;
                Reply::Failed(FilesError::new(kind, fields.text()?))
            }
            7 => {
                let mut runs = Vec::new();
                while !fields.0.is_empty() {
                    runs.push((fields.u64()?, fields.flag()?));
                }
                Reply::Runs(runs)
            }
            _ => return Err(Violation("a reply is of no known kind")),
        };
        fields.end()?;
        Ok((number, reply))
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
    match (HEAD - 4 + 1..=FRAME_MAX).contains(&len) {
        true => Ok(Some(4 + len)),
        false => Err(Violation("a frame is too short or too long")),
    }
}

/// For fuzzing: decodes `bytes` as either side would, and what is decoded is encoded to the same bytes.
///
/// # Panics
/// When it is not.
#[doc(hidden)]
pub fn decode_any(bytes: &[u8]) {
    let same = |out: Vec<u8>| assert_eq!(&out[4..], bytes, "one form for each frame");
    let mut out = Vec::new();
    if let Ok((number, request)) = Request::decode(bytes) {
        request.encode(number, &mut out);
        same(out);
    }
    let mut out = Vec::new();
    if let Ok((number, reply)) = Reply::decode(bytes) {
        reply.encode(number, &mut out);
        same(out);
    }
    let _ = frame_len(bytes);
}

/// For fuzzing: the frames at the start of a stream, without their lengths, up to one that is none or not whole.
#[doc(hidden)]
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let len = frame_len(bytes).ok()??;
        let (frame, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        Some(&frame[4..])
    })
}

/// The order is that of the bytes.
const KINDS: [FilesErrorKind; 9] = [
    FilesErrorKind::NotFound,
    FilesErrorKind::Exists,
    FilesErrorKind::NoSpace,
    FilesErrorKind::ReadOnly,
    FilesErrorKind::Damaged,
    FilesErrorKind::Conflict,
    FilesErrorKind::Busy,
    FilesErrorKind::Failed,
    FilesErrorKind::Away,
];

const LEVELS: [Level; 5] = [
    Level::None,
    Level::Shared,
    Level::Reserved,
    Level::Pending,
    Level::Exclusive,
];

fn frame(number: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    body(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    // Names that are longer are refused before; texts of errors may be cut.
    let mut len = text.len().min(1000);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..len]);
}

fn numbers(out: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    out.push(kind);
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn unit(aru: Option<AruId>) -> u64 {
    aru.map_or(0, |aru| aru.0)
}

/// What is left of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(Violation("a frame ends within a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as long as asked for"))
    }

    fn u8(&mut self) -> Result<u8, Violation> {
        Ok(self.chunk::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Violation> {
        Ok(u32::from_le_bytes(self.chunk()?))
    }

    fn u64(&mut self) -> Result<u64, Violation> {
        Ok(u64::from_le_bytes(self.chunk()?))
    }

    fn flag(&mut self) -> Result<bool, Violation> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Violation("a flag is neither 0 nor 1")),
        }
    }

    fn how(&mut self) -> Result<Open, Violation> {
        match self.u8()? {
            bits @ 0..4 => Ok(Open {
                create: bits & 1 != 0,
                exclusive: bits & 2 != 0,
            }),
            _ => Err(Violation("a file is to be opened in no known way")),
        }
    }

    fn level(&mut self) -> Result<Level, Violation> {
        let level = LEVELS.get(usize::from(self.u8()?));
        level.copied().ok_or(Violation("there is no such lock"))
    }

    fn file(&mut self) -> Result<FileId, Violation> {
        Ok(FileId(self.u64()?))
    }

    fn unit(&mut self) -> Result<Option<AruId>, Violation> {
        let unit = self.u64()?;
        Ok((unit != 0).then_some(AruId(unit)))
    }

    fn aru(&mut self) -> Result<AruId, Violation> {
        self.unit()?.ok_or(Violation("a unit has the number 0"))
    }

    fn text(&mut self) -> Result<&'a str, Violation> {
        let len = u16::from_le_bytes(self.chunk()?);
        if len > 1000 {
            return Err(Violation("a text is too long"));
        }
        let bytes = self.take(len.into())?;
        std::str::from_utf8(bytes).map_err(|_| Violation("a text is not UTF-8"))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn end(&self) -> Result<(), Violation> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Violation("a frame goes on behind its last field")),
        }
    }
}

#[cfg(test)]
#[path = "wire_test.rs"]
mod wire_test;
