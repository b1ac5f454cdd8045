//! `tonearm sqlite`: databases in a store from the command line.

use crate::cli::{CopyOut, StoreArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tonearm sqlite`.
#[derive(Args, Debug)]
#[command(after_help = "\
SQLite works on databases in a store by the extension libtonearm_sqlite.so: a transaction is one
atomic recovery unit, so no journal is written. Any program with SQLite can use it:

  tonearm sqlite shell disk.tonearm app.db --print     what to type, or write into a program

Examples:
  tonearm sqlite import disk.tonearm app.db            the database app.db into the store
  tonearm sqlite shell disk.tonearm app.db             sqlite3 on it
  tonearm sqlite export disk.tonearm app.db copy.db    and out again
  tonearm files list disk.tonearm                      databases are files of the store

One program at a time opens a store by itself. For several, serve it: `tonearm serve disk.tonearm`;
then the same commands and programs go through the server.")]
pub struct Sqlite {
    /// What to do.
    #[command(subcommand)]
    pub action: SqliteAction,
}

/// The subcommands of `tonearm sqlite`.
#[derive(Subcommand, Debug)]
pub enum SqliteAction {
    /// Copy a database into the store, atomically
    Import(SqliteImport),
    /// Copy a database out of the store, as it was after some transaction
    Export(SqliteExport),
    /// Start sqlite3 on a database in the store, or print how a program opens it
    Shell(SqliteShell),
}

/// `tonearm sqlite import`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm sqlite import disk.tonearm app.db
  tonearm sqlite import disk.tonearm /var/lib/app/app.db --name live.db

The database must be at rest: no program has it open, and neither a journal that would be rolled
back nor a write-ahead log that is not in the database yet lies beside it. Otherwise nothing is
imported, and the error says what to do. The copy is one atomic recovery unit, and durable on
return; the original stays.")]
pub struct SqliteImport {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The database file to copy
    #[arg(value_name = "DATABASE")]
    pub file: PathBuf,
    /// Name in the store [default: the file's own]
    #[arg(long)]
    pub name: Option<String>,
    /// Replace the database of that name when there is one and nobody uses it
    #[arg(long)]
    pub force: bool,
}

/// `tonearm sqlite export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm sqlite export disk.tonearm app.db
  tonearm sqlite export disk.tonearm app.db /backup/app.db --force
  tonearm sqlite export disk.tonearm app.db - | xz > app.db.xz

The copy is consistent: writers wait while it is made, with SQLite's shared lock, and readers do
not. Every block is verified against its checksum. Refused while a transaction is being
committed (try again), and while changes are in a write-ahead log.")]
pub struct SqliteExport {
    /// What, and where to.
    #[command(flatten)]
    pub copy: CopyOut,
}

/// `tonearm sqlite shell`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm sqlite shell disk.tonearm app.db
  tonearm sqlite shell disk.tonearm app.db 'SELECT count(*) FROM t'
  tonearm sqlite shell disk.tonearm app.db --print
        what to type in sqlite3, and to write in Python and in C, instead

The database is made when there is none; it is not kept if nothing was written to it. The
extension libtonearm_sqlite.so is looked for beside this program, then in ../lib/tonearm from there.")]
pub struct SqliteShell {
    /// The store's primary file or block device
    #[arg(value_name = "STORE")]
    pub path: PathBuf,
    /// Name of the database in the store
    pub name: String,
    /// Run these and end, instead of asking for commands
    #[arg(value_name = "SQL")]
    pub sql: Vec<String>,
    /// The extension, when it lies elsewhere
    #[arg(long, value_name = "FILE")]
    pub extension: Option<PathBuf>,
    /// Only print the commands for sqlite3, Python and C
    #[arg(long)]
    pub print: bool,
}
