//! RAID-0 and RAID-5 on simulated members: their rules as devices, their cost, failures of members, and power cuts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod conformance;
mod cost;
mod crash;
mod durable;
mod failures;
mod model;
mod rebuild;
mod scrub;
