//! The transmission phase, in memory and virtual time, and over real sockets.

extern crate tonearm_nbd as nbd;

mod commands;
mod common;
mod hostile;
mod model;
mod shutdown;
mod sockets;
mod splits;
mod store;
