//! A socket with a deadline for all its operations.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::tls::timespec;

/// Each operation blocks until the deadline at most, and then fails with `TimedOut`. The socket's own blocking mode
/// does not matter and is not changed.
pub(super) struct TimedSocket<'a> {
    pub(super) fd: &'a OwnedFd,
    pub(super) deadline: Instant,
}

impl TimedSocket<'_> {
    /// Waits until `flags` are ready.
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
        match poll(&mut fds, Some(&timespec(self.left()?))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn left(&self) -> io::Result<std::time::Duration> {
        self.deadline
            .checked_duration_since(Instant::now())
            .ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            // Also checked when bytes are there: a client that sends byte by byte must not get past the deadline.
            self.left()?;
            match recv(self.fd, &mut *space, RecvFlags::DONTWAIT) {
                Ok((got, _)) => return Ok(got),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Write for TimedSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.left()?;
            match send(self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
