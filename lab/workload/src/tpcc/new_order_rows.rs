//! The rows of the table NEW-ORDER: appended with each order, removed with its delivery. A page that has lost all its
//! rows is used again, so that the table does not grow while deliveries keep up with orders.

use super::options::{Table, TpccOptions};
use super::space::{Extents, Space};

/// The table. A row is known by the number of its page within the table.
pub(super) struct NewOrderRows {
    rows: u64,
    rows_per_page: u32,
    /// Each page, and how many rows it has.
    pages: Vec<(u64, u32)>,
    empty: Vec<u32>,
    /// The page that takes new rows, and how many it has taken.
    tail: u32,
    taken: u32,
    extents: Extents,
}

impl NewOrderRows {
    pub fn load(options: &TpccOptions, rows: u64, space: &mut Space) -> Self {
        let loaded = options.rows_loaded_per_page(Table::NewOrder);
        let count = rows.div_ceil(loaded.into());
        let (extents, first) = Extents::load(space, Table::NewOrder.name(), count);
        let on_page = |page: u64| (rows - page * u64::from(loaded)).min(loaded.into()) as u32;
        let pages = (0..count).map(|page| (first + page, on_page(page)));
        let rows_per_page = options.rows_per_page(Table::NewOrder);
        Self {
            rows,
            rows_per_page,
            pages: pages.collect(),
            empty: Vec::new(),
            tail: count as u32 - 1,
            taken: rows_per_page,
            extents,
        }
    }

    /// The page of row `row` of the loaded rows.
    pub fn loaded_row(options: &TpccOptions, row: u64) -> u32 {
        (row / u64::from(options.rows_loaded_per_page(Table::NewOrder))) as u32
    }

    pub fn page(&self, number: u32) -> u64 {
        self.pages[number as usize].0
    }

    /// The page that has the row that was appended last.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Appends a row and returns the number of its page.
    pub fn append(&mut self, space: &mut Space) -> u32 {
        if self.taken == self.rows_per_page {
            self.taken = 0;
            // A tail that has lost all its rows starts again.
            if self.pages[self.tail as usize].1 > 0 {
                self.tail = self.empty.pop().unwrap_or_else(|| {
                    self.pages.push((self.extents.allocate(space), 0));
                    self.pages.len() as u32 - 1
                });
            }
        }
        self.taken += 1;
        self.rows += 1;
        self.pages[self.tail as usize].1 += 1;
        self.tail
    }

    /// Removes a row of this page.
    pub fn remove(&mut self, number: u32) {
        self.rows -= 1;
        let rows = &mut self.pages[number as usize].1;
        *rows -= 1;
        if *rows == 0 && number != self.tail {
            self.empty.push(number);
        }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn pages(&self) -> u64 {
        self.extents.used()
    }
}
