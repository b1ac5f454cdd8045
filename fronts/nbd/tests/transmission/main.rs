//! The transmission phase, in memory and virtual time, and over real sockets.

extern crate tonearm_nbd as nbd;

mod clients;
mod commands;
mod common;
mod faults;
mod fuzzed;
mod hostile;
mod model;
mod recording;
mod shutdown;
mod sockets;
mod splits;
mod store;
