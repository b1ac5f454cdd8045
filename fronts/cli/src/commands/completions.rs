//! `tonearm completions`.

use crate::cli::{Cli, Completions};
use clap::CommandFactory;
use std::io::Write;
use std::process::ExitCode;

/// Prints the script.
///
/// # Errors
/// When nobody reads it.
pub fn run(arguments: &Completions) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tonearm", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
