//! `tonearm-lab drive`: simulated drives from the command line.

mod answer_file;
mod bench;
mod deltas;
mod list;
mod replay;
mod run;
mod show;
mod switched;
mod times;
mod trace_file;
mod validate;

pub use times::{cpu_seconds, exact_ms};

use crate::cli::{Drive as Arguments, DriveAction};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        DriveAction::List(arguments) => list::run(&arguments),
        DriveAction::Show(arguments) => show::run(&arguments),
        DriveAction::Bench(arguments) => bench::run(&arguments),
        DriveAction::Deltas(arguments) => deltas::run(&arguments),
        DriveAction::Replay(arguments) => replay::run(&arguments),
        DriveAction::Validate(arguments) => validate::run(&arguments),
    }
}
