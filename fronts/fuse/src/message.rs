//! What a program asks of the file system, apart from the protocol that brings it.

use crate::metrics::Kind;
use rustix::io::Errno;
use tonearm_fs::{Allocate, Attr, Dirent, FsError, Piece, Rename, Seek, SetXattr, Space, Time};

/// Bytes that a request takes besides its payload, for the bound on all of them.
const REQUEST_BYTES: u64 = 16 << 10;

/// A request.
pub struct Request {
    /// The caller.
    pub(crate) caller: Caller,
    /// The unit of the process that asks, if it has one.
    pub(crate) member: Option<u64>,
    /// The handle of the file, also the one that is being opened; 0 for none.
    pub(crate) handle: u64,
    /// The operation.
    pub(crate) operation: Operation,
    /// Sends the answer.
    pub(crate) reply: Box<dyn Responder>,
}

/// Sends the answer of a request to its caller. A transport implements it.
pub(crate) trait Responder: Send {
    /// Adds a line of a directory. True when there is no room for it.
    fn add(&mut self, entry: DirentRef<'_>) -> bool;

    /// Answers.
    fn send(self: Box<Self>, result: Result<Answer, Errno>);
}

/// The caller of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// The thread, which waits for the answer.
    pub thread: u32,
}

impl Caller {
    /// May keep set-user-id bits where others lose them.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// The user, unless it is root, who may do everything.
    pub fn user(self) -> Option<u32> {
        (!self.is_root()).then_some(self.uid)
    }
}

/// A moment in a request.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum When {
    Now,
    At(Time),
}

/// Attributes to change.
#[doc(hidden)]
#[derive(Clone, Copy, Default)]
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<When>,
    pub mtime: Option<When>,
    pub ctime: Option<Time>,
}

/// The operation. Numbers are those of inodes.
#[doc(hidden)]
pub enum Operation {
    LookUp {
        dir: u64,
        name: Vec<u8>,
    },
    Attr {
        ino: u64,
    },
    SetAttr {
        ino: u64,
        changes: Changes,
    },
    ReadLink {
        ino: u64,
    },
    Make(Make),
    MakeLink {
        dir: u64,
        name: Vec<u8>,
        target: Vec<u8>,
    },
    Create(Create),
    Link {
        ino: u64,
        dir: u64,
        name: Vec<u8>,
    },
    Unlink {
        dir: u64,
        name: Vec<u8>,
    },
    RemoveDir {
        dir: u64,
        name: Vec<u8>,
    },
    Rename {
        from: (u64, Vec<u8>),
        to: (u64, Vec<u8>),
        how: Rename,
    },
    Open {
        ino: u64,
        /// Its content does not go through the kernel's page cache.
        direct: bool,
    },
    Close {
        ino: u64,
    },
    Read(Read),
    Write(Write),
    Sync {
        ino: u64,
    },
    List {
        dir: u64,
        after: u64,
    },
    ListWithAttrs {
        dir: u64,
        after: u64,
    },
    Space,
    Xattr {
        ino: u64,
        name: Vec<u8>,
    },
    SetXattr {
        ino: u64,
        name: Vec<u8>,
        value: Vec<u8>,
        how: SetXattr,
    },
    RemoveXattr {
        ino: u64,
        name: Vec<u8>,
    },
    Xattrs {
        ino: u64,
    },
    Allocate {
        ino: u64,
        offset: u64,
        len: u64,
        how: Allocate,
    },
    Seek {
        ino: u64,
        offset: u64,
        what: Seek,
    },
    Copy {
        from: (u64, u64),
        /// The handle that is read. The one that is written is that of the request.
        from_handle: u64,
        to: (u64, u64),
        len: u64,
    },
    /// Begins a unit on the handle, for the processes from that of this thread down if there is one.
    BeginUnit {
        processes: Option<u32>,
    },
    /// The handle is to belong to a unit.
    Enlist {
        unit: u64,
    },
    /// Ends the unit of the handle.
    Commit {
        /// The kernel has forgotten what it kept of the unit's files.
        is_notified: bool,
    },
    /// Ends it without effect.
    Abort,
}

/// Makes a file of any kind, by the type in `mode`.
#[doc(hidden)]
pub struct Make {
    pub dir: u64,
    pub name: Vec<u8>,
    pub mode: u32,
    pub umask: u32,
    pub rdev: u32,
}

/// Makes a regular file and opens it. There must be none of this name.
#[doc(hidden)]
pub struct Create {
    pub dir: u64,
    pub name: Vec<u8>,
    pub mode: u32,
    pub umask: u32,
    /// The caller takes no other file of this name.
    pub exclusive: bool,
    /// As for `Open`.
    pub direct: bool,
}

/// Reads content.
#[doc(hidden)]
pub struct Read {
    pub ino: u64,
    pub offset: u64,
    pub len: u64,
    /// It is for the kernel's page cache.
    pub cached: bool,
}

