//! `tonearm sqlite`: copies databases into a store and out of it, and starts a shell on them.

mod local;
mod shell;

use self::local::LocalDatabase;
use super::files::copy::{Copying, Stop};
use super::files::{copy_out, damage_counts, name_of, open, report_copy};
use crate::cli::{CopyOut, Sqlite, SqliteAction, SqliteImport};
use anyhow::bail;
use std::process::ExitCode;
use tonearm_store::files::{FileId, Files, FilesErrorKind, Open};

/// Carries out the command.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Sqlite) -> anyhow::Result<ExitCode> {
    match arguments.action {
        SqliteAction::Import(arguments) => import(&arguments),
        SqliteAction::Export(arguments) => damage_counts(export(&arguments.copy)),
        SqliteAction::Shell(arguments) => shell::run(&arguments),
    }
}

fn import(arguments: &SqliteImport) -> anyhow::Result<ExitCode> {
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => name_of(&arguments.file)?,
    };
    let source = LocalDatabase::open(&arguments.file)?;
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    // A log that belongs to another database of this name would be taken for a log of the new one.
    refuse_leftovers(&*files, &name)?;
    let copying = Copying {
        name: &name,
        total: Some(source.bytes()),
        replace: arguments.force,
        stop: &stop,
    };
    let bytes = copying.write(&*files, source.content())?;
    let shown = arguments.file.display().to_string();
    let done = format!("{shown} -> {name}");
    report_copy(arguments.store.json, &done, &name, &shown, bytes)?;
    Ok(ExitCode::SUCCESS)
}

fn export(arguments: &CopyOut) -> anyhow::Result<()> {
    copy_out(arguments, |files, file, name| {
        check_content(files, file, name)?;
        refuse_leftovers(files, name)
    })
}

/// Whether the file holds a database.
fn check_content(files: &dyn Files, file: FileId, name: &str) -> anyhow::Result<()> {
    let mut header = [0; local::HEADER_BYTES];
    let got = files.read(file, None, 0, &mut header)?;
    if let Err(why) = local::Header::parse(&header[..got]) {
        bail!("{name} {why}; `tonearm files get` copies any file");
    }
    Ok(())
}

/// Refuses a database beside which a log or journal lies in the store.
fn refuse_leftovers(files: &dyn Files, name: &str) -> anyhow::Result<()> {
    for suffix in ["wal", "journal"] {
        let beside = format!("{name}-{suffix}");
        let size = match files.open(&beside, Open::default()) {
            Ok(file) => {
                let size = files.size(file, None);
                files.close(file);
                size?
            }
            Err(error) if error.kind == FilesErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        if size > 0 {
            bail!(
                "{beside} in the store holds changes of {name} that are not in it yet; open it with `tonearm \
                 sqlite shell` and run PRAGMA wal_checkpoint(TRUNCATE), or remove {beside} to give them up"
            );
        }
    }
    Ok(())
}
