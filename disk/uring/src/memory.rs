//! Memory that stays in memory.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{Error, Result};

/// Keeps the memory of this process from being moved to swap space, also what it gets later.
///
/// # Errors
/// When the process may not lock all of its memory.
pub fn lock_memory() -> Result<()> {
    // With a limit, memory beyond it could not be had any more.
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Memlock, none)?;
    // What is not in use yet is locked at its first use, or each thread's stack would take its whole size at once.
    let all = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: the call takes no memory of ours, and changes no content.
    match unsafe { libc::mlockall(all) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}
