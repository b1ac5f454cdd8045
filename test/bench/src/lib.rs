//! What the comparisons have in common: options, the machine, and medians with their range.

#![forbid(unsafe_code)]

mod contents;
pub mod machine;
pub mod options;
mod spread;

pub use contents::Contents;
pub use spread::Spread;
