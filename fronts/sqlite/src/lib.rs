//! SQLite on a Tonearm store: the VFS `tonearm`.
//!
//! A database is a file in a store, and a transaction is one atomic recovery unit, so no journal is written and
//! nothing is rolled back after a crash, whatever the journal mode. How to use it, and what is promised:
//! `docs/sqlite.md`. As a loadable extension (`libtonearm_sqlite.so`) it needs nothing else; a program in which
//! SQLite is linked calls [`register`], and names databases `file:app.db?vfs=tonearm&store=/path/store.tn`.

mod api;
mod database;
mod extension;
mod failure;
mod ffi;
mod file;
mod journal;
mod main_db;
mod names;
mod pragma;
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

/// Registers the VFS with the SQLite that is linked into this program; as the default one when `make_default` says so.
/// Again is harmless.
///
/// # Errors
/// When that SQLite is too old, or has no VFS of its own.
pub fn register(make_default: bool) -> Result<(), RegisterError> {
    vfs::register(api::Host::linked(), make_default).map_err(RegisterError)
}

/// Has connections find `files` under the store path `path`, until [`withdraw`]: for a program that has the store open
/// already, or holds files elsewhere.
pub fn provide(path: &str, files: Arc<dyn Files>) {
    stores::provide(path, files);
}

/// Takes back what was provided as `path`. Connections that are open keep it.
pub fn withdraw(path: &str) {
    stores::withdraw(path);
}

/// Text of the last error of the VFS in this thread, for programs that do not read SQLite's error log. Empty when
/// there was none.
pub fn last_error() -> String {
    failure::last()
}
