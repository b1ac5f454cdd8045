//! A program from its arguments to its exit code.

use crate::report;
use clap::Parser;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::OnceLock;

static NAME: OnceLock<&'static str> = OnceLock::new();

/// The program's name, which begins each line of standard error.
pub(crate) fn name() -> &'static str {
    NAME.get().copied().unwrap_or("tonearm")
}

/// Reads the command line of the program `name` and runs the command.
pub fn run<C: Parser>(
    name: &'static str,
    command: impl FnOnce(C) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    // The name is set only here.
    let _ = NAME.set(name);
    match command(C::parse()) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// True when the reader of the results has closed the pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
