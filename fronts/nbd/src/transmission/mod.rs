//! The transmission phase: it receives requests and sends replies, on the engine's own executor.
//!
//! ```text
//!  socket -> receive: window -> parse, admit -> execute (a task only if it must wait) -> reply
//!  socket <- send:    one Send <- outbox <------------------------------------------------'
//! ```
//!
//! A connection has two tasks: one receives and starts requests, one sends. A request is polled where it was received,
//! and becomes a task of its own when it cannot end at once. Replies that are ready are sent together.
//!
//! Invariants:
//! 1. All memory that a client can make the server hold is bounded. A window, one payload, requests under way and bytes
//!    of replies are bounded for each connection and for all together ([`TransmissionOptions`]). Payloads that are not
//!    yet whole have a budget of their own. Whole payloads are bounded by the target's reservation.
//! 2. A request is answered exactly once, or its connection has gone.
//! 3. `CAN_MULTI_CONN` is true, because all connections to an export have handles on one [`Target`]: reads on all
//!    connections see a write that was answered on one, and a flush on any connection covers it.
//! 4. A client that stalls makes no small request of other clients wait, and a large one for the shortage timeout at
//!    most.
//! 5. No clock but the executor's, no thread, no random source.

mod budgets;
mod connections;
mod execute;
mod link;
mod options;
mod receive;
mod replies;
mod shared;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use connections::{ConnectionInfo, Connections};
pub use options::TransmissionOptions;
pub use shared::Metrics;
pub use target::{Target, TargetError};
