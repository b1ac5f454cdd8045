//! What the comparisons have in common: options, the machine, and medians with their range.

#![forbid(unsafe_code)]

pub mod machine;
pub mod options;
mod spread;

pub use spread::Spread;
