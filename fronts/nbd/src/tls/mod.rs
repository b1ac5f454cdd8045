//! TLS for the handshake and the transmission phase.
//!
//! [`server_config`] reads certificates. [`pump`] carries the plaintext of one connection through a socket pair, whose
//! other end is served like any plain socket.

mod config;
mod pump;

pub use config::{Tls, TlsError, TlsFiles, server_config};
pub use pump::pump;
pub(crate) use pump::timespec;

#[cfg(test)]
mod config_test;
#[cfg(test)]
mod pump_test;
#[cfg(test)]
pub(crate) mod testing;
