//! Code that the benchmark programs share: options, the machine, contents, and medians with their range.

#![forbid(unsafe_code)]

mod contents;
pub mod machine;
pub mod options;
mod spread;

pub use contents::Contents;
pub use spread::Spread;
