//! TPC-C by its standard (revision 5), as page accesses and as transactions with their log bytes.
//!
//! `input` draws what a terminal enters (clauses 2.4 to 2.8), `database` keeps what the transactions depend on: the
//! numbers of orders, who ordered last, which orders wait for delivery. `execute` does a transaction statement by
//! statement as the sample programs of the standard's Appendix A do, through the indexes in `tree` and the tables in
//! `table`, and records each access in a `Work`. `options` has row lengths, page format and limits.
//!
//! What counts as an access:
//! - A statement that finds a row by its key reads one page on each level of the index, and the row's page.
//! - An update or deletion reads so too, and then writes the row's page.
//! - A scan reads each leaf once, and the row's page for each row.
//! - An insertion writes the table's last page; in each index it reads the path and writes the leaf. A split also
//!   writes the new page and the parent.
//! - A rollback writes each page again that it restores, and finds index entries by their keys.
//!
//! Transactions run one after the other. Locks, the catalog and free-space maps have no accesses.

mod database;
mod execute;
mod input;
mod names;
mod new_order_rows;
mod nurand;
mod options;
mod space;
mod table;
mod tree;
mod work;

pub use input::{Customer, Input, Inputs, Kind, Line, NewOrder, OrderStatus, Payment};
pub use names::last_name;
pub use nurand::NuRand;
pub use options::{BadOptions, CUSTOMERS, DISTRICTS, ITEMS, Index, Table, TpccOptions};

use crate::access::{Access, Workload, WorkloadError};
use database::Database;
use work::Work;

/// What a transaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its kind.
    pub kind: Kind,
    /// A new order with an unused item number, which was rolled back.
    pub rolled_back: bool,
    /// Rows that were inserted, changed or deleted. What a rollback restores does not count again.
    pub rows_changed: u32,
    /// Different pages that were written, those of indexes included.
    pub pages_changed: u32,
    /// Log records, that of the commit included. 0 for a transaction that changes nothing.
    pub log_records: u32,
    /// Bytes of the log records.
    pub log_bytes: u64,
    /// Districts that had no order to deliver.
    pub deliveries_skipped: u32,
}

/// The size of a table or an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Its name in the standard; an index has the name of its table and its columns.
    pub name: &'static str,
    /// Rows, or entries.
    pub rows: u64,
    /// Pages in use.
    pub pages: u64,
    /// Levels of an index, the leaves included; 0 for a table.
    pub levels: u32,
}

/// The generator.
pub struct Tpcc {
    pages: u64,
    inputs: Inputs,
    database: Database,
    work: Work,
    /// The next of the current transaction's accesses in `work`.
    next: usize,
    left: u64,
}

impl Tpcc {
    /// Loads the database (clause 4.3.3).
    ///
    /// # Errors
    /// When an option is beyond its limits.
    pub fn new(options: &TpccOptions) -> Result<Self, BadOptions> {
        options.check()?;
        let inputs = Inputs::new(options.warehouses, options.seed);
        let database = Database::load(options, inputs.last_name_load());
        Ok(Self {
            pages: database.loaded() + options.growth_pages(),
            inputs,
            database,
            work: Work::new(options.log_header_bytes),
            next: 0,
            left: options.transactions,
        })
    }

    /// Does the next transaction and puts its accesses, in their order, at the end of `accesses`; none after the last
    /// one.
    pub fn next_transaction(&mut self, accesses: &mut Vec<Access>) -> Option<Transaction> {
        let transaction = self.step()?;
        self.next = self.work.accesses.len();
        accesses.extend_from_slice(&self.work.accesses);
        Some(transaction)
    }

    /// Sizes of the tables and indexes now.
    pub fn sizes(&self) -> Vec<Size> {
        self.database.sizes()
    }

    /// The table or index that has this page; none for a page beyond the database.
    pub fn owner(&self, page: u64) -> Option<&'static str> {
        self.database.space.owner(page)
    }

    /// Pages that the database has now, the rest of extents included.
    pub fn allocated(&self) -> u64 {
        self.database.allocated()
    }

    /// Checks what clause 3.3.2 demands of a consistent database, as far as it is about numbers of rows.
    ///
    /// # Errors
    /// With the condition that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.database.check()
    }

    fn step(&mut self) -> Option<Transaction> {
        self.left = self.left.checked_sub(1)?;
        let input = self.inputs.next_input();
        self.work.clear();
        let transaction = execute::run(&mut self.database, &mut self.work, &input);
        assert!(
            self.database.allocated() <= self.pages,
            "the database stays within the size that its options foresee"
        );
        Some(transaction)
    }
}

impl Workload for Tpcc {
    /// Pages that the database has at most after all transactions. That it is exceeded is less likely than 1 in 10^20.
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        loop {
            if let Some(access) = self.work.accesses.get(self.next) {
                self.next += 1;
                return Ok(Some(*access));
            }
            self.next = 0;
            if self.step().is_none() {
                self.work.clear();
                return Ok(None);
            }
        }
    }
}
