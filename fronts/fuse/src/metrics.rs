//! What programs have asked for.

use std::cell::Cell;

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name.
    LookUp,
    /// Attributes.
    Attr,
    /// A change of attributes.
    SetAttr,
    /// The target of a symbolic link.
    ReadLink,
    /// A new file or directory.
    Make,
    /// A further name.
    Link,
    /// A name that goes.
    Remove,
    /// A new name.
    Rename,
    /// An opened file or directory.
    Open,
    /// A closed one.
    Close,
    /// Content that is read.
    Read,
    /// Content that is written.
    Write,
    /// Waiting until changes are durable.
    Sync,
    /// Names of a directory.
    List,
    /// Free space.
    Space,
    /// Extended attributes.
    Xattr,
    /// A change of those.
    SetXattr,
    /// Allocated, zeroed or punched space.
    Allocate,
    /// A search for data or a hole.
    Seek,
    /// Content that is copied within the store.
    Copy,
    /// Beginnings and ends of units of programs, and files enlisted in one.
    Unit,
}

impl Kind {
    /// All of them, the most telling ones first.
    pub const ALL: &[Self] = &[
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::LookUp,
        Self::Attr,
        Self::SetAttr,
        Self::Open,
        Self::Close,
        Self::Make,
        Self::Link,
        Self::Remove,
        Self::Rename,
        Self::ReadLink,
        Self::List,
        Self::Space,
        Self::Xattr,
        Self::SetXattr,
        Self::Allocate,
        Self::Seek,
        Self::Copy,
        Self::Unit,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LookUp => "lookup",
            Self::Attr => "getattr",
            Self::SetAttr => "setattr",
            Self::ReadLink => "readlink",
            Self::Make => "create",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "fsync",
            Self::List => "readdir",
            Self::Space => "statfs",
            Self::Xattr => "getxattr",
            Self::SetXattr => "setxattr",
            Self::Allocate => "fallocate",
            Self::Seek => "lseek",
            Self::Copy => "copy",
            Self::Unit => "unit",
        }
    }
}

/// Counters of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Requests answered.
    pub requests: u64,
    /// Bytes of content in those that succeeded.
    pub bytes: u64,
    /// Those that did not.
    pub errors: u64,
    /// Time from their arrival to their answer, in nanoseconds.
    pub time_ns: u64,
}

/// Counters of all kinds.
#[derive(Default)]
pub struct Metrics([Cell<Counters>; Kind::ALL.len()]);

impl Metrics {
    /// Those of `kind`.
    pub fn of(&self, kind: Kind) -> Counters {
        self.0[kind as usize].get()
    }

    /// Counts an answer: its bytes, or `None` for an error.
    pub(crate) fn count(&self, kind: Kind, bytes: Option<u64>, time_ns: u64) {
        let mut counters = self.of(kind);
        counters.requests += 1;
        counters.bytes += bytes.unwrap_or(0);
        counters.errors += u64::from(bytes.is_none());
        counters.time_ns += time_ns;
        self.0[kind as usize].set(counters);
    }
}
