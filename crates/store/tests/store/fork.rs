//! A child process by fork(2), for one question.

/// Asks `question` in a forked child; its answer.
pub fn child(question: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing but `question` and _exit(2); the questions asked here take no lock that
    // another thread may have held at the fork: the store's are taken by callers of this test alone.
    match unsafe { libc::fork() } {
        0 => {
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
