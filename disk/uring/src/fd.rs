//! Listening sockets passed by systemd (`sd_listen_fds(3)`).

use rustix::io::FdFlags;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that systemd passes.
const FIRST: RawFd = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The listening sockets that systemd opened for this process (`LISTEN_PID`, `LISTEN_FDS`), in the order of the
/// unit file. Children do not inherit them. Empty when there are none, and from the second call on, because a
/// socket has one owner.
pub fn inherited_listeners() -> Vec<OwnedFd> {
    let pid = std::env::var("LISTEN_PID").ok();
    let count = std::env::var("LISTEN_FDS").ok();
    let count = listener_count(pid.as_deref(), count.as_deref(), std::process::id());
    if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    (FIRST..FIRST + count).filter_map(adopt).collect()
}

fn adopt(raw: RawFd) -> Option<OwnedFd> {
    // SAFETY: the environment says that this process owns the descriptors from 3 on. `TAKEN` lets them be taken once,
    // and a number that is not open is released below without being closed.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    if rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).is_err() {
        let _not_open = fd.into_raw_fd();
        return None;
    }
    Some(fd)
}

/// Number of sockets that the two variables pass to process `own_pid`.
pub(crate) fn listener_count(pid: Option<&str>, count: Option<&str>, own_pid: u32) -> RawFd {
    let for_us = pid.and_then(|pid| pid.parse().ok()) == Some(own_pid);
    let count = count.and_then(|count| count.parse::<RawFd>().ok());
    match count {
        Some(count) if for_us && (1..=1024).contains(&count) => count,
        _ => 0,
    }
}
