//! Error values of transmission replies.

/// An error number of the protocol. The values are the spec's, not the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum NbdErrno {
    /// A write to a read-only export.
    #[error("operation not permitted")]
    Perm = 1,
    /// The store failed to read or write.
    #[error("input/output error")]
    Io = 5,
    /// No memory; the spec asks servers to avoid it.
    #[error("cannot allocate memory")]
    NoMem = 12,
    /// The request is invalid.
    #[error("invalid argument")]
    Inval = 22,
    /// A write beyond the end, or a full store.
    #[error("no space left on device")]
    NoSpc = 28,
    /// A read too large to answer.
    #[error("value too large")]
    Overflow = 75,
    /// A fast zero that would not be fast.
    #[error("operation not supported")]
    NotSup = 95,
    /// The server is shutting down.
    #[error("server is in the process of being shut down")]
    Shutdown = 108,
}

impl NbdErrno {
    /// Every value.
    pub const ALL: [NbdErrno; 8] = [
        NbdErrno::Perm,
        NbdErrno::Io,
        NbdErrno::NoMem,
        NbdErrno::Inval,
        NbdErrno::NoSpc,
        NbdErrno::Overflow,
        NbdErrno::NotSup,
        NbdErrno::Shutdown,
    ];

    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The value of a wire number; unknown ones are `None` (clients treat them
    /// as [`NbdErrno::Inval`]).
    pub fn from_code(code: u32) -> Option<NbdErrno> {
        Self::ALL.into_iter().find(|errno| errno.code() == code)
    }
}
