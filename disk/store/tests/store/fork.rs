//! Child processes by fork(2): some answer one question, others only inherit what their parent has.

use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::os::fd::AsRawFd;

/// Asks `question` in a forked child; its answer.
pub fn child(question: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing but `question` and _exit(2); the questions asked here take no lock that
    // another thread may have held at the fork: the store's are taken by callers of this test alone.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a signal ends the child if it waits for ever, for example for a lock of its parent.
            unsafe { libc::alarm(60) };
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(question));
            // SAFETY: ends the child at once, without the parent's destructors.
            unsafe { libc::_exit(i32::from(!answer.unwrap_or(false))) }
        }
        -1 => panic!("no child"),
        child => {
            let mut status = 0;
            // SAFETY: `status` is a place for the answer.
            let waited = unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(waited, child);
            status == 0
        }
    }
}

/// Children that do nothing until this is dropped.
pub struct Sleepers {
    asleep: PipeReader,
    wake: Option<PipeWriter>,
}

impl Sleepers {
    pub fn new() -> Self {
        let (asleep, wake) = pipe().unwrap();
        Self {
            asleep,
            wake: Some(wake),
        }
    }

    /// One more, of the calling process.
    pub fn add(&self) {
        // SAFETY: the child calls close(2), read(2) and _exit(2) alone.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no child");
        if child == 0 {
            let wake = self.wake.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            // SAFETY: of the child's copy, which is not used again.
            unsafe { libc::close(wake) };
            let _ = (&self.asleep).read(&mut [0]);
            // SAFETY: ends the child at once, without the parent's destructors.
            unsafe { libc::_exit(0) }
        }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        // All children wake up, and end by themselves.
        self.wake = None;
    }
}
