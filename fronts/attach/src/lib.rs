//! Volumes as block devices of this kernel, by one of its two drivers for devices that programs serve:
//!
//! * [`Ublk`] makes /dev/ublkb0 and so on. Requests come through the engine's ring ([`Queues`]). It needs Linux 6.5.
//! * [`Kernel`] makes /dev/nbd0 and so on: the kernel's NBD client gets one end of a socket pair. It needs Linux 5.14.
//!
//! The kernel keeps a device while its server is gone, and its programs wait. A restarted server finds the device by its
//! [`Identity`], which the kernel stores, and takes it over. No file has to say which device belongs to whom.

#![forbid(unsafe_code)]

mod choice;
mod device;
mod devices;
mod error;
mod identity;
mod netlink;
mod ublk;

pub use choice::choose;
pub use device::{Device, Driver, load_module};
pub use devices::{devices, is_claimed, nbd_devices};
pub use error::AttachError;
pub use identity::Identity;
pub use netlink::{Kernel, Shape};
pub use ublk::{Ask, AskEngine, Found, QueuePlan, Queues, Ublk, UblkShape};
