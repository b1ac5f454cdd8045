//! Rollback journals. A transaction is one atomic recovery unit, so no journal is needed after a crash. Only the
//! connection that has written a journal reads it, to roll back a statement, a savepoint, or a transaction that has
//! spilled. So the journal lives in this process's memory, and is dropped when it is closed.

use crate::failure::{Failure, Result};
use crate::ffi;
use crate::file::Handle;
use crate::names;
use crate::stores::StoreRef;
use std::io::{Read, Seek, SeekFrom, Write};
use tempfile::SpooledTempFile;

/// Bytes of a journal in memory. The rest lies in a temporary file without a name.
const MEMORY_BYTES_MAX: usize = 16 << 20;

/// A rollback journal or statement journal.
pub struct Journal(SpooledTempFile);

impl Journal {
    pub fn new() -> Self {
        Self(SpooledTempFile::new(MEMORY_BYTES_MAX))
    }
}

fn failed(code: i32) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| {
        let code = match error.kind() {
            std::io::ErrorKind::StorageFull => ffi::FULL,
            _ => code,
        };
        Failure::new(code, format!("a journal's temporary file: {error}"))
    }
}

impl Handle for Journal {
    fn read(&mut self, mut buf: &mut [u8], offset: u64) -> Result<usize> {
        let failed = || failed(ffi::IOERR_READ);
        self.0.seek(SeekFrom::Start(offset)).map_err(failed())?;
        let mut total = 0;
        while !buf.is_empty() {
            let count = self.0.read(buf).map_err(failed())?;
            if count == 0 {
                break;
            }
            total += count;
            buf = &mut buf[count..];
        }
        Ok(total)
    }

    fn write(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let failed = || failed(ffi::IOERR_WRITE);
        self.0.seek(SeekFrom::Start(offset)).map_err(failed())?;
        self.0.write_all(data).map_err(failed())
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.0.set_len(size).map_err(failed(ffi::IOERR_TRUNCATE))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        self.0
            .seek(SeekFrom::End(0))
            .map_err(failed(ffi::IOERR_FSTAT))
    }
}

/// A super-journal: names the journals of all databases of a transaction. Its content is read and dropped. Its store
/// records that it exists, from its opening to its deletion, which ends the transaction's unit.
pub struct SuperJournal {
    store: StoreRef,
    size: u64,
}

impl SuperJournal {
    pub fn new(store: StoreRef, name: &str) -> Self {
        store.add_super_journal(name);
        Self { store, size: 0 }
    }
}

impl Handle for SuperJournal {
    fn read(&mut self, _: &mut [u8], _: u64) -> Result<usize> {
        Ok(0)
    }

    /// Adds one name, which ends with a zero byte.
    fn write(&mut self, data: &[u8], offset: u64) -> Result<()> {
        self.size = self.size.max(offset + data.len() as u64);
        let name = data.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        match self.store.file_of(&name) {
            Some(_) => Ok(()),
            None => Err(names::not_one_store(&name, self.store.path())),
        }
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.size = size;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        Ok(self.size)
    }
}
