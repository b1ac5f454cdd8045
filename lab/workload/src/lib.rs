//! Workloads for studies of disk layouts: streams of page accesses, made from a seed or read from a trace.
//!
//! Invariants:
//! 1. The same options and seed give the same accesses on every machine.
//! 2. Every access of a [`Workload`] is to a page below [`Workload::pages`], which does not change during a run.
//! 3. Memory does not grow with the number of accesses. TPC-C keeps 16 bytes for each order of its database.
//!
//! The kinds: [`SkewedPages`] (independent accesses with a given skew), [`financial`] and [`campus`] (synthetic
//! stand-ins for two traces of the HyLog paper), [`Tpcc`] (TPC-C by its standard), [`TracePages`] (a trace in any
//! format of `trace`). A [`Pooled`] workload is what an LRU write-back buffer pool leaves of another one.

mod access;
mod footprint;
mod permutation;
mod pool;
mod random;
mod shares;
mod skew;
mod synthetic;
pub mod tpcc;
mod trace_pages;

pub use access::{Access, Workload, WorkloadError};
pub use footprint::{Footprint, Touched};
pub use pool::{PageIo, Pool, Pooled};
pub use random::Random;
pub use shares::PageCounts;
pub use skew::{BadSkew, Skew, SkewOptions, SkewedPages};
pub use synthetic::{Published, campus, financial};
pub use tpcc::Tpcc;
pub use trace_pages::{TracePages, TracePagesOptions};
