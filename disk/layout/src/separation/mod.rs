//! Separates blocks that are written often (hot) from those that are written rarely (cold). HyLog (paper 2) appends hot
//! blocks and overwrites cold ones in place.
//!
//! This module does no I/O and reads no clock, so the laboratory runs the same code over simulated drives.

pub mod cost;
mod separator;
mod service;

pub use separator::{Decision, Estimate, Inputs, Separator};
pub use service::{Kind, PAGES_MAX, PAGES_MIN, ServiceTimes};

#[cfg(test)]
mod cost_test;
#[cfg(test)]
mod separator_test;
#[cfg(test)]
mod service_test;
