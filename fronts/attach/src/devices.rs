//! The devices that the kernel has, as /sys shows them.

use crate::device::{Device, Driver};
use crate::error::AttachError;
use crate::identity::Identity;
use crate::netlink::Kernel;
use crate::ublk::{self, Ublk};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

impl Device {
    /// Ends the device, whether or not programs use it. With `force` what lies in its page cache may be lost.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn detach(&self, force: bool) -> Result<(), AttachError> {
        match self.driver {
            Driver::Nbd => Kernel::new()?.disconnect(self),
            Driver::Ublk => Ublk::new()?.detach(self.index, &self.identity, force),
        }
    }

    /// True while a file system is mounted from it, or a program has claimed it for itself alone.
    ///
    /// # Errors
    /// When the device cannot be opened for another reason.
    pub fn is_claimed(&self) -> Result<bool, AttachError> {
        is_claimed(&self.path())
    }
}

/// True while a file system is mounted from the block device at `path`, or a program has claimed it for itself alone.
///
/// # Errors
/// When it cannot be opened for another reason.
pub fn is_claimed(path: &Path) -> Result<bool, AttachError> {
    // O_EXCL without O_CREAT fails for a block device that the system uses.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(_) => Ok(false),
        Err(rustix::io::Errno::BUSY) => Ok(true),
        Err(errno) => Err(AttachError::unreadable(path, errno.into())),
    }
}

/// The devices that belong to stores, by driver and number.
///
/// # Errors
/// When /sys cannot be read, or there may be devices of ublk and the user is not root.
pub fn devices() -> Result<Vec<Device>, AttachError> {
    let mut found = nbd_devices()?;
    found.extend(ublk_devices()?);
    Ok(found)
}

fn ublk_devices() -> Result<Vec<Device>, AttachError> {
    let mut found = Vec::new();
    let listed = ublk::listed()?;
    if listed.is_empty() {
        return Ok(found);
    }
    let mut driver = match Ublk::new() {
        // The files are left from devices that have gone with the module.
        Err(AttachError::NoUblk | AttachError::OldUblk) => return Ok(found),
        driver => driver?,
    };
    for (index, identity) in listed {
        if !driver.belongs(index, &identity)? {
            continue;
        }
        let folder = PathBuf::from(format!("/sys/block/ublkb{index}"));
        if let Some((size_bytes, read_only)) = size_and_mode(&folder)? {
            found.push(Device {
                driver: Driver::Ublk,
                index,
                identity,
                backend: String::new(),
                size_bytes,
                read_only,
            });
        }
    }
    found.sort_by_key(|device| device.index);
    Ok(found)
}

/// The devices of nbd that belong to stores, by number.
///
/// # Errors
/// When /sys cannot be read.
pub fn nbd_devices() -> Result<Vec<Device>, AttachError> {
    let folder = Path::new("/sys/block");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| AttachError::unreadable(folder, error))? {
        let entry = entry.map_err(|error| AttachError::unreadable(folder, error))?;
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix("nbd"));
        let Some(index) = name.and_then(|number| number.parse().ok()) else {
            continue;
        };
        found.extend(device(index, &entry.path())?);
    }
    found.sort_by_key(|device| device.index);
    Ok(found)
}

/// The device of nbd with this number, if it belongs to a store.
fn device(index: u32, folder: &Path) -> Result<Option<Device>, AttachError> {
    let (Some(backend), Some((size_bytes, read_only))) =
        (text(&folder.join("backend"))?, size_and_mode(folder)?)
    else {
        return Ok(None);
    };
    Ok(Identity::parse(&backend).map(|identity| Device {
        driver: Driver::Nbd,
        index,
        identity,
        size_bytes,
        read_only,
        backend,
    }))
}

/// Bytes of a device, and whether it takes no changes. Its files in /sys come and go with it.
fn size_and_mode(folder: &Path) -> Result<Option<(u64, bool)>, AttachError> {
    let (size, read_only) = (text(&folder.join("size"))?, text(&folder.join("ro"))?);
    Ok(size.zip(read_only).map(|(sectors, read_only)| {
        let bytes = sectors.parse::<u64>().unwrap_or(0) * 512;
        (bytes, read_only == "1")
    }))
}

fn text(path: &Path) -> Result<Option<String>, AttachError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // The device has gone between the opening and the reading.
        Err(error) if error.raw_os_error() == Some(19) => Ok(None),
        Err(error) => Err(AttachError::unreadable(path, error)),
    }
}
