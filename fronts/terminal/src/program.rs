//! A program from its arguments to its exit code.

use crate::report;
use clap::builder::StyledStr;
use clap::{Command, Parser};
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
    match command(parse()) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line.
fn parse<C: Parser>() -> C {
    let mut known = unwrapped(C::command());
    let mut matches = known.clone().get_matches();
    C::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut known).exit())
}

/// A command, and those below it, whose texts of several lines are wrapped by the terminal alone. The lines of a paragraph in the
/// source would be wrapped again where the terminal is narrower.
fn unwrapped(command: Command) -> Command {
    let text = |text: Option<&StyledStr>| text.map(|text| joined(&text.to_string()));
    let (about, after) = (
        text(command.get_long_about()),
        text(command.get_after_help()),
    );
    let command = command.mut_subcommands(unwrapped);
    let command = match about {
        Some(about) => command.long_about(about),
        None => command,
    };
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

/// The text with the lines of each paragraph joined. Indented lines, such as examples, stay.
fn joined(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut() {
            Some(last) if is_prose(last) && !last.ends_with(':') && is_prose(line) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// True when the reader of the results has closed the pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
#[path = "program_test.rs"]
mod program_test;
