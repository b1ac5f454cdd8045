//! What the kernel is told: that files and names are no longer what it keeps. A thread of its own tells it, because the kernel may
//! wait for answers to requests before it takes a notice.

use crate::message::{Answer, Request};
use crate::queue::Requests;
use crate::reply::Reply;
use rustix::io::Errno;
use std::sync::mpsc::Receiver;

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
    Answer(Box<Reply>, Result<(), Errno>),
}

/// Tells the kernel everything that comes. Errors mean that it keeps nothing of the kind, or is gone.
pub(crate) fn tell_all(notices: &Receiver<Notice>, requests: &Requests, kernel: &fuser::Notifier) {
    while let Ok(notice) = notices.recv() {
        for (dir, name) in &notice.names {
            crate::transport::forget_name(kernel, *dir, name);
        }
        for ino in notice.files {
            crate::transport::forget_file(kernel, ino);
        }
        match notice.then {
            Some(Then::Ask(request)) => requests.send(*request),
            Some(Then::Answer(reply, result)) => reply.send(result.map(|()| Answer::Done)),
            None => {}
        }
    }
}
