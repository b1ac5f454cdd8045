//! The logical disk on simulated drives: recovery units, files, lists.

mod bytes;
mod common;
mod files;
mod full;
mod hostile;
mod images;
mod lists;
mod model;
mod spill;
mod turns;
mod units;
