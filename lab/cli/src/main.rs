//! The `tonearm-lab` command: simulated drives, calibration of real ones, and experiments.
//!
//! Invariants:
//! 1. Standard output has only results; progress, notes and errors go to standard error.
//! 2. An error is one line: what, where, what to do. Exit codes: 0 done, 1 failed, 2 usage.
//! 3. Only `calibrate --allow-destroy` writes to a device.

#![forbid(unsafe_code)]

mod cli;
mod commands;

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// `drive bench` is measured with it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    tonearm_terminal::run("tonearm-lab", commands::run)
}
