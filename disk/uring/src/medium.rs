//! What the file system of a folder does with the files in it, as far as it matters to a store.

use crate::member::{MemberError, PathText};
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the kernel keeps the nodes of devices.
const DEVICES: &str = "/dev";
/// The only folder there that is made for files.
const SHARED_MEMORY: &str = "/dev/shm";
/// The list of mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Types of file systems, as statfs(2) has them.
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
const BTRFS: i64 = 0x9123_683e;
const BCACHEFS: i64 = 0xca45_1a4e;
const ZFS: i64 = 0x2fc1_2fc1;

/// The kind of a place for files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A file system that overwrites in place, or a block device.
    Plain,
    /// Memory: a file is gone after the next start of the machine.
    Memory,
    /// The folder of the devices. It is in memory, and a file there comes from a wrong name of a device.
    Devices,
    /// Each overwrite goes to a new place, and needs free space. The name of the file system.
    CopyOnWrite(&'static str),
}

impl Medium {
    /// Where a file at `path` lies, or would.
    pub fn of(path: &Path) -> Self {
        // A link leads to its file, also where there is none yet.
        let path = target(path);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let folder = folder.canonicalize().unwrap_or(folder);
        if is_of_devices(&folder) {
            return Self::Devices;
        }
        let Ok(found) = rustix::fs::statfs(&folder) else {
            // Whoever makes the file gets the error.
            return Self::Plain;
        };
        #[expect(
            clippy::useless_conversion,
            reason = "the width of the field depends on the target"
        )]
        let number = i64::from(found.f_type);
        Self::of_type(number)
    }

    fn of_type(number: i64) -> Self {
        match number {
            TMPFS | RAMFS => Self::Memory,
            BTRFS => Self::CopyOnWrite("btrfs"),
            BCACHEFS => Self::CopyOnWrite("bcachefs"),
            ZFS => Self::CopyOnWrite("ZFS"),
            _ => Self::Plain,
        }
    }

    /// Where the file at `path` lies, which is there. One that its file system overwrites in place by its attribute is on a
    /// plain medium.
    pub fn of_made(path: &Path) -> Self {
        let is_set = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
            Some(ioctl_getflags(&file).ok()?.contains(IFlags::NOCOW))
        };
        match Self::of(path) {
            Self::CopyOnWrite(_) if is_set() == Some(true) => Self::Plain,
            medium => medium,
        }
    }
}

/// Refuses a file at `path`, which does not exist yet, if it would lie among the devices.
///
/// # Errors
/// When it would.
pub fn refuse_devices(path: &Path) -> Result<(), MemberError> {
    match Medium::of(path) {
        Medium::Devices => Err(MemberError::AmongDevices {
            path: PathText(path.to_path_buf()),
        }),
        _ => Ok(()),
    }
}

/// Has the file system overwrite this file in place, which must be empty. False where it cannot.
pub(crate) fn set_in_place(file: impl AsFd) -> bool {
    let set = ioctl_getflags(&file).and_then(|flags| ioctl_setflags(&file, flags | IFlags::NOCOW));
    set.is_ok() && ioctl_getflags(&file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

/// The path to which a link leads that leads to no file. Others as they are.
fn target(path: &Path) -> PathBuf {
    /// As many as the kernel follows.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Whether `folder`, which has no links, is among the devices: below /dev, or in another mount of that file system.
fn is_of_devices(folder: &Path) -> bool {
    if folder.starts_with(DEVICES) {
        return !folder.starts_with(SHARED_MEMORY);
    }
    let device = folder.metadata().map(|found| found.dev());
    let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
    device.is_ok_and(|device| is_devtmpfs(&mounts, device))
}

/// Whether the list `mounts` has a devtmpfs with the number `device`.
fn is_devtmpfs(mounts: &str, device: u64) -> bool {
    let number = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    mounts.lines().any(|line| {
        // ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS
        let mut fields = line.split(' ');
        fields.nth(2) == Some(&number)
            && fields.skip_while(|field| *field != "-").nth(1) == Some("devtmpfs")
    })
}

#[cfg(test)]
#[path = "medium_test.rs"]
mod medium_test;
