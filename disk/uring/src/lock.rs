//! Locks a member, so that one process at a time opens it, and finds the process that holds a lock.
//!
//! Two locks are taken. flock(2) decides. It belongs to the open file, so it also excludes a second opening in this
//! process. A POSIX record lock only serves to find the holder: it belongs to a process, whose number the kernel
//! reports. It is best effort: a network file system may refuse it, and any close of the file in this process
//! releases it.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Whom the lock of an open member excludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lock {
    /// None: for reading a member that may be changing.
    None,
    /// Writers. Other readers may open it.
    Shared,
    /// All others.
    #[default]
    Exclusive,
}

/// Why a lock was not granted.
#[derive(Debug)]
pub(crate) enum LockFailure {
    /// It is held; by this process, if the kernel knows it.
    Held(Option<u32>),
    /// The file system has no such lock, or another failure.
    Io(Errno),
}

/// Tries for a lock that udev may hold for a moment while it reads a block device.
const TRIES: u32 = 10;
/// Tries for a lock without a living holder. After a killed process has ended and has been waited for, the kernel
/// still takes a while to tear down its ring and close the files in it. An immediate restart of a server meets this.
const TRIES_LEFT_BEHIND: u32 = 60;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Locks `fd` until it is closed, or [`release`]d.
pub(crate) fn take(fd: &OwnedFd, lock: Lock, is_device: bool) -> Result<(), LockFailure> {
    let (flock, record) = match lock {
        Lock::None => return Ok(()),
        Lock::Shared => (
            FlockOperation::NonBlockingLockShared,
            FlockOperation::NonBlockingLockShared,
        ),
        Lock::Exclusive => (
            FlockOperation::NonBlockingLockExclusive,
            FlockOperation::NonBlockingLockExclusive,
        ),
    };
    let mut tried = 0;
    loop {
        match rustix::fs::flock(fd, flock) {
            Ok(()) => break,
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(LockFailure::Io(error)),
        }
        let holder = holder(fd);
        let tries = match holder {
            None => TRIES_LEFT_BEHIND,
            Some(_) if is_device => TRIES,
            Some(_) => 1,
        };
        tried += 1;
        if tried >= tries {
            return Err(LockFailure::Held(holder));
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    let _best_effort = rustix::fs::fcntl_lock(fd, record);
    Ok(())
}

/// Releases the lock of `fd`, even if a process started meanwhile has a copy of the descriptor.
pub(crate) fn release(fd: &OwnedFd) {
    // This does nothing without a lock, or on a descriptor that is not a file.
    let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
}

fn holder(fd: &OwnedFd) -> Option<u32> {
    let wanted = Flock::from(FlockType::WriteLock);
    let found = fcntl_getlk(fd, &wanted).ok()??;
    found.pid.map(|pid| pid.as_raw_nonzero().get() as u32)
}
