//! Write-ahead logs, and other files that are not databases. Each write is a unit of its own, in order, and a sync
//! waits for all writes before it. SQLite's own checksums make a transaction of its frames.

use crate::database::Database;
use crate::failure::{Failure, Result};
use crate::ffi;
use crate::file::Handle;
use crate::stores::StoreRef;
use std::sync::Arc;
use tonearm_store::files::{FileId, Open};

/// An open file that is not a database.
pub struct Plain {
    store: StoreRef,
    file: FileId,
    /// For a write-ahead log: what the connections share of its database.
    database: Option<Arc<Database>>,
}

impl Plain {
    /// Opens the file `name`, which is a write-ahead log or another file that is not a database.
    ///
    /// # Errors
    /// `CANTOPEN`.
    pub fn open(store: StoreRef, name: &str, how: Open) -> Result<Self> {
        let opened = store.files().open(name, how);
        let file = opened.map_err(Failure::of(ffi::CANTOPEN))?;
        let database = name.strip_suffix("-wal").map(|name| store.database(name));
        if let Some(database) = &database {
            database.open_wal();
        }
        Ok(Self {
            store,
            file,
            database,
        })
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            database.close_wal();
        }
        self.store.files().close(self.file);
    }
}

impl Handle for Plain {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.store.files().read(self.file, None, offset, buf);
        read.map_err(Failure::of(ffi::IOERR_READ))
    }

    fn write(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let written = self.store.files().write(self.file, None, offset, data);
        written.map_err(Failure::of(ffi::IOERR_WRITE))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        let cut = self.store.files().truncate(self.file, None, size);
        cut.map_err(Failure::of(ffi::IOERR_TRUNCATE))
    }

    fn sync(&mut self) -> Result<()> {
        let flushed = self.store.files().flush();
        flushed.map_err(Failure::of(ffi::IOERR_FSYNC))
    }

    fn size(&mut self) -> Result<u64> {
        let size = self.store.files().size(self.file, None);
        size.map_err(Failure::of(ffi::IOERR_FSTAT))
    }
}
