//! Who takes part: a VFS and the two pragmas that decide what a commit costs.

use crate::target::PROVIDED;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Where the database lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A file of the file system.
    File,
    /// Tonearm's store; a transaction is a batch.
    Store,
    /// Tonearm's store, which does not say that it takes batches: the calls are those of a SQLite that was
    /// compiled without them, as Debian's is.
    StoreWithoutBatches,
}

/// A way to run SQLite.
pub struct Contender {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Where its database lies.
    pub place: Place,
    journal_mode: &'static str,
    synchronous: &'static str,
}

/// What a contender promises when a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// It is durable.
    Durable,
    /// It is atomic, and durable a little later.
    Ordered,
}

const fn file(
    name: &'static str,
    title: &'static str,
    journal_mode: &'static str,
    synchronous: &'static str,
) -> Contender {
    Contender {
        name,
        title,
        place: Place::File,
        journal_mode,
        synchronous,
    }
}

const fn store(
    name: &'static str,
    title: &'static str,
    place: Place,
    synchronous: &'static str,
) -> Contender {
    Contender {
        name,
        title,
        place,
        // SQLite's default.
        journal_mode: "DELETE",
        synchronous,
    }
}

/// All of them.
pub const CONTENDERS: &[Contender] = &[
    store(
        TONEARM_FULL,
        "Tonearm's VFS, default journal mode, synchronous=FULL",
        Place::Store,
        "FULL",
    ),
    store(
        "tonearm-full-plain",
        "the same for a SQLite without batch atomic writes",
        Place::StoreWithoutBatches,
        "FULL",
    ),
    file(WAL_FULL, "files, WAL, synchronous=FULL", "WAL", "FULL"),
    file(
        DELETE_FULL,
        "files, rollback journal DELETE, synchronous=FULL",
        "DELETE",
        "FULL",
    ),
    file(
        "truncate-full",
        "files, rollback journal TRUNCATE, synchronous=FULL",
        "TRUNCATE",
        "FULL",
    ),
    file(
        "persist-full",
        "files, rollback journal PERSIST, synchronous=FULL",
        "PERSIST",
        "FULL",
    ),
    store(
        TONEARM_NORMAL,
        "Tonearm's VFS, default journal mode, synchronous=NORMAL",
        Place::Store,
        "NORMAL",
    ),
    file(
        WAL_NORMAL,
        "files, WAL, synchronous=NORMAL",
        "WAL",
        "NORMAL",
    ),
];

/// Ours, durable.
pub const TONEARM_FULL: &str = "tonearm-full";
/// Ours, durable a little later.
pub const TONEARM_NORMAL: &str = "tonearm-normal";
/// The durable peer that pays one write and one flush.
pub const WAL_FULL: &str = "wal-full";
/// SQLite's default.
pub const DELETE_FULL: &str = "delete-full";
/// The peer that is durable a little later.
pub const WAL_NORMAL: &str = "wal-normal";

/// How long a connection waits for another's lock.
const BUSY: Duration = Duration::from_secs(60);

impl Contender {
    /// True for Tonearm's.
    pub fn is_ours(&self) -> bool {
        self.place != Place::File
    }

    /// What a commit promises.
    pub fn promise(&self) -> Promise {
        match self.synchronous {
            "FULL" => Promise::Durable,
            _ => Promise::Ordered,
        }
    }

    /// A connection to database `name`: a file of `dir`, or one of the store there.
    ///
    /// # Errors
    /// When it cannot be opened, or SQLite does not take the pragmas.
    pub fn connect(&self, dir: &Path, name: &str) -> anyhow::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.uri(dir, name), flags)?;
        connection.busy_timeout(BUSY)?;
        let mode: String = connection.query_row(
            &format!("PRAGMA journal_mode={}", self.journal_mode),
            [],
            |row| row.get(0),
        )?;
        anyhow::ensure!(
            mode.eq_ignore_ascii_case(self.journal_mode),
            "journal_mode={} became {mode}",
            self.journal_mode
        );
        connection.pragma_update(None, "synchronous", self.synchronous)?;
        Ok(connection)
    }

    fn uri(&self, dir: &Path, name: &str) -> String {
        let dir = dir.display();
        match self.place {
            Place::File => format!("file:{dir}/{name}"),
            Place::Store => format!("file:{name}?vfs=tonearm&store={PROVIDED}"),
            Place::StoreWithoutBatches => {
                format!("file:{name}?vfs=tonearm&store={PROVIDED}&batch=off")
            }
        }
    }
}

/// The store's name in its folder.
pub const STORE: &str = "bench.tn";
