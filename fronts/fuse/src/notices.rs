//! Invalidations for the kernel: files and names that are no longer what it keeps. A thread of its own sends them, because the kernel may
//! wait for answers to requests before it takes a notice.

use crate::message::{Request, Responder};
use rustix::io::Errno;

/// A notice.
#[derive(Default)]
pub(crate) struct Notice {
    /// Files whose attributes and content may be others.
    pub files: Vec<u64>,
    /// Names in directories that may stand for other files.
    pub names: Vec<(u64, Vec<u8>)>,
    /// What follows.
    pub then: Option<Then>,
}

/// What follows a notice that the kernel has taken.
pub(crate) enum Then {
    /// A request goes to the engine.
    Ask(Box<Request>),
    /// A request is answered.
    Answer(Box<dyn Responder>, Result<(), Errno>),
}
