//! The simulated world: drives in virtual time, with volatile write caches, faults and power cuts.
//!
//! [`SimWorld`] puts the contents of any number of drives behind the executor's driver. It knows no drive: times come from
//! models behind the trait [`Timing`], here random ones ([`Jitter`]), in the laboratory those of real drives.

mod fault;
mod image;
mod payload;
mod timing;
mod world;

pub use fault::{Budget, Fault, FaultKind, Place, Struck};
pub use image::DiskImage;
pub use timing::{Done, DriveRequest, Kind, Timing};
pub use world::{
    Crash, HOST_PER_REQUEST, HOST_PS_PER_BYTE, Jitter, JitterTimes, SimDisk, SimDriver, SimOptions,
    SimWorld, Zeroing,
};

#[cfg(test)]
mod world_test;
