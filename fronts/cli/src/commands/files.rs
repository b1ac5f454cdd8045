//! `tonearm files`: works through the server when the store is served, otherwise in process.

pub mod copy;
pub mod place;

use self::copy::{Copying, Stop};
use self::place::Place;
use super::DAMAGED;
use crate::cli::{
    CopyOut, Files as Arguments, FilesAction, FilesList, FilesPut, FilesRm, StoreArgs,
};
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tonearm_store::files::{FileId, FileInfo, Files, FilesError, FilesErrorKind, Level, Open};
use tonearm_terminal::{report, size};

/// Carries out the command.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        FilesAction::List(arguments) => list(&arguments),
        FilesAction::Get(arguments) => damage_counts(copy_out(&arguments.copy, |_, _, _| Ok(()))),
        FilesAction::Put(arguments) => put(&arguments),
        FilesAction::Rm(arguments) => rm(&arguments),
    }
}

/// The files of a store, for this command.
///
/// # Errors
/// When it can neither be opened nor reached through a server.
pub fn open(store: &StoreArgs) -> anyhow::Result<Arc<dyn Files>> {
    let options = tonearm_store::StoreOptions {
        members: (&store.members).into(),
        // A command is short, and its user waits for it.
        server_wait: Duration::ZERO,
        ..Default::default()
    };
    Ok(tonearm_store::open_files(&store.path, options)?)
}

/// Gives damage an exit code of its own.
///
/// # Errors
/// Any other error of `result`.
pub fn damage_counts(result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => match error.downcast_ref::<FilesError>() {
            Some(cause) if cause.kind == FilesErrorKind::Damaged => {
                report::complain(&error);
                Ok(ExitCode::from(DAMAGED))
            }
            _ => Err(error),
        },
    }
}

#[derive(Serialize)]
struct List {
    files: Vec<FileInfo>,
}

fn list(arguments: &FilesList) -> anyhow::Result<ExitCode> {
    let files = open(&arguments.store)?.list()?;
    if arguments.store.json {
        report::json(&List { files })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = report::table(&["file", "size", "bytes", "made"]);
    for file in &files {
        table.add_row([
            file.name.as_str(),
            &size::text(file.size_bytes),
            &report::count(file.size_bytes),
            &report::date(file.created_unix_s),
        ]);
    }
    report::align_right(&mut table, 1..3);
    report::line(table)?;
    Ok(ExitCode::SUCCESS)
}

/// What was copied, in JSON.
#[derive(Serialize)]
struct Copied<'a> {
    name: &'a str,
    path: String,
    size_bytes: u64,
}

/// Reports a copy that is done, but not on standard output when the copy went there.
///
/// # Errors
/// When standard output is closed.
pub fn report_copy(
    json: bool,
    done: &str,
    name: &str,
    path: &str,
    bytes: u64,
) -> anyhow::Result<()> {
    if json {
        let path = path.to_string();
        return report::json(&Copied {
            name,
            path,
            size_bytes: bytes,
        });
    }
    Ok(report::line(format_args!("{done}; {}", size::text(bytes)))?)
}

/// Copies a file out of the store if `check` accepts it, and reports the copy.
///
/// # Errors
/// When there is no such file, it cannot be read, or the copy not written; errors of `check`.
pub fn copy_out(
    arguments: &CopyOut,
    check: impl FnOnce(&dyn Files, FileId, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = &arguments.name;
    let place = Place::find(arguments.file.as_deref(), name, arguments.force)?;
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    let file = copy::open_shared(&*files, name)?;
    check(&*files, file, name)?;
    let mut target = place.begin()?;
    let bytes = copy::read(&*files, file, name, &mut target, &stop)?;
    match target.finish()? {
        Some(path) => {
            let done = format!("{name} -> {path}");
            report_copy(arguments.store.json, &done, name, &path, bytes)
        }
        None => Ok(()),
    }
}

fn put(arguments: &FilesPut) -> anyhow::Result<ExitCode> {
    let path = &arguments.file;
    if path.is_dir() {
        bail!(
            "{} is a folder; put its files one by one, or a tar of it",
            path.display()
        );
    }
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None if path == Path::new("-") => {
            bail!("standard input has no name; give one: --name NAME")
        }
        None => name_of(path)?,
    };
    let (source, total): (Box<dyn std::io::Read>, _) = if path == Path::new("-") {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let cannot = || format!("cannot read {}", path.display());
        let file = std::fs::File::open(path).with_context(cannot)?;
        let about = file.metadata().with_context(cannot)?;
        (Box::new(file), about.is_file().then_some(about.len()))
    };
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    let copying = Copying {
        name: &name,
        total,
        replace: arguments.force,
        stop: &stop,
    };
    let bytes = copying.write(&*files, source)?;
    let (json, shown) = (arguments.store.json, path.display().to_string());
    report_copy(json, &format!("{shown} -> {name}"), &name, &shown, bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// The name of a file without its folder.
///
/// # Errors
/// When it has no name, or one that is not text.
pub fn name_of(path: &Path) -> anyhow::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| {
        let shown = path.display();
        format!("{shown} has no name that can be one in the store; give one: --name NAME")
    })?;
    Ok(name.to_string())
}

#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
}

fn rm(arguments: &FilesRm) -> anyhow::Result<ExitCode> {
    let files = open(&arguments.store)?;
    let mut names = arguments.names.clone();
    names.sort();
    names.dedup();
    // All files are opened first, so that no file is removed when one cannot be.
    for name in &names {
        let file = files.open(name, Open::default())?;
        copy::lock(&*files, file, name, Level::Exclusive)?;
    }
    for name in &names {
        files.delete(name)?;
        if !arguments.store.json {
            report::line(format_args!("removed {name}"))?;
        }
    }
    files.flush()?;
    if arguments.store.json {
        report::json(&Removed { removed: names })?;
    }
    Ok(ExitCode::SUCCESS)
}
