//! Errors of the kernel's devices.

use std::io;
use std::path::PathBuf;

/// Why a device could not be made, given a socket or ended.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The module nbd is not loaded.
    #[error("the kernel has no module nbd, or it is not loaded: run `modprobe nbd` as root")]
    NoModule,
    /// The user may not do this.
    #[error("only root can attach and detach devices (CAP_SYS_ADMIN)")]
    NotPermitted,
    /// The kernel forgets whose a device is.
    #[error(
        "this kernel does not remember which store a device belongs to; Linux 5.14 or newer is needed"
    )]
    OldKernel,
    /// All devices are taken.
    #[error(
        "all devices /dev/nbd* are in use; load the module with more: `modprobe nbd nbds_max=64`"
    )]
    NoneFree,
    /// Another server has it.
    #[error("{} has a server that lives", .0.display())]
    Served(PathBuf),
    /// The kernel has refused.
    #[error("the kernel refused {what}: {error}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The kernel's answer cannot be read, or did not come.
    #[error("no answer of the kernel to {what}: {why}")]
    Unanswered {
        /// What was asked.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A file of /sys or /dev cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
}
