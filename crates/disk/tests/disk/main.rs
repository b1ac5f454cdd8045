//! The logical disk on simulated drives: recovery units, files, lists.

mod common;
mod files;
mod spill;
mod units;
