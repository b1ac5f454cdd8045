//! Filters around any device: planned faults, and counts of operations.

mod count;
mod fault;

pub use count::{Counted, OpCount};
pub use fault::{Access, Effect, Fault, FaultPlan};

#[cfg(test)]
mod fault_test;
