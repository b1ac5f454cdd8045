//! `tonearm man`.

use crate::cli::{Cli, Man};
use anyhow::Context;
use clap::CommandFactory;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the page, or writes all of them.
///
/// # Errors
/// When they cannot be written.
pub fn run(arguments: &Man) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    match &arguments.out {
        None => std::io::stdout().lock().write_all(&page(command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make folder {}", folder.display()))?;
            write_all(folder, "tonearm", command)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(folder: &Path, name: &str, command: clap::Command) -> anyhow::Result<()> {
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

fn page(command: clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
