//! One file for each command.

mod archive;
mod attach;
mod bench;
mod check;
mod checkpoint;
mod create;
mod exec;
mod exit_code;
mod files;
mod grow;
mod info;
mod member;
mod mount;
mod mount_helper;
mod relayout;
mod restore;
mod scrub;
mod serve;
mod sqlite;
mod stats;
mod trace;
mod volume;
mod wait;

pub use self::mount_helper::mount_helper;

use crate::cli::{Cli, Command};
use clap::CommandFactory;
use std::process::ExitCode;
use tonearm_terminal::pages;

/// Carries out the command.
///
/// # Errors
/// The error has the text for the user.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Create(arguments) => create::run(arguments),
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Mount(arguments) => mount::run(*arguments),
        Command::Attach(arguments) => attach::run(*arguments),
        Command::Detach(arguments) => attach::detach(&arguments),
        Command::Devices(arguments) => attach::list(&arguments),
        Command::Exec(arguments) => exec::run(&arguments),
        Command::Volume(arguments) => volume::run(arguments),
        Command::Grow(arguments) => grow::run(arguments),
        Command::Files(arguments) => files::run(arguments),
        Command::Sqlite(arguments) => sqlite::run(arguments),
        Command::Member(arguments) => member::run(arguments),
        Command::Relayout(arguments) => relayout::run(&arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Scrub(arguments) => scrub::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Checkpoint(arguments) => checkpoint::run(arguments),
        Command::Wait(arguments) => wait::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Archive(arguments) => archive::run(arguments),
        Command::Mark(arguments) => archive::mark(&arguments),
        Command::History(arguments) => restore::history(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Completions(arguments) => pages::completions(Cli::command(), &arguments),
        Command::Man(arguments) => pages::man(Cli::command(), &arguments),
    }
}
