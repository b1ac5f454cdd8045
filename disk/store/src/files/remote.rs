//! Files of a store that another process serves: the protocol, its server's end and its client's end.
//!
//! A connection is a session. The client says hello, then sends requests. The server carries them out in the order in
//! which they come, except for reads without a unit and waits for durability, which go on beside later requests. A
//! request within a unit gets no reply before the unit's end, so the whole unit travels at once:
//!
//! ```text
//! client  magic, version  Begin 1  Write 1 ..  Write 1 ..  End 1 durable
//! server                  magic, version                                  Done | Failed
//! ```
//!
//! A client that breaks the protocol gets the reason, under the number 0, and is closed. So is every client when the
//! server stops. A client that stalls is closed. The end of a connection, whatever its cause, is the end of the
//! session.

mod client;
mod link;
mod server;
mod wire;

pub use client::RemoteFiles;
pub use link::FileServerLimits;
pub use server::FileServer;
#[doc(hidden)]
pub use wire::{decode_any, frames};
