//! The logical disk on simulated drives: recovery units, files, lists.

mod bytes;
mod closing;
mod common;
mod durable;
mod events;
mod failing;
mod files;
mod full;
mod hostile;
mod images;
mod lists;
mod memory;
mod model;
mod progress;
mod read_only;
mod spill;
mod tree;
mod turns;
mod units;
mod usage;
