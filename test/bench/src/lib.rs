//! Code that the benchmark programs share: options, the machine, contents, reports, and medians with
//! their range.

#![forbid(unsafe_code)]

mod contents;
pub mod folder;
pub mod machine;
pub mod options;
pub mod report;
mod spread;

pub use contents::Contents;
pub use spread::Spread;
