//! Tests of the home of blocks through its public interface, in the simulated world.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod crash;
mod faults;
mod huge;
mod model;
mod reading;
mod repair;
mod trim;
