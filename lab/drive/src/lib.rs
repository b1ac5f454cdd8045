//! Simulated drives in virtual time: the other world in which the engine runs.
//!
//! [`Drive`] gives the times of one drive, mechanical or flash, as [`DriveSpec`] describes it.
//! [`SimWorld`] puts the contents of any number of drives behind the executor's driver.

mod buffer;
mod bus;
mod closed_loop;
mod demerit;
mod disk;
mod drive;
mod fault;
mod flash;
mod geometry;
mod image;
mod mechanism;
mod overhead;
mod payload;
mod queue;
mod rotation;
mod seek;
mod spec;
mod timing;
mod world;
mod write_cache;

pub use closed_loop::ClosedLoop;
pub use demerit::{Demerit, per_request_rms_ms};
pub use disk::Disk;
pub use drive::{Drive, DriveOptions};
pub use fault::{Budget, Fault, FaultKind, Place, Struck};
pub use geometry::{Angle, Extent, Geometry};
pub use image::DiskImage;
pub use mechanism::{Arm, Mechanism, Run};
pub use queue::Scheduler;
pub use rotation::{Drift, Rotation};
pub use seek::{Seek, curve_ms};
pub use spec::*;
pub use timing::{Done, DriveRequest, Kind, Timing};
pub use world::{
    Crash, HOST_PER_REQUEST, HOST_PS_PER_BYTE, Jitter, JitterTimes, SimDisk, SimDriver, SimOptions,
    SimWorld, Zeroing,
};

#[cfg(test)]
mod world_test;
