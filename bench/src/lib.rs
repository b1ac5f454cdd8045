//! What the comparisons have in common: the machine, and medians with their range.

#![forbid(unsafe_code)]

pub mod machine;
mod spread;

pub use spread::Spread;
