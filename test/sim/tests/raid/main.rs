//! Stores over arrays, with a power cut at every I/O: the parity (`parity.rs`), and the state of the array, with members
//! that fail, stay away and come back (`stores.rs`), or return wrong content (`scrub.rs`).

#![allow(clippy::unwrap_used)]

mod blocks;
mod parity;
mod scrub;
mod stores;
