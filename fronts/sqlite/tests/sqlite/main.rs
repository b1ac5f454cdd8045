//! Real SQLite on the VFS, over files in memory.

#![allow(clippy::unwrap_used)]

mod common;
mod crash;
mod durability;
mod errors;
mod late;
mod locks;
mod memory;
mod modes;
mod renewal;
mod transactions;
mod two_names;
mod wal;
