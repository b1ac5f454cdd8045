//! The parts of `tonearm serve`.
//!
//! ```text
//! nbd accept/handshake threads --+
//! control threads, files thread -+--> mailbox --> engine thread: ring, store, connections
//! metrics thread ----------------+            |
//! vhost-user threads ------------+            |
//! threads of devices of the kernel -+
//! threads of the mount --> queue of requests -+
//! main thread: signals, --run, the order of start and stop
//! ```
//!
//! Invariants:
//! 1. Only the engine thread touches the store. The others reach it through the mailbox, which is
//!    bounded: senders block when it is full.
//! 2. The store is open, and so locked, before any socket is bound. So a socket file that exists by then belongs to a
//!    server that has ended.

pub mod archive;
pub mod attach;
pub mod control_handler;
pub mod control_socket;
pub mod engine_thread;
pub mod mailbox;
pub mod metrics;
pub mod mount;
pub mod service;
pub mod socket_file;
pub mod swaps;
pub mod ublk;
pub mod uri;
pub mod vhost;
pub mod watch;
