//! Simulated drives in virtual time: the other world in which the engine runs.

mod image;
mod world;

pub use image::DiskImage;
pub use world::{Crash, SimDriver, SimOptions, SimWorld};

#[cfg(test)]
mod world_test;
