//! Simulated drives in virtual time: the other world in which the engine runs.

mod image;
mod timing;
mod world;

pub use image::DiskImage;
pub use timing::{Done, DriveRequest, Kind, Timing};
pub use world::{Crash, SimDriver, SimOptions, SimWorld};

#[cfg(test)]
mod world_test;
