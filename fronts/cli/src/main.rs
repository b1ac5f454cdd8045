//! The `tonearm` command: makes stores, serves their volumes over NBD, mounts their file system, and maintains them.
//!
//! Invariants:
//! 1. Standard output carries results alone; progress, notes and errors go to standard error.
//! 2. An error is one line: what, where, what to do. Exit codes: 0 done, 1 failed, 2 usage,
//!    3 damage found; `wait` also has 4 and 5, and `exec` has those of its command.
//! 3. A command that only reads never changes a store.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod control;
mod opening;
mod serve;
mod vacancy;

#[cfg(test)]
mod reference_test;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// With the C library's allocator, a tenth of the engine's time went into it (4-KiB writes at depth 32).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = commands::mount_helper() {
        return code;
    }
    tonearm_terminal::run("tonearm", commands::run)
}
