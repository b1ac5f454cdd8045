//! The state that the connections of this process share of one database: the transaction of the connection that writes,
//! whether the write-ahead log is open, and the memory of the log's index.

use crate::shm::Shm;
use crate::transaction::Transaction;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The shared part of a database.
#[derive(Default)]
pub struct Database {
    /// The transaction of the handle that has the exclusive lock, from its first write on.
    writer: Mutex<Option<Arc<Transaction>>>,
    shm: Mutex<Shm>,
    wals: AtomicUsize,
}

impl Database {
    /// The transaction of the handle with the exclusive lock. Only that handle may call this.
    pub fn writer(&self) -> MutexGuard<'_, Option<Arc<Transaction>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory and locks of the index of the write-ahead log.
    pub fn shm(&self) -> MutexGuard<'_, Shm> {
        self.shm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a connection has the write-ahead log open. Then no connection writes pages with a rollback journal,
    /// because each connection with an open log holds a shared lock, or is the one with the exclusive lock.
    pub fn is_wal(&self) -> bool {
        self.wals.load(Ordering::Acquire) > 0
    }

    /// Notes that a connection opens the write-ahead log.
    pub fn open_wal(&self) {
        self.wals.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that a connection closes the write-ahead log.
    pub fn close_wal(&self) {
        self.wals.fetch_sub(1, Ordering::AcqRel);
    }

    /// SQLite looks for a journal or a write-ahead log of the database, as it does when it begins to read with an empty
    /// cache. If the exclusive lock is held, this connection holds it, after an error or after a rollback without a
    /// journal. What it has written is void then.
    pub fn begins_anew(&self) {
        if let Some(transaction) = self.writer().take() {
            transaction.abort();
        }
    }
}
