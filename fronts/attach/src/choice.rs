//! Which driver makes the device of a volume.

use crate::devices::{Device, Driver, load_module, nbd_devices};
use crate::error::AttachError;
use crate::identity::Identity;
use crate::netlink::Kernel;
use crate::ublk::{Ublk, listed};
use std::path::{Path, PathBuf};

/// The driver of the device that the volume has from an earlier server; otherwise `wanted`, or the best one that the kernel has.
/// `alone` says that the engine's thread is the only one that enters its ring, as ublk demands. `is_copy` says whether another file has
/// the same store.
///
/// # Errors
/// When the device is that of a copy of the store, or of another driver than `wanted`, when ublk would be needed and is not possible, when
/// the kernel has no driver, or the user is not root.
pub fn choose(
    identity: &Identity,
    wanted: Option<Driver>,
    alone: bool,
    is_copy: impl Fn(&Path) -> bool,
) -> Result<Driver, AttachError> {
    let left = left(identity)?;
    if let Some(Left { path, store, .. }) = &left
        && let Some(store) = store.as_ref().filter(|store| is_copy(store))
    {
        let (path, store) = (path.clone(), store.clone());
        return Err(AttachError::Copy { path, store });
    }
    if let (Some(Left { driver, path, .. }), Some(wanted)) = (&left, wanted)
        && *driver != wanted
    {
        let (path, driver) = (path.clone(), *driver);
        return Err(AttachError::HasDevice { path, driver });
    }
    match left.map(|left| left.driver).or(wanted) {
        Some(Driver::Ublk) if !alone => Err(AttachError::WithMount),
        Some(driver) => Ok(driver),
        None => best(alone),
    }
}

/// The device that an earlier server has left.
struct Left {
    driver: Driver,
    path: PathBuf,
    /// Where the store of that server was, if that is known.
    store: Option<PathBuf>,
}

fn left(identity: &Identity) -> Result<Option<Left>, AttachError> {
    let mut devices = nbd_devices()?.into_iter();
    if let Some(device) = devices.find(|device| device.identity.is_same(identity)) {
        return Ok(Some(Left {
            driver: Driver::Nbd,
            path: device.path(),
            store: Some(device.identity.path),
        }));
    }
    // Without its module the driver has no devices.
    if !Path::new("/sys/class/ublk-char").exists() {
        return Ok(None);
    }
    let mut driver = match Ublk::new() {
        Err(AttachError::NoUblk | AttachError::OldUblk) => return Ok(None),
        driver => driver?,
    };
    let Some(found) = driver.find(identity)? else {
        return Ok(None);
    };
    let mut listed = listed()?.into_iter();
    let label = listed.find(|(index, label)| *index == found.index && label.is_same(identity));
    Ok(Some(Left {
        driver: Driver::Ublk,
        path: Device::path_of(Driver::Ublk, found.index),
        store: label.map(|(_, label)| label.path),
    }))
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
