//! Code that the benchmark programs share: options, rounds of samples, the machine, processes, contents, reports, and
//! medians with their range.

#![forbid(unsafe_code)]

mod contents;
pub mod folder;
pub mod machine;
pub mod options;
pub mod process;
mod random;
pub mod report;
pub mod rounds;
mod spread;

pub use contents::Contents;
pub use random::Random;
pub use spread::{Quantiles, Spread};
