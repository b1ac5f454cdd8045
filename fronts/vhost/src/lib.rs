//! The vhost-user-blk front end: a volume is a virtio disk of a virtual machine, over the machine's own memory.
//!
//! ```text
//! monitor (qemu) --socket--> session thread: messages --Ask--> engine thread: one task for each ring and each request
//! guest ----kick, eventfd-----------------------------------------^      call, eventfd --> guest
//! ```
//!
//! * [`serve`] is the connection to a virtual machine monitor. It knows memory and rings, and starts and stops them.
//! * [`Devices`] has the rings that run, on the engine's thread.
//! * `chain.rs` reads a request out of the guest's memory, `execute.rs` carries it out, `inflight.rs` notes which requests are under
//!   way where they survive this process.
//!
//! The guest is hostile: each descriptor, header and payload is read once, and what is checked is the copy. A request that breaks the
//! rules of virtio ends the connection and nothing else. The monitor is trusted with one thing: that it does not cut off
//! the memory that it has shared, which would end this process (SIGBUS).
//!
//! Source: Virtual I/O Device 1.2, 2.7 (rings) and 5.2 (block device); the vhost-user protocol of QEMU.
//!
//! Invariants:
//! 1. A ring that runs never changes. The session stops it, which waits for its requests, and starts another one.
//! 2. A request is in the used ring once, after its effect. Its effect survives the death of this process then, and a power cut if
//!    the guest may rely on that.
//! 3. Requests under way, and their memory, are bounded by constants and by the size of the ring.

#![deny(unsafe_code)]

mod chain;
mod devices;
mod execute;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod inflight;
mod ring;
mod session;
mod shape;

pub use chain::Malformed;
pub use devices::{Ask, AskEngine, Devices};
pub use session::{SessionError, serve, shape};
pub use shape::Shape;

#[cfg(test)]
mod chain_test;
#[cfg(test)]
mod inflight_test;
#[cfg(test)]
mod ring_test;
#[cfg(test)]
mod shape_test;
