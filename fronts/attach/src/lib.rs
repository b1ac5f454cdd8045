//! Volumes as block devices of this kernel, /dev/nbd0 and so on: the kernel's NBD client gets one end of a socket pair.
//!
//! The kernel keeps a device while its server is gone, and its programs wait. A restarted server finds the device by its
//! [`Identity`], which the kernel stores, and gives it a new socket. No file has to say which device belongs to whom.
//!
//! Linux has this since version 5.14.

#![forbid(unsafe_code)]

mod devices;
mod error;
mod identity;
mod netlink;

pub use devices::{Device, devices, load_module};
pub use error::AttachError;
pub use identity::Identity;
pub use netlink::{Kernel, Shape};
