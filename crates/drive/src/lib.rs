//! Simulated drives in virtual time: the other world in which the engine runs.

mod fault;
mod image;
mod payload;
mod timing;
mod world;

pub use fault::{Budget, Fault, FaultKind, Place, Struck};
pub use image::DiskImage;
pub use timing::{Done, DriveRequest, Kind, Timing};
pub use world::{Crash, Jitter, JitterTimes, SimDisk, SimDriver, SimOptions, SimWorld, Zeroing};

#[cfg(test)]
mod world_test;
