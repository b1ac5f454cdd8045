//! The transmission phase: requests in, replies out, on the engine's own executor.
//!
//! ```text
//!  socket -> receive: window -> parse, admit -> execute (a task only if it must wait) -> reply
//!  socket <- send:    one Send <- outbox <------------------------------------------------'
//! ```
//!
//! A connection is two tasks: one receives and starts requests, one sends. A request is polled
//! where it was received, and becomes a task of its own when it cannot end at once. Replies that are
//! ready leave together.
//!
//! Invariants:
//! 1. Everything a client can make the server hold is bounded: a window, one payload, requests under
//!    way, and bytes of replies, of its own and of all together ([`TransmissionOptions`]); payloads that are
//!    not yet whole by a budget of theirs, whole ones by the target's own reservation.
//! 2. A request is answered exactly once, or its connection has gone.
//! 3. `CAN_MULTI_CONN` is true, since all connections to an export have handles on one [`Target`]: a
//!    write that was answered on one connection is seen by reads of all, and a flush on any covers it.
//! 4. A client that stalls keeps no small request of others waiting, and a large one for the shortage timeout at
//!    most.
//! 5. No clock but the executor's, no thread, no random source.

mod budgets;
mod connections;
mod execute;
mod link;
mod options;
mod receive;
mod replies;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use connections::{
    CommandCounters, CommandKind, ConnectionInfo, Connections, Counters, Latency, Metrics,
};
pub use execute::{Target, TargetError};
pub use options::TransmissionOptions;
