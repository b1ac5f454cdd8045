//! Volumes as devices /dev/ublkbN: the kernel's ublk driver sends requests to the engine's own ring.
//!
//! ```text
//! thread that attaches ---- /dev/ublk-control: add, parameters, start, recover, stop, delete
//!        | Ask
//!        v
//! engine's thread: one task for each tag:  fetch -> carry out -> commit and fetch -> ...      /dev/ublkcN
//! ```
//!
//! * [`Ublk`] sends the commands of the driver, which block. They never come from the engine's thread: the start of a device reads
//!   its partition table through the engine.
//! * [`Queues`] has the queues that are served, on the engine's thread. `execute.rs` carries out one request.
//! * `abi.rs` knows the kernel's numbers and bytes, `label.rs` the descriptions of devices for people.
//!
//! Invariants:
//! 1. A request is answered once, after its effect. Its effect survives the death of this process then, and a power cut if the kernel
//!    may rely on that.
//! 2. The commands of a queue come from one thread, the engine's, as the kernel demands.
//! 3. A device belongs to a volume if and only if it has the number of its identity ([`Identity::number`](crate::Identity::number)).

mod abi;
mod control;
mod execute;
#[cfg(test)]
mod execute_test;
mod label;
mod queue;
mod queues;

pub use control::{Found, Ublk, UblkShape};
pub(crate) use label::listed;
pub use queues::{Ask, AskEngine, QueuePlan, Queues};
