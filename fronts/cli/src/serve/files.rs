//! Where programs begin sessions with the files of a store: a Unix socket beside it.

use super::mailbox::{Mailbox, Message};
use super::socket_file::SocketFile;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

/// A running listener; dropping it removes the socket's file.
pub struct FilesSocket {
    _file: SocketFile,
}

impl FilesSocket {
    /// Listens at `path`, for its owner alone, and hands connections to the engine thread.
    ///
    /// # Errors
    /// When the socket cannot be had.
    pub fn start(path: &Path, mailbox: Mailbox) -> anyhow::Result<Self> {
        let (listener, file) = SocketFile::bind(path)?;
        std::thread::Builder::new()
            .name("files".into())
            .spawn(move || accept_all(&listener, &mailbox))?;
        Ok(Self { _file: file })
    }
}

fn accept_all(listener: &UnixListener, mailbox: &Mailbox) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                mailbox.send(Message::Files(OwnedFd::from(stream)));
            }
            // No descriptor is free, or the client is gone already.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
