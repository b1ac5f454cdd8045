//! Block devices as the engine sees them: something of a size that reads, writes and flushes.
//!
//! The bottom is a [`RawDevice`] over the executor's driver. Filters wrap a device and are devices
//! themselves, so they stack: [`Stats`] counts, [`Trace`] makes runs comparable, [`Fault`] breaks what
//! a test wants broken, [`FlushFence`] believes no flush after a failed one. [`raid`] makes one device of
//! several. [`conformance`] says what all of them must do.

pub mod conformance;
mod device;
mod fault;
mod fence;
pub mod raid;
mod raw;
mod stats;
mod trace;

pub use device::{Device, DeviceIo, Interrupted, Recovering};
pub use fault::{Access, Effect, Fault, FaultPlan};
pub use fence::FlushFence;
pub use raw::RawDevice;
pub use stats::{OpStats, Stats, StatsSnapshot};
pub use trace::{Trace, TraceEvent, TraceLog};

#[cfg(test)]
mod fault_test;
#[cfg(test)]
mod fence_test;
#[cfg(test)]
mod raw_test;
#[cfg(test)]
mod stats_test;
#[cfg(test)]
mod trace_test;
