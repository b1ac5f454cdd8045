//! One opener of a member at a time, and who that is.
//!
//! Two locks are taken. flock(2) decides: it belongs to the open file, so it also keeps a second
//! opening in this process out. A POSIX record lock beside it decides nothing; it belongs to the
//! process, and the kernel tells its holder's number to whoever is refused. It is best effort: a
//! network file system may refuse it, and any close of the file in this process gives it up.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How a member is kept from others while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lock {
    /// Not at all: for a look at what may be changing.
    None,
    /// From writers; other readers may come.
    Shared,
    /// From everybody.
    #[default]
    Exclusive,
}

/// Why a lock was not had.
#[derive(Debug)]
pub(crate) enum LockFailure {
    /// Somebody has it; the process, where the kernel can tell.
    Held(Option<u32>),
    /// The file system has no such lock, or another failure.
    Io(Errno),
}

/// Tries of a lock that udev may hold for a moment while it looks at a block device.
const TRIES: u32 = 10;
/// Tries of a lock whose holder is nobody: a killed process is gone, and waited for, before the kernel
/// has taken down its ring and closed the files in it. Whoever restarts a server at once meets that.
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

/// Gives the lock of `fd` up, also where a process that was started meanwhile has a copy of the descriptor.
pub(crate) fn release(fd: &OwnedFd) {
    // Without a lock, or on what is no file, nothing happens.
    let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
}

fn holder(fd: &OwnedFd) -> Option<u32> {
    let wanted = Flock::from(FlockType::WriteLock);
    let found = fcntl_getlk(fd, &wanted).ok()??;
    found.pid.map(|pid| pid.as_raw_nonzero().get() as u32)
}
