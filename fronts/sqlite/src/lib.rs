//! SQLite on a Tonearm store: the VFS `tonearm`.
//!
//! A database is a file in a store, and a transaction is one atomic recovery unit. So no journal is written and nothing
//! is rolled back after a crash, whatever the journal mode. `docs/sqlite.md` says how to use the VFS, and what it
//! promises. As a loadable extension (`libtonearm_sqlite.so`) it needs no other library. A program that links SQLite
//! calls [`register`], and names databases `file:app.db?vfs=tonearm&store=/path/store.tn`.

mod api;
mod archive;
mod database;
mod extension;
mod failure;
mod ffi;
mod file;
mod journal;
mod main_db;
mod names;
mod pragma;
mod renewal;
mod shm;
mod stores;
mod transaction;
mod vfs;
mod wal;

use std::sync::Arc;
use tonearm_store::files::Files;

/// Why the VFS cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegisterError(String);

/// Registers the VFS with the SQLite that is linked into this program, as the default VFS if `make_default`. A second
/// call changes nothing else.
///
/// # Errors
/// When that SQLite is too old, or has no VFS of its own.
pub fn register(make_default: bool) -> Result<(), RegisterError> {
    vfs::register(api::Host::linked(), make_default).map_err(RegisterError)
}

/// Makes connections find `files` under the store path `path`, until [`withdraw`]. For a program that has the store
/// open already, or keeps files elsewhere.
pub fn provide(path: &str, files: Arc<dyn Files>) {
    stores::provide(path, files);
}

/// Takes back what was provided as `path`. Connections that are open keep it.
pub fn withdraw(path: &str) {
    stores::withdraw(path);
}

/// Text of the last error of the VFS in this thread, for programs that do not read SQLite's error log. Empty when there
/// was no error.
pub fn last_error() -> String {
    failure::last()
}
