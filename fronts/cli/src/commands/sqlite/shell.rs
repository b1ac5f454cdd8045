//! `tonearm sqlite shell`: starts sqlite3 with the extension, or prints how other programs open the database.
//!
//! Invariant: a shell that has written nothing leaves no file in the store. It does not delete one at its end, because other
//! programs may have the database open by then; the VFS makes the file when the shell writes (`create=late`).

use crate::cli::SqliteShell;
use anyhow::{Context, bail};
use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use tonearm_store::StoreOptions;
use tonearm_store::files::{Files, FilesErrorKind};
use tonearm_terminal::report;

/// The extension's file.
const EXTENSION: &str = "libtonearm_sqlite.so";

/// Ends a shell whose `.open` has failed: it would go on with a database in memory, which has no file.
const GUARD: &str = "CREATE TEMP TABLE opened(file CONSTRAINT \"the database could not be opened\" CHECK (file <> ''));
    INSERT INTO opened SELECT file FROM pragma_database_list WHERE name = 'main'; DROP TABLE opened";

/// Replaces this process by sqlite3, or prints.
///
/// # Errors
/// When there is no store, no extension, or no sqlite3.
pub fn run(arguments: &SqliteShell) -> anyhow::Result<ExitCode> {
    let store = text(&absolute(&arguments.path)?)?;
    let extension = text(&extension(arguments.extension.as_deref())?)?;
    let uri = uri(&store, &arguments.name);
    if arguments.print {
        report::line(lesson(&extension, &uri))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shell = Command::new("sqlite3");
    shell.arg("-bail");
    // Only the log says why a database cannot be opened. Later the log would repeat each error.
    for line in [
        &load(&extension),
        ".log stderr",
        &open(&late(&uri)),
        ".log off",
        GUARD,
    ] {
        shell.args(["-cmd", line]);
    }
    shell.arg(":memory:").args(&arguments.sql);
    // The reason why a store cannot be opened comes from here, in one line.
    check(&arguments.path, &arguments.name)?;
    Err(not_run(&shell.exec()))
}

fn not_run(error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => anyhow::anyhow!(
            "sqlite3 is not installed (Debian: apt-get install sqlite3); --print tells what to type or write in \
             another program"
        ),
        _ => anyhow::anyhow!("cannot run sqlite3: {error}"),
    }
}

/// Opens the store as the shell will.
fn files_of(store: &Path) -> anyhow::Result<Arc<dyn Files>> {
    let options = StoreOptions {
        server_wait: Duration::ZERO,
        ..StoreOptions::default()
    };
    Ok(tonearm_store::open_files(store, options)?)
}

/// Looks for what would keep the shell from opening the database.
///
/// # Errors
/// When the store cannot be opened, or the directory of the database is missing.
fn check(store: &Path, name: &str) -> anyhow::Result<()> {
    let files = files_of(store)?;
    let Some((folder, _)) = name.rsplit_once('/') else {
        return Ok(());
    };
    match files.look(folder) {
        Err(error) if error.kind == FilesErrorKind::NotFound => {
            bail!("there is no directory for {name:?}; make it with `tonearm files mkdir`")
        }
        looked => Ok(looked.map(drop)?),
    }
}

fn absolute(store: &Path) -> anyhow::Result<PathBuf> {
    let found = store.canonicalize();
    found.with_context(|| format!("{} cannot be reached; check the path", store.display()))
}

/// Requires a path that is text, because it goes into SQL, URIs and programs.
fn text(path: &Path) -> anyhow::Result<String> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(char::is_control));
    let text = text.with_context(|| {
        format!(
            "{} is no text that sqlite3 could be told; use another path",
            path.display()
        )
    })?;
    Ok(text.to_string())
}

/// The place of the extension: as given, else beside this program, else in `../lib/tonearm`.
fn extension(told: Option<&Path>) -> anyhow::Result<PathBuf> {
    let found = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    if let Some(told) = told {
        return found(told).with_context(|| format!("there is no file {}", told.display()));
    }
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let folder = tonearm_store::folder_of(&program);
    let places = [
        folder.join(EXTENSION),
        folder.join("../lib/tonearm").join(EXTENSION),
    ];
    places.iter().find_map(|place| found(place)).with_context(|| {
        format!(
            "{EXTENSION} is neither in {} nor in ../lib/tonearm from there; build it with `cargo build --release -p \
             tonearm-sqlite`, or name it with --extension",
            folder.display()
        )
    })
}

/// The database's name for SQLite.
fn uri(store: &str, name: &str) -> String {
    format!("file:{}?vfs=tonearm&store={}", escape(name), escape(store))
}

/// The name of a database whose file is made when something is written to it: the name may be a mistake.
fn late(uri: &str) -> String {
    format!("{uri}&create=late")
}

/// Escapes characters that have a meaning in a URI, or in the texts that contain the URI.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'-'
            | b'_'
            | b'~'
            | b'+'
            | b','
            | b':'
            | b'@' => {
                escaped.push(char::from(byte));
            }
            // Writing to a String cannot fail.
            _ => write!(escaped, "%{byte:02x}").unwrap_or_default(),
        }
    }
    escaped
}

/// A command of the shell: its words may be quoted, with the escapes of C.
fn load(extension: &str) -> String {
    format!(".load {}", quote(extension))
}

fn open(uri: &str) -> String {
    format!(".open {}", quote(uri))
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The commands and programs to print.
fn lesson(extension: &str, uri: &str) -> String {
    let (load, open) = (load(extension), open(uri));
    let (extension, uri) = (quote(extension), quote(uri));
    format!(
        "\
sqlite3
  {load}
  {open}

Python
  import sqlite3
  loader = sqlite3.connect(\":memory:\")
  loader.enable_load_extension(True)
  loader.load_extension({extension})   # once in a process
  db = sqlite3.connect({uri}, uri=True)

C (link with -lsqlite3)
  sqlite3 *loader, *db;
  sqlite3_open(\":memory:\", &loader);
  sqlite3_enable_load_extension(loader, 1);
  sqlite3_load_extension(loader, {extension}, 0, 0);   /* once in a process */
  sqlite3_open_v2({uri}, &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0);"
    )
}

#[cfg(test)]
#[path = "shell_test.rs"]
mod shell_test;
