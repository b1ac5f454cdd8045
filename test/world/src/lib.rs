//! The simulated world: drives in virtual time, with volatile write caches, faults and power cuts.
//!
//! [`SimWorld`] puts the contents of any number of drives behind the executor's driver. Models behind the trait
//! [`Timing`] give the times: here random ones ([`Jitter`]), in the laboratory those of real drives.
//!
//! [`filters`] wrap any device, to fail or count its operations. [`conformance`] checks the rules of every device.

pub mod conformance;
mod fault;
pub mod filters;
mod image;
pub mod nanos;
mod payload;
mod share;
mod timing;
mod world;

pub use fault::{Budget, Fault, FaultKind, Place, Struck};
pub use image::DiskImage;
pub use share::share;
pub use timing::{Done, DriveRequest, Kind, Timing};
pub use world::{
    Crash, HOST_PER_REQUEST, HOST_PS_PER_BYTE, Jitter, JitterTimes, SimDisk, SimDriver, SimOptions,
    SimWorld, Zeroing,
};

#[cfg(test)]
mod world_test;
