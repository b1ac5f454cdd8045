//! What a transaction does to pages and to the log.

use super::options::{Index, ROW_ID_BYTES, Table};
use crate::access::Access;

/// The accesses and log records of a transaction.
pub(super) struct Work {
    pub accesses: Vec<Access>,
    /// Bytes of a log record besides its images.
    header: u32,
    pub rows: u32,
    pub records: u32,
    pub log_bytes: u64,
    pub deliveries_skipped: u32,
    /// Scratch memory.
    written: Vec<u64>,
}

impl Work {
    pub fn new(header: u32) -> Self {
        Self {
            accesses: Vec::new(),
            header,
            rows: 0,
            records: 0,
            log_bytes: 0,
            deliveries_skipped: 0,
            written: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        self.accesses.clear();
        self.rows = 0;
        self.records = 0;
        self.log_bytes = 0;
        self.deliveries_skipped = 0;
    }

    #[inline]
    pub fn read(&mut self, page: u64) {
        self.accesses.push(Access::read(page));
    }

    #[inline]
    pub fn write(&mut self, page: u64) {
        self.accesses.push(Access::write(page));
    }

    /// Logs a record with `bytes` bytes of images.
    pub fn log(&mut self, bytes: u32) {
        self.records += 1;
        self.log_bytes += u64::from(self.header + bytes);
    }

    /// Logs the images before and after of changed columns with `bytes` bytes, as a changed row.
    pub fn log_update(&mut self, bytes: u32) {
        self.rows += 1;
        self.log(2 * bytes);
    }

    /// Logs a row that is inserted or deleted.
    pub fn log_row(&mut self, table: Table) {
        self.rows += 1;
        self.log(table.row_bytes());
    }

    /// Logs an index entry that is inserted or deleted.
    pub fn log_entry(&mut self, index: Index) {
        self.log(index.key_bytes() + ROW_ID_BYTES);
    }

    /// How many different pages were written.
    pub fn pages_changed(&mut self) -> u32 {
        let written = self.accesses.iter().filter(|access| access.write);
        self.written.clear();
        self.written.extend(written.map(|access| access.page));
        self.written.sort_unstable();
        self.written.dedup();
        self.written.len() as u32
    }
}
