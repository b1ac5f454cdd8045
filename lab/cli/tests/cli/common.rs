//! A folder of its own for each test, and the command run in it.

use tonearm_command_rig::Program;

pub use tonearm_command_rig::{Bench, contains};

const TONEARM_LAB: Program = Program {
    name: "tonearm-lab",
    path: env!("CARGO_BIN_EXE_tonearm-lab"),
};

/// An empty folder.
pub fn bench() -> Bench {
    Bench::new(TONEARM_LAB)
}
