//! Stores over arrays, with a power cut at every I/O: the parity (`parity.rs`), and the state of the array, with members
//! that fail, stay away and come back (`stores.rs`), are replaced while the store is in use (`replace.rs`), or return wrong
//! content (`scrub.rs`).

#![allow(clippy::unwrap_used)]

mod blocks;
mod parity;
mod replace;
mod scrub;
mod stores;
