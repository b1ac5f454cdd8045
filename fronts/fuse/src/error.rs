//! Why a store could not be mounted.

use std::io;
use std::path::PathBuf;

/// An error of mounting or unmounting. The texts name the directory and what to do.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No such directory.
    #[error("cannot mount on {0}: there is no such directory; make it first: mkdir -p {0}")]
    NoDirectory(PathBuf),
    /// Something else of this name.
    #[error("cannot mount on {0}: it is not a directory; give an empty directory")]
    NotDirectory(PathBuf),
    /// Something is mounted there.
    #[error(
        "cannot mount on {place}: {source_text} is mounted there; unmount it first: umount {place}"
    )]
    Busy {
        /// The directory.
        place: PathBuf,
        /// What is mounted.
        source_text: String,
    },
    /// What is mounted there has lost its server, and is not ours.
    #[error(
        "cannot mount on {place}: {source_text} is mounted there and its server has ended; unmount it first: \
         fusermount3 -uz {place}"
    )]
    DeadOther {
        /// The directory.
        place: PathBuf,
        /// What is mounted.
        source_text: String,
    },
    /// No device.
    #[error(
        "there is no /dev/fuse: load the module (modprobe fuse), or give the device to the container \
         (--device /dev/fuse --cap-add SYS_ADMIN)"
    )]
    NoDevice,
    /// Neither mount(2) nor fusermount3 may mount.
    #[error(
        "not permitted to mount on {place}: {why}; run as root, or install fusermount3 (package fuse3)"
    )]
    NotPermitted {
        /// The directory.
        place: PathBuf,
        /// What has refused.
        why: String,
    },
    /// fusermount3 has refused.
    #[error("cannot mount on {place}: {said}")]
    Refused {
        /// The directory.
        place: PathBuf,
        /// Its text.
        said: String,
    },
    /// Nothing of ours is mounted there.
    #[error(
        "cannot remount {0}: no store is mounted there; mount one first: tonearm mount STORE {0}"
    )]
    NotMounted(PathBuf),
    /// An option that does not exist.
    #[error("there is no mount option '{0}'; known are: {known}", known = crate::options::KNOWN)]
    Option(String),
    /// Anything else.
    #[error("cannot {what} {place}: {error}")]
    Io {
        /// The step.
        what: &'static str,
        /// The directory.
        place: PathBuf,
        /// The error.
        error: io::Error,
    },
}
