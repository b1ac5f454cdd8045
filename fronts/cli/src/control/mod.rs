//! The control socket: how other commands speak with the server of a store.
//!
//! One line of JSON for each request, one or more for its answer: `protocol.rs` shows them.

mod client;
mod protocol;
mod server;
mod wire_stats;

pub use client::Client;
pub use protocol::{
    Answer, DamagedGroup, Event, Info, LogInfo, MemberInfo, Request, ScrubResult, VolumeInfo,
    Volumes,
};
pub use server::Server;
#[cfg(test)]
pub use wire_stats::LatencyStats;
pub use wire_stats::{CommandStats, NbdStats, ServerStats};
