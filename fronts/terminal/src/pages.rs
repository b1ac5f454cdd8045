//! Manual pages and completion scripts, made from the definition of a command line.

use anyhow::Context;
use clap::{Args, Command};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct Completions {
    /// For which shell
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub struct Man {
    /// Write one page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Prints the completion script of `command`.
///
/// # Errors
/// When standard output cannot be written.
pub fn completions(mut command: Command, arguments: &Completions) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of `command`, or writes those of all its subcommands, too.
///
/// # Errors
/// When they cannot be written.
pub fn man(mut command: Command, arguments: &Man) -> anyhow::Result<ExitCode> {
    command.build();
    match &arguments.out {
        None => std::io::stdout().lock().write_all(&page(command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make folder {}", folder.display()))?;
            let name = command.get_name().to_string();
            write_all(folder, &name, command)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(folder: &Path, name: &str, command: Command) -> anyhow::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        let name = format!("{name}-{}", subcommand.get_name());
        write_all(folder, &name, subcommand.clone())?;
    }
    // The page's name must outlive the command, for the life of the program.
    let title: &'static str = String::leak(name.to_string());
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, page(command.name(title))?)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
