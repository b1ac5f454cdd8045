//! Whole-store simulation: seeded workloads on the real engine in virtual time, a power cut at every single
//! I/O, recovery, and an oracle that knows every state that may be found then.
//!
//! What is checked after each cut (the engine's invariants 1, 2, 4, 5, 6): the recovered store equals the
//! state after some prefix of the commit order, the prefix contains everything that was acknowledged as
//! durable, and no block is torn, mixed or unreadable.

mod campaign;
mod oracle;
mod store;
mod workload;

pub use campaign::{Campaign, Failure, Outcome, run_seed};
pub use oracle::{Oracle, Violation};
pub use store::{Shape, StoreImage};
