//! What a child by fork(2) has of its parent's descriptors: their numbers, and `/dev/null` behind them.
//!
//! The lock of a file, the claim on a block device and the connection of a socket last until every copy of their
//! descriptor is closed. A forked child that kept the copies would keep a store locked, or a session with a server open,
//! after its parent has ended. The child replaces them before fork(2) returns in it, and does not close them: what its
//! memory says of the numbers stays true, and nothing else gets one of them.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};

/// Descriptors of this process alone. Any beyond these are inherited like others.
static OWN: [AtomicI32; 1024] = [const { AtomicI32::new(NONE) }; 1024];
const NONE: RawFd = -1;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Forks that lie between the start of the program and this process: a number to tell a child from its parent by, without
/// a system call.
pub fn forks() -> u32 {
    FORKS.load(SeqCst)
}

/// Keeps a descriptor from forked children while it lives. It must be dropped before the descriptor is closed.
#[derive(Debug)]
pub struct NotForChildren {
    place: Option<usize>,
    forks: u32,
}

impl NotForChildren {
    /// Keeps `fd`.
    pub fn keep(fd: &impl AsFd) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler does nothing but what may be done in a child of a process with threads.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        let fd = fd.as_fd().as_raw_fd();
        let place = OWN
            .iter()
            .position(|place| place.compare_exchange(NONE, fd, SeqCst, SeqCst).is_ok());
        Self {
            place,
            forks: forks(),
        }
    }
}

impl Drop for NotForChildren {
    fn drop(&mut self) {
        // In a child the place may be another one's by now.
        if let Some(place) = self.place
            && self.forks == forks()
        {
            OWN[place].store(NONE, SeqCst);
        }
    }
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, SeqCst);
    // SAFETY: system calls alone, each of which may be made here; the path ends with a zero byte, and the numbers are those of
    // descriptors that the parent had open.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for place in &OWN {
            let fd = place.swap(NONE, SeqCst);
            if fd != NONE && null >= 0 {
                libc::dup3(null, fd, libc::O_CLOEXEC);
            }
        }
        if null >= 0 {
            libc::close(null);
        }
    }
}
