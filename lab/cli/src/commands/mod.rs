//! One file or folder for each command.

mod calibrate;
mod cost;
mod drive;
mod lab;
mod output;
mod study;
mod workload;

use crate::cli::{Cli, Command};
use clap::CommandFactory;
use std::process::ExitCode;
use tonearm_terminal::pages;

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Drive(arguments) => drive::run(arguments),
        Command::Calibrate(arguments) => calibrate::run(arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Workload(arguments) => workload::run(arguments),
        Command::Completions(arguments) => pages::completions(Cli::command(), &arguments),
        Command::Man(arguments) => pages::man(Cli::command(), &arguments),
    }
}
