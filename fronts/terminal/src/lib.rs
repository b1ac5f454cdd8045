//! Parts that the commands `tonearm` and `tonearm-lab` share: sizes, output, progress, manual pages, completions.
//!
//! Invariants:
//! 1. Standard output has only results; progress, notes and errors go to standard error.
//! 2. An error is one line: the program's name, what, where, what to do.

#![forbid(unsafe_code)]

pub mod pages;
mod program;
pub mod progress;
pub mod report;
pub mod size;
pub mod span;
mod status;

pub use comfy_table::Table;
pub use program::run;
pub use status::StatusLine;
