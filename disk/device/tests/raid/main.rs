//! RAID-0 and RAID-5 on simulated members: what they must do as devices, what they cost, what they do when
//! members fail, and what a power cut leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod conformance;
mod cost;
mod crash;
mod failures;
mod model;
mod rebuild;
