//! Tools for the end-to-end tests: a folder and servers that end with their test, programs of the system with a time
//! limit, and a small NBD client that knows exactly what was acknowledged.
//!
//! No test is skipped silently. A missing program fails the test and names its Debian package. A test that the machine
//! cannot run prints a line that says so, and fails where `CI=true`.

mod bench;
pub mod console;
pub mod debian;
pub mod guest;
pub mod mount;
pub mod nbd;
mod postgres;
pub mod recipe;
pub mod s3;
mod server;
pub mod sqlite;
pub mod stamp;
mod tool;
mod tree_mount;

pub use bench::{Bench, binary, extension};
pub use postgres::Postgres;
pub use server::{Server, wait_until};
pub use tonearm_command_rig::contains;
pub use tool::{Background, Ran, built_tool, require, skipped, tool};
pub use tree_mount::TreeMount;

/// One MiB.
pub const MIB: u64 = 1 << 20;
/// One GiB.
pub const GIB: u64 = 1 << 30;
/// One TiB.
pub const TIB: u64 = 1 << 40;

/// Arguments of `create` for each layout of the home.
pub const LAYOUTS: [&[&str]; 3] = [&[], &["--layout", "segments"], &["--layout", "hylog"]];

/// Number of kills of a test: `TONEARM_KILL_ROUNDS`, or `usual`.
pub fn kill_rounds(usual: u64) -> u64 {
    let text = std::env::var("TONEARM_KILL_ROUNDS").ok();
    text.map_or(usual, |text| {
        text.parse().expect("TONEARM_KILL_ROUNDS is a number")
    })
}

/// Pseudorandom bytes, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // SplitMix64 (Steele, Lea and Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Content of block `number`, which differs between blocks.
pub fn text_block(number: u64) -> Vec<u8> {
    format!("block {number:09} ").into_bytes().repeat(256)
}
