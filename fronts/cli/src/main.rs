//! The `tonearm` command: makes stores, serves their volumes over NBD, and looks after them.
//!
//! Invariants:
//! 1. Standard output carries results alone; progress, notes and errors go to standard error.
//! 2. An error is one line: what, where, what to do. Exit codes: 0 done, 1 failed, 2 usage,
//!    3 damage found.
//! 3. A command that only looks never changes a store.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod control;
mod opening;
mod progress;
mod report;
mod serve;
mod size;

use clap::Parser;
use mimalloc::MiMalloc;
use std::io::ErrorKind;
use std::process::ExitCode;

/// A tenth of the engine's time went into the C library's allocator (4-KiB writes at depth 32).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = cli::Cli::parse();
    match commands::run(arguments) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Whoever read the results has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
