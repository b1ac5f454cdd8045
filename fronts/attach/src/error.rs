//! Errors of the kernel's devices.

use crate::device::Driver;
use std::io;
use std::path::{Path, PathBuf};

/// Why a device could not be made, given a socket or ended.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The module nbd is not loaded.
    #[error("the kernel has no module nbd, or it is not loaded: run `modprobe nbd` as root")]
    NoModule,
    /// The module ublk_drv is not loaded.
    #[error(
        "the kernel has no module ublk_drv, or it is not loaded: run `modprobe ublk_drv` as root"
    )]
    NoUblk,
    /// Neither module is there.
    #[error(
        "the kernel has neither the module ublk_drv nor nbd, or they are not loaded: run `modprobe ublk_drv` (Linux 6.5 or newer) \
         or `modprobe nbd` (5.14 or newer) as root"
    )]
    NoDriver,
    /// The kernel's ublk lacks features.
    #[error(
        "this kernel's ublk is too old; Linux 6.5 or newer is needed: attach with `--driver nbd`"
    )]
    OldUblk,
    /// A device has our number and not our properties.
    #[error("{} was made by another program, and cannot be taken over", .0.display())]
    OtherServer(PathBuf),
    /// The volume has a device already.
    #[error("{} is a device of this volume by {driver}: detach it first, or attach with `--driver {driver}`", path.display())]
    HasDevice {
        /// The device.
        path: PathBuf,
        /// Its driver.
        driver: Driver,
    },
    /// The threads of a mount enter the ring in turn.
    #[error(
        "a server with a mount cannot serve a ublk device: attach with `--driver nbd`, after a device by ublk is detached, or serve without the mount"
    )]
    WithMount,
    /// The queue of a device ended, and the device did not.
    #[error("the kernel refused a command of the device's queue: {0}; start the server again")]
    QueueFailed(String),
    /// What programs have written to a device cannot be made durable, so the device stays.
    #[error("what programs have written to {} cannot be written to its volume: {error}; the device stays, and `tonearm detach --force` ends it", path.display())]
    Unwritten {
        /// The device.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The user may not do this.
    #[error("only root can attach, detach and list devices (CAP_SYS_ADMIN)")]
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
        /// The reason.
        why: String,
    },
    /// A file of /sys or /dev cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        error: io::Error,
    },
}

impl AttachError {
    /// The error of a file.
    pub(crate) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Unreadable {
            path: path.display().to_string(),
            error,
        }
    }
}
