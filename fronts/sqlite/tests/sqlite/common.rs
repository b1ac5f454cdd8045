//! Databases on a store of this process.

use crate::memory::Memory;
use rusqlite::{Connection, OpenFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A store that SQLite finds as long as this value lives.
pub struct Mounted {
    pub files: Memory,
    pub path: String,
}

impl Mounted {
    pub fn new(files: Memory) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        tonearm_sqlite::register(false).unwrap();
        let path = format!("memory-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        tonearm_sqlite::provide(&path, Arc::new(files.clone()));
        Self { files, path }
    }

    pub fn empty() -> Self {
        Self::new(Memory::default())
    }

    pub fn uri(&self, name: &str) -> String {
        format!("file:{name}?vfs=tonearm&store={}", self.path)
    }

    pub fn try_open(&self, name: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(self.uri(name), flags)
    }

    pub fn open(&self, name: &str) -> Connection {
        self.try_open(name).unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tonearm_sqlite::withdraw(&self.path);
    }
}

/// One value.
pub fn get<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Everything in a database, in an order of its own.
pub fn dump(db: &Connection) -> Vec<String> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut statement = db.prepare(tables).unwrap();
    let names: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut lines = Vec::new();
    for name in names {
        let mut rows = db
            .prepare(&format!("SELECT rowid, * FROM \"{name}\" ORDER BY rowid"))
            .unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> = (0..columns)
                .map(|column| format!("{:?}", row.get_ref(column).unwrap()))
                .collect();
            lines.push(format!("{name}: {}", values.join(", ")));
        }
    }
    lines
}

pub fn assert_sound(db: &Connection) {
    assert_eq!(get::<String>(db, "PRAGMA integrity_check"), "ok");
}

/// Two connections with `app.db` in a journal mode, without a busy timeout. Its table `t` has one row.
pub fn two(store: &Mounted, journal_mode: &str) -> (Connection, Connection) {
    let first = store.open("app.db");
    first
        .execute_batch(&format!(
            "PRAGMA journal_mode = {journal_mode}; CREATE TABLE t(x); INSERT INTO t VALUES(1);"
        ))
        .unwrap();
    let second = store.open("app.db");
    for db in [&first, &second] {
        db.busy_timeout(Duration::ZERO).unwrap();
    }
    (first, second)
}
