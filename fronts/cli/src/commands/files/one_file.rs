//! Opens the files of a store, copies one of them out, and reports the copy.

use super::copy::{self, Bar, Stop};
use super::place::Place;
use crate::cli::{CopyOut, StoreArgs};
use crate::commands::exit_code::DAMAGED;
use anyhow::Context;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tonearm_store::files::{FileId, Files, FilesError, FilesErrorKind};
use tonearm_terminal::{report, size};

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
    copy_file(&*open(&arguments.store)?, arguments, check)
}

/// As [`copy_out`], of a store that is open.
///
/// # Errors
/// As for [`copy_out`].
pub fn copy_file(
    files: &dyn Files,
    arguments: &CopyOut,
    check: impl FnOnce(&dyn Files, FileId, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = &arguments.name;
    let place = Place::find(arguments.file.as_deref(), name, arguments.force)?;
    let stop = Stop::on_signals()?;
    let file = copy::open_shared(files, name)?;
    check(files, file, name)?;
    let mut target = place.begin()?;
    let mut bar = Bar::new(files.size(file, None)?);
    let bytes = copy::read(files, file, name, &mut target, &stop, &mut bar)?;
    drop(bar);
    match target.finish()? {
        Some(path) => {
            let done = format!("{name} -> {path}");
            report_copy(arguments.store.json, &done, name, &path, bytes)
        }
        None => Ok(()),
    }
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
