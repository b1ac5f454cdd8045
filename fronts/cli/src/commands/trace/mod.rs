//! `tonearm trace`.

mod file;
mod line;
mod order;
mod record;

use crate::cli::{Trace, TraceAction};
use std::process::ExitCode;

/// Carries out the subcommand.
///
/// # Errors
/// The error has the text for the user.
pub fn run(arguments: Trace) -> anyhow::Result<ExitCode> {
    match arguments.action {
        TraceAction::Record(arguments) => record::run(arguments),
    }
}
