//! Which driver makes the device of a volume.

use crate::device::{Device, Driver, load_module};
use crate::devices::nbd_devices;
use crate::error::AttachError;
use crate::identity::Identity;
use crate::netlink::Kernel;
use crate::ublk::Ublk;
use std::path::{Path, PathBuf};

/// The driver of the device that the volume has from an earlier server; otherwise `wanted`, or the best one that the kernel has.
/// `alone` says that the engine's thread is the only one that enters its ring, as ublk demands.
///
/// # Errors
/// When the volume has a device of another driver than `wanted`, when ublk would be needed and is not possible, when the kernel has no
/// driver, or the user is not root.
pub fn choose(
    identity: &Identity,
    wanted: Option<Driver>,
    alone: bool,
) -> Result<Driver, AttachError> {
    let left = left(identity)?;
    if let (Some((driver, path)), Some(wanted)) = (&left, wanted)
        && *driver != wanted
    {
        let (path, driver) = (path.clone(), *driver);
        return Err(AttachError::HasDevice { path, driver });
    }
    match left.map(|(driver, _)| driver).or(wanted) {
        Some(Driver::Ublk) if !alone => Err(AttachError::WithMount),
        Some(driver) => Ok(driver),
        None => best(alone),
    }
}

/// The device that an earlier server has left.
fn left(identity: &Identity) -> Result<Option<(Driver, PathBuf)>, AttachError> {
    let mut devices = nbd_devices()?.into_iter();
    if let Some(device) = devices.find(|device| device.identity.is_same(identity)) {
        return Ok(Some((Driver::Nbd, device.path())));
    }
    // Without its module the driver has no devices.
    if !Path::new("/sys/class/ublk-char").exists() {
        return Ok(None);
    }
    let mut driver = match Ublk::new() {
        Err(AttachError::NoUblk | AttachError::OldUblk) => return Ok(None),
        driver => driver?,
    };
    let found = driver.find(identity)?;
    Ok(found.map(|found| (Driver::Ublk, Device::path_of(Driver::Ublk, found.index))))
}

fn best(alone: bool) -> Result<Driver, AttachError> {
    if alone {
        match Ublk::new() {
            Err(AttachError::NoUblk | AttachError::OldUblk) => {}
            driver => return driver.map(|_| Driver::Ublk),
        }
    }
    load_module("nbd");
    match Kernel::new() {
        Err(AttachError::NoModule) if alone => Err(AttachError::NoDriver),
        kernel => kernel.map(|_| Driver::Nbd),
    }
}
