//! A table whose rows lie in the order in which they were inserted.

use super::options::{self, TpccOptions};
use super::space::{Extents, Space};

/// The table. A row is known by its number in the order of insertion.
pub(super) struct Table {
    rows: u64,
    loaded_rows: u64,
    rows_per_loaded_page: u64,
    rows_per_page: u64,
    /// First page of the loaded rows.
    first: u64,
    /// Pages of the rows that were appended, in order.
    later: Vec<u64>,
    extents: Extents,
}

impl Table {
    pub fn load(
        options: &TpccOptions,
        table: options::Table,
        rows: u64,
        space: &mut Space,
    ) -> Self {
        let rows_per_loaded_page = options.rows_loaded_per_page(table).into();
        let (extents, first) =
            Extents::load(space, table.name(), rows.div_ceil(rows_per_loaded_page));
        Self {
            rows,
            loaded_rows: rows,
            rows_per_loaded_page,
            rows_per_page: options.rows_per_page(table).into(),
            first,
            later: Vec::new(),
            extents,
        }
    }

    /// The page of a row.
    #[inline]
    pub fn page(&self, row: u64) -> u64 {
        match row.checked_sub(self.loaded_rows) {
            None => self.first + row / self.rows_per_loaded_page,
            Some(later) => self.later[(later / self.rows_per_page) as usize],
        }
    }

    /// Appends a row and returns its number.
    pub fn append(&mut self, space: &mut Space) -> u64 {
        let later = (self.rows - self.loaded_rows) / self.rows_per_page;
        if later == self.later.len() as u64 {
            self.later.push(self.extents.allocate(space));
        }
        self.rows += 1;
        self.rows - 1
    }

    /// Takes back the rows from number `rows` on. Their pages stay with the table.
    pub fn truncate(&mut self, rows: u64) {
        self.rows = rows;
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn pages(&self) -> u64 {
        self.extents.used()
    }
}
