//! Which errors of an opening count as a missing member.

use super::is_of_drive;
use std::io::Error;

#[test]
fn errors_of_this_process_do_not_make_a_member_missing() {
    for errno in [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOLCK,
        libc::EINTR,
        libc::EAGAIN,
        libc::EINVAL,
        libc::ELOOP,
        libc::ENOSPC,
    ] {
        assert!(!is_of_drive(&Error::from_raw_os_error(errno)), "{errno}");
    }
    assert!(!is_of_drive(&Error::other("no errno")));
}

#[test]
fn errors_of_a_drive_make_a_member_missing() {
    for errno in [
        libc::EIO,
        libc::ENXIO,
        libc::ENODEV,
        libc::ENOENT,
        libc::ENOTDIR,
        libc::ENOMEDIUM,
        libc::ESTALE,
    ] {
        assert!(is_of_drive(&Error::from_raw_os_error(errno)), "{errno}");
    }
}
