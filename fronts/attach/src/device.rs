//! A device of ours, and the drivers of the kernel that make one.

use crate::identity::Identity;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A driver of the kernel that makes block devices served by programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// The kernel's client of NBD.
    Nbd,
    /// ublk.
    Ublk,
}

impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Driver::Nbd => "nbd",
            Driver::Ublk => "ublk",
        })
    }
}

/// A device of ours.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its driver.
    pub driver: Driver,
    /// Its number: 0 for /dev/nbd0 and for /dev/ublkb0.
    pub index: u32,
    /// Whose it is.
    pub identity: Identity,
    /// For nbd, the string of the kernel that `identity` was read from. The kernel compares it when it is given another socket.
    pub backend: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it takes no changes.
    pub read_only: bool,
}

impl Device {
    /// Path of the device with this number.
    pub fn path_of(driver: Driver, index: u32) -> PathBuf {
        match driver {
            Driver::Nbd => format!("/dev/nbd{index}").into(),
            Driver::Ublk => format!("/dev/ublkb{index}").into(),
        }
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        Self::path_of(self.driver, self.index)
    }
}

/// Loads a module of the kernel, if it is there and not loaded. The attempt may fail: what needs the module says so.
pub fn load_module(name: &str) {
    if !Path::new("/sys/module").join(name).exists() {
        // Its messages would be those of this program. A failure shows when the module is used.
        let _ = Command::new("modprobe").args(["-q", name]).status();
    }
}
