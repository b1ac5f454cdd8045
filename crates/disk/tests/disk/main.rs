//! The logical disk on simulated drives: recovery units, files, lists.

mod common;
mod files;
mod full;
mod lists;
mod model;
mod spill;
mod turns;
mod units;
