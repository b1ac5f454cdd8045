//! A world in memory for tests and fuzzers: connected streams in virtual time, a target, and a
//! client's view of replies.

mod client;
mod memory;
mod session;
mod streams;

pub use client::{Answer, ReplyReader};
pub use memory::MemoryTarget;
pub use session::{TestClient, TestWorld, client_of};
pub use streams::{STREAM_BASE, Streams};
