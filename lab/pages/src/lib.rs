//! A simulator of disk layouts: pages without content on simulated drives in virtual time (HyLog, paper 2, section 5).
//!
//! Users without think time take requests for pages from one workload. Overwrite, LFS, WOLF, HyLog and SepBIT are one
//! mechanism with different rules for where a written page goes ([`Layout`]). The separator, the costs and the choice of
//! the segments to clean are the product's own code (`disk/layout`). Metadata is free, as in the paper, which assumes NVRAM.
//!
//! Invariants:
//! 1. The same setup, seed and workload give the same figures.
//! 2. A page is in at most one slot, and a slot has at most one page. A page without a slot is in a buffer.
//! 3. A request allocates no memory. Memory is 10 bytes for each page, 4 for each slot, and what the buffers and queues hold.
//! 4. Users take a free segment only while the cleaner keeps as many as it needs to end its pass.

mod array;
mod buffers;
mod choice;
mod clean;
mod counts;
mod raid;
mod recent;
mod scan;
mod sepbit;
mod setup;
mod simulation;
mod space;
mod steady;
mod tiny;

pub use counts::{Counts, Work};
pub use setup::{Cleaning, Layout, Redundancy, Setup, SetupError};
pub use simulation::Simulation;
pub use steady::{Band, Steady, Window};
pub use tiny::Tiny;

#[cfg(test)]
mod raid_test;
#[cfg(test)]
mod scan_test;
#[cfg(test)]
mod space_test;
