//! The devices that the kernel has, as /sys shows them.

use crate::error::AttachError;
use crate::identity::Identity;
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A device of ours.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its number: 0 for /dev/nbd0.
    pub index: u32,
    /// Whose it is.
    pub identity: Identity,
    /// The string of the kernel that `identity` was read from. The kernel compares it when it is given another socket.
    pub backend: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it takes no changes.
    pub read_only: bool,
}

impl Device {
    /// Path of the device with this number.
    pub fn path_of(index: u32) -> PathBuf {
        PathBuf::from(format!("/dev/nbd{index}"))
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        Self::path_of(self.index)
    }

    /// True while a file system is mounted from it, or a program has claimed it for itself alone.
    ///
    /// # Errors
    /// When the device cannot be opened for another reason.
    pub fn is_claimed(&self) -> Result<bool, AttachError> {
        let path = self.path();
        // O_EXCL without O_CREAT fails for a block device that the system uses.
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(_) => Ok(false),
            Err(rustix::io::Errno::BUSY) => Ok(true),
            Err(errno) => Err(unreadable(&path, errno.into())),
        }
    }
}

/// The devices that belong to stores, by number.
///
/// # Errors
/// When /sys cannot be read.
pub fn devices() -> Result<Vec<Device>, AttachError> {
    let folder = Path::new("/sys/block");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
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

/// The device with this number, if it belongs to a store. Its files in /sys come and go with it.
fn device(index: u32, folder: &Path) -> Result<Option<Device>, AttachError> {
    let (Some(backend), Some(sectors), Some(read_only)) = (
        text(&folder.join("backend"))?,
        text(&folder.join("size"))?,
        text(&folder.join("ro"))?,
    ) else {
        return Ok(None);
    };
    let Some(identity) = Identity::parse(&backend) else {
        return Ok(None);
    };
    Ok(Some(Device {
        index,
        identity,
        size_bytes: sectors.parse::<u64>().unwrap_or(0) * 512,
        read_only: read_only == "1",
        backend,
    }))
}

fn text(path: &Path) -> Result<Option<String>, AttachError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // The device has gone between the opening and the reading.
        Err(error) if error.raw_os_error() == Some(19) => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

/// Loads the module nbd, if it is there and not loaded. The attempt may fail: what needs the module says so.
pub fn load_module() {
    if !Path::new("/sys/module/nbd").exists() {
        let _ = Command::new("modprobe").arg("nbd").status();
    }
}

fn unreadable(path: &Path, error: Error) -> AttachError {
    AttachError::Unreadable {
        path: path.display().to_string(),
        error,
    }
}