/// Writes content.
#[doc(hidden)]
pub struct Write {
    pub ino: u64,
    pub offset: u64,
    pub data: Vec<u8>,
    /// The writer may not keep set-user-id bits.
    pub kill_suid: bool,
    /// The file is open with O_SYNC or O_DSYNC.
    pub durable: bool,
    /// The bytes go to the end of the file.
    pub append: bool,
    /// How they have come.
    pub kind: WriteKind,
}

/// How the bytes of a write have come.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// Past the kernel's page cache.
    Direct,
    /// Through it.
    Buffered,
    /// From it, some time after a program has changed a mapped page.
    Mapped,
}

/// What the kernel may keep of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub name: bool,
    pub attr: bool,
}

impl Operation {
    /// What it counts as.
    pub fn kind(&self) -> Kind {
        match self {
            Self::LookUp { .. } => Kind::LookUp,
            Self::Attr { .. } => Kind::Attr,
            Self::SetAttr { .. } => Kind::SetAttr,
            Self::ReadLink { .. } => Kind::ReadLink,
            Self::Make { .. } | Self::MakeLink { .. } | Self::Create { .. } => Kind::Make,
            Self::Link { .. } => Kind::Link,
            Self::Unlink { .. } | Self::RemoveDir { .. } => Kind::Remove,
            Self::Rename { .. } => Kind::Rename,
            Self::Open { .. } => Kind::Open,
            Self::Close { .. } => Kind::Close,
            Self::Read { .. } => Kind::Read,
            Self::Write { .. } => Kind::Write,
            Self::Sync { .. } => Kind::Sync,
            Self::List { .. } | Self::ListWithAttrs { .. } => Kind::List,
            Self::Space => Kind::Space,
            Self::Xattr { .. } | Self::Xattrs { .. } => Kind::Xattr,
            Self::SetXattr { .. } | Self::RemoveXattr { .. } => Kind::SetXattr,
            Self::Allocate { .. } => Kind::Allocate,
            Self::Seek { .. } => Kind::Seek,
            Self::Copy { .. } => Kind::Copy,
            Self::BeginUnit { .. } | Self::Enlist { .. } => Kind::Unit,
            Self::Commit { .. } | Self::Abort => Kind::Unit,
        }
    }

    /// It changes something, also when it is answered from memory.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Self::SetAttr { .. }
                | Self::Make { .. }
                | Self::MakeLink { .. }
                | Self::Create { .. }
                | Self::Link { .. }
                | Self::Unlink { .. }
                | Self::RemoveDir { .. }
                | Self::Rename { .. }
                | Self::Write { .. }
                | Self::SetXattr { .. }
                | Self::RemoveXattr { .. }
                | Self::Allocate { .. }
                | Self::Copy { .. }
        )
    }

    /// Which errors say that something is no longer as the kernel has looked it up: a unit or a session has ended meanwhile. The
    /// kernel checks permissions on what it has looked up. To ESTALE it looks all names up again, and checks again.
    pub fn is_outdated_by(&self) -> fn(&FsError) -> bool {
        match self {
            // The file has been deleted.
            Self::Attr { .. }
            | Self::SetAttr { .. }
            | Self::ReadLink { .. }
            | Self::Open { .. } => |error| matches!(error, FsError::NotFound),
            // The name was free.
            Self::Create(create) if !create.exclusive => |error| matches!(error, FsError::Exists),
            // The name stood for a file of another owner, or for none.
            _ => |error| matches!(error, FsError::NotOwner),
        }
    }

    /// Memory that it holds until it is answered, in bytes.
    pub fn cost(&self) -> u64 {
        let payload = match self {
            Self::Read(read) => read.len,
            Self::Write(write) => write.data.len() as u64,
            Self::SetXattr { value, .. } => value.len() as u64,
            _ => 0,
        };
        REQUEST_BYTES + payload
    }
}

/// A result.
pub(crate) enum Answer {
    Done,
    Entry(Attr, Kept),
    /// The directory has no such name.
    NoEntry(Kept),
    Attr(Attr, Kept),
    Opened {
        /// The kernel must keep nothing of the file.
        direct: bool,
    },
    Created(Attr, Kept, bool),
    Pieces(Vec<Piece>),
    Bytes(Vec<u8>),
    /// Bytes written or copied.
    Count(u64),
    Offset(u64),
    Space(Space),
    /// The number of a unit.
    Begun(u64),
}

impl Answer {
    /// Bytes of content in it.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Self::Count(bytes) => *bytes,
            _ => 0,
        }
    }
}

/// A directory that is listed into a buffer of the transport.
pub(crate) enum DirentRef<'a> {
    Name(&'a Dirent),
    WithAttr(&'a Dirent, &'a Attr, Kept),
}

/// The error of requests that come or wait when the server stops. Programs know it as that of a mount without its server.
pub(crate) const STOPPED: Errno = Errno::NOTCONN;
