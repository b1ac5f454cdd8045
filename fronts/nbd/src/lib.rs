//! The NBD front end: wire protocol, handshake, TLS, listening sockets and service.
//!
//! The protocol is the public document `doc/proto.md` of the NBD project
//! ("the spec" in comments of this crate). The work is split by phase:
//!
//! * [`proto`] holds constants, encoders and parsers. It does no I/O, reads no
//!   clock, and so runs inside the engine's executor and in simulations.
//! * [`handshake`] negotiates an export with a client: a sans-I/O state machine
//!   ([`handshake::Negotiation`]) and a driver for any `Read + Write` stream.
//! * [`catalog`] is the list of exports a handshake may choose from.
//! * [`tls`] makes the rustls configuration and carries a TLS connection's
//!   plaintext through a socket pair, so that the transmission phase always
//!   serves a plain socket.
//! * [`listen`] accepts connections, runs handshakes on short-lived threads and
//!   delivers finished ones.
//! * [`transmission`] serves them on the engine's executor.
//!
//! Invariants:
//!
//! 1. The handshake never reads a byte that belongs to the transmission phase
//!    or to a TLS handshake.
//! 2. Memory held for one client before transmission is bounded by constants,
//!    whatever lengths the client claims.
//! 3. Nothing negotiated before STARTTLS survives it.

#![forbid(unsafe_code)]

pub mod catalog;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod handshake;
pub mod listen;
pub mod proto;
pub mod tls;
pub mod transmission;

pub use catalog::{Catalog, Export, Exports};
pub use listen::{Accepted, Client, ConnectionGuard, ListenConfig, Listener, Server};
pub use transmission::{Connections, Target, TransmissionOptions};
