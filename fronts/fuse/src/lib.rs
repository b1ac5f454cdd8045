//! The FUSE front end: a store's file system in the tree of the system.
//!
//! ```text
//! kernel -> threads of the transport -> queue -> engine thread: one task for each request, which also answers it
//! ```
//!
//! * [`Mountable`] is a directory that can be mounted on, [`MountOptions`] are the options of mount(8).
//! * [`Session`] is the connection to the kernel. `transport.rs` is the only file that knows how requests come.
//! * [`FuseServer`] carries requests out on the engine's thread. `operations.rs` says what each does.
//!
//! Invariants:
//! 1. Each request is answered once: with its result, or with an error when the server stops.
//! 2. Memory for requests is bounded by constants. The kernel's queue holds what is beyond them.
//! 3. The kernel checks permissions (`default_permissions`), and keeps the locks of flock and fcntl.

#![forbid(unsafe_code)]

mod error;
mod message;
mod metrics;
mod mounting;
mod operations;
mod options;
mod place;
mod queue;
mod server;
mod session;
mod translate;
mod transport;

pub use error::MountError;
pub use metrics::{Counters, Kind, Metrics};
pub use mounting::remount;
pub use options::MountOptions;
pub use place::Mountable;
pub use queue::{Incoming, Requests};
pub use server::FuseServer;
pub use session::Session;

#[cfg(test)]
mod options_test;
#[cfg(test)]
mod place_test;
#[cfg(test)]
mod translate_test;
