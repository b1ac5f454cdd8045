//! The FUSE front end: a store's file system in the tree of the system.
//!
//! ```text
//! kernel -> threads of the transport -> queue -> engine: one task for each request, which also answers it
//! ```
//!
//! * [`Mountable`] is a directory that can be mounted on, [`MountOptions`] are the options of mount(8).
//! * [`Session`] is the connection to the kernel. `transport.rs` and `reply.rs` alone know how requests come and answers go.
//! * [`FuseServer`] carries requests out in tasks of the engine. `operations.rs` says what each does. A thread of the transport runs
//!   the tasks itself if it can enter the engine's monitor.
//!
//! Invariants:
//! 1. Each request is answered once: with its result, or with an error when the server stops.
//! 2. Memory for requests is bounded by constants. The kernel's queue holds what is beyond them.
//! 3. The kernel checks permissions (`default_permissions`), and keeps the locks of flock and fcntl.

#![deny(unsafe_code)]

mod error;
mod ioctl;
mod members;
mod message;
mod metrics;
mod mounting;
mod notices;
mod operations;
mod options;
mod place;
mod processes;
#[allow(unsafe_code)]
mod program;
mod queue;
mod reply;
mod server;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod translate;
mod transport;
mod units;

pub use error::MountError;
pub use metrics::{Counters, Kind, Metrics};
pub use mounting::remount;
pub use options::MountOptions;
pub use place::Mountable;
pub use program::ProcessUnit;
pub use queue::{Incoming, Requests};
pub use server::FuseServer;
pub use session::Session;

#[cfg(test)]
mod options_test;
#[cfg(test)]
mod place_test;
#[cfg(test)]
mod translate_test;
