//! The contenders: each is a VFS with the two pragmas that decide what a commit costs.

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
    /// Tonearm's store. A transaction is a batch atomic write.
    Store,
    /// Tonearm's store without batch atomic writes. SQLite makes the same calls as when it is compiled without them, as
    /// Debian's is.
    StoreWithoutBatches,
}

/// A configuration of SQLite.
pub struct Contender {
    /// Name on the command line and in tables.
    pub name: &'static str,
    /// Description.
    pub title: &'static str,
    /// Where the database lies.
    pub place: Place,
    journal_mode: &'static str,
    synchronous: &'static str,
}

/// What a contender guarantees when a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The commit is durable.
    Durable,
    /// The commit is atomic, and becomes durable a little later.
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

/// All contenders.
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

/// Tonearm with durable commits.
pub const TONEARM_FULL: &str = "tonearm-full";
/// Tonearm with commits that become durable a little later.
pub const TONEARM_NORMAL: &str = "tonearm-normal";
/// The peer with durable commits that cost one write and one flush each.
pub const WAL_FULL: &str = "wal-full";
/// SQLite's default.
pub const DELETE_FULL: &str = "delete-full";
/// The peer with commits that become durable a little later.
pub const WAL_NORMAL: &str = "wal-normal";

/// Longest wait of a connection for the lock of another one.
const BUSY: Duration = Duration::from_secs(60);

impl Contender {
    /// True for a contender that uses Tonearm.
    pub fn is_ours(&self) -> bool {
        self.place != Place::File
    }

    /// What a commit guarantees.
    pub fn promise(&self) -> Promise {
        match self.synchronous {
            "FULL" => Promise::Durable,
            _ => Promise::Ordered,
        }
    }

    /// Connects to database `name`: a file in `dir`, or a file of the store there.
    ///
    /// # Errors
    /// When the database cannot be opened, or SQLite rejects a pragma.
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

/// Name of the store in its folder.
pub const STORE: &str = "bench.tn";
