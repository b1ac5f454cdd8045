//! Replaces a parent's descriptors in a child by fork(2): the numbers stay, and refer to `/dev/null`.
//!
//! The lock of a file, the claim on a block device and the connection of a socket last until every copy of their
//! descriptor is closed. A forked child that kept the copies would keep a store locked, or a session with a server
//! open, after its parent has ended. The child replaces the descriptors before fork(2) returns in it. It does not
//! close them, so that the numbers in its memory stay valid and no other file gets one of them.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};

/// Descriptors that children do not keep. Children inherit any that do not fit into this table.
static OWN: [AtomicI32; 1024] = [const { AtomicI32::new(NONE) }; 1024];
const NONE: RawFd = -1;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the start of the program and this process. It distinguishes a child from its parent without
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
            // SAFETY: the handler does only what is allowed in a child of a process with threads.
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
        // In a child another descriptor may have the place by now.
        if let Some(place) = self.place
            && self.forks == forks()
        {
            OWN[place].store(NONE, SeqCst);
        }
    }
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, SeqCst);
    // SAFETY: only system calls that are allowed here; the path ends with a zero byte, and the numbers are those of
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
