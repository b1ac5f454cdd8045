//! The mount points of a served store itself. Its server waits for no file there: the file system would wait for the server.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the file system of a store is mounted by its own server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnMounts(Vec<PathBuf>);

impl OwnMounts {
    /// The mounts on these directories, whose paths have no symbolic links.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self(dirs)
    }

    /// The mount point that has `path`, also if nothing is there yet but its folder. It may ask the file system of the mount, so
    /// the thread that serves it must not call this while it is mounted.
    pub fn with(&self, path: &Path) -> Option<&Path> {
        if self.0.is_empty() {
            return None;
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        // What is not there will be made in its folder.
        let found = match path.metadata() {
            Ok(_) => path.as_path(),
            Err(_) => path.parent().unwrap_or(&path),
        };
        let device = found.metadata().ok().map(|found| found.dev());
        self.holding(found, device)
    }

    /// The mount point that has `path`, which is there. `device` is its device, if that is known: the same mount may have another
    /// name, too.
    pub(crate) fn holding(&self, path: &Path, device: Option<u64>) -> Option<&Path> {
        if self.0.is_empty() {
            return None;
        }
        let found = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let on = self.0.iter().find(|mount| {
            found.starts_with(mount)
                || device.is_some_and(|device| device_of_mount(mount) == Some(device))
        });
        on.map(PathBuf::as_path)
    }
}

/// The device of what is mounted at `mount`, as this process sees it. Asks the kernel alone, so it does not wait for the mount.
fn device_of_mount(mount: &Path) -> Option<u64> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let lines = mounts.split(|byte| *byte == b'\n');
    // The last one covers those before it.
    let mut devices = lines.filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (device, point) = (fields.get(2)?, fields.get(4)?);
        (unescaped(point) == mount.as_os_str().as_bytes()).then_some(*device)
    });
    let device = std::str::from_utf8(devices.next_back()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    Some(rustix::fs::makedev(
        major.parse().ok()?,
        minor.parse().ok()?,
    ))
}

/// A path as mountinfo writes it: blanks and some others as three octal digits after a backslash.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let code = text.get(at + 1..at + 4).filter(|_| text[at] == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(text[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    bytes
}

#[cfg(test)]
#[path = "own_mounts_test.rs"]
mod own_mounts_test;
