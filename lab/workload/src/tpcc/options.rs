//! Row lengths, keys, and what can be chosen of a database.

use super::input::Kind;
use thiserror::Error;

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district.
pub const CUSTOMERS: u32 = 3000;
/// Items.
pub const ITEMS: u32 = 100_000;
/// Orders of a district in the loaded database.
pub(super) const ORDERS_LOADED: u32 = 3000;
/// Those of them that wait for delivery.
pub(super) const NEW_ORDERS_LOADED: u32 = 900;
/// Bytes of a row identifier in a log record.
pub(super) const ROW_ID_BYTES: u32 = 8;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names of the standard")]
pub enum Table {
    Warehouse,
    District,
    Customer,
    History,
    NewOrder,
    Orders,
    OrderLine,
    Item,
    Stock,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::NewOrder,
        Self::Orders,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::NewOrder => "new-order",
            Self::Orders => "orders",
            Self::OrderLine => "order-line",
            Self::Item => "item",
            Self::Stock => "stock",
        }
    }

    /// Typical row length of clause 1.2.1, bytes.
    pub const fn row_bytes(self) -> u32 {
        match self {
            Self::Warehouse => 89,
            Self::District => 95,
            Self::Customer => 655,
            Self::History => 46,
            Self::NewOrder => 8,
            Self::Orders => 24,
            Self::OrderLine => 54,
            Self::Item => 82,
            Self::Stock => 306,
        }
    }
}

/// An index. The columns of its key have 4 bytes for the number of a warehouse, order, customer or item, 2 for that of
/// a district or line, and 16 for a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names say table and key")]
pub enum Index {
    Warehouse,
    District,
    Customer,
    CustomerByName,
    NewOrder,
    Orders,
    OrdersByCustomer,
    OrderLine,
    Item,
    Stock,
}

impl Index {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::CustomerByName,
        Self::NewOrder,
        Self::Orders,
        Self::OrdersByCustomer,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
    ];

    /// Its table and key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse (w)",
            Self::District => "district (w, d)",
            Self::Customer => "customer (w, d, c)",
            Self::CustomerByName => "customer (w, d, last, first)",
            Self::NewOrder => "new-order (w, d, o)",
            Self::Orders => "orders (w, d, o)",
            Self::OrdersByCustomer => "orders (w, d, c, o)",
            Self::OrderLine => "order-line (w, d, o, line)",
            Self::Item => "item (i)",
            Self::Stock => "stock (w, i)",
        }
    }

    /// Bytes of a key.
    pub const fn key_bytes(self) -> u32 {
        match self {
            Self::Warehouse | Self::Item => 4,
            Self::District => 6,
            Self::Customer | Self::NewOrder | Self::Orders => 10,
            Self::CustomerByName => 38,
            Self::OrdersByCustomer => 14,
            Self::OrderLine => 12,
            Self::Stock => 8,
        }
    }
}

/// What can be chosen. The page format is that of DB2 for regular tables, as its manual gives it for estimates of space
/// ("Space requirements for user table data", "Space requirements for indexes"); the paper's trace comes from DB2.
#[derive(Clone, PartialEq, Debug)]
pub struct TpccOptions {
    /// Warehouses, 1 to 10,000.
    pub warehouses: u32,
    /// Transactions until the end, at most 10^12.
    pub transactions: u64,
    /// Seed.
    pub seed: u64,
    /// Bytes of a page, 1024 to 65,536.
    pub page_bytes: u32,
    /// Bytes of a page's own data.
    pub page_header_bytes: u32,
    /// Bytes of a row besides its columns.
    pub row_overhead_bytes: u32,
    /// Bytes of an index entry besides its key, in leaves and inner pages.
    pub entry_overhead_bytes: u32,
    /// How full the loading fills the pages of tables, percent, 50 to 100. Rows that are added later fill pages wholly.
    pub table_fill_percent: u32,
    /// How full the loading fills the pages of indexes, percent, 50 to 100.
    pub index_fill_percent: u32,
    /// Pages by which a table or an index grows, 1 to 1024.
    pub extent_pages: u32,
    /// Bytes of a log record besides the changed columns or the row: length, kind, transaction, page, place, links.
    pub log_header_bytes: u32,
}

impl Default for TpccOptions {
    /// The database of the HyLog paper: 50 warehouses on pages of 4 KiB.
    fn default() -> Self {
        Self {
            warehouses: 50,
            transactions: 100_000,
            seed: 0,
            page_bytes: 4096,
            page_header_bytes: 68,
            row_overhead_bytes: 10,
            entry_overhead_bytes: 9,
            table_fill_percent: 100,
            index_fill_percent: 90,
            extent_pages: 32,
            log_header_bytes: 40,
        }
    }
}

/// An option beyond its limits.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum BadOptions {
    /// A number is too small or too large.
    #[error("{name} is {value}; it may be from {low} to {high}")]
    Range {
        /// The option.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least value.
        low: u64,
        /// The greatest value.
        high: u64,
    },
    /// A page has no room for a row, or for four entries of an index.
    #[error("a page of {page_bytes} bytes, less what is left free, is too small for {what}")]
    Small {
        /// The page size.
        page_bytes: u32,
        /// A row or entries.
        what: &'static str,
    },
}

impl TpccOptions {
    pub(super) fn check(&self) -> Result<(), BadOptions> {
        let limits: [(&'static str, u64, u64, u64); 10] = [
            ("warehouses", self.warehouses.into(), 1, 10_000),
            ("transactions", self.transactions, 0, 1_000_000_000_000),
            ("page_bytes", self.page_bytes.into(), 1024, 65_536),
            ("page_header_bytes", self.page_header_bytes.into(), 0, 512),
            ("row_overhead_bytes", self.row_overhead_bytes.into(), 0, 512),
            (
                "entry_overhead_bytes",
                self.entry_overhead_bytes.into(),
                0,
                128,
            ),
            (
                "table_fill_percent",
                self.table_fill_percent.into(),
                50,
                100,
            ),
            (
                "index_fill_percent",
                self.index_fill_percent.into(),
                50,
                100,
            ),
            ("extent_pages", self.extent_pages.into(), 1, 1024),
            ("log_header_bytes", self.log_header_bytes.into(), 0, 4096),
        ];
        for (name, value, low, high) in limits {
            if !(low..=high).contains(&value) {
                return Err(BadOptions::Range {
                    name,
                    value,
                    low,
                    high,
                });
            }
        }
        let page_bytes = self.page_bytes;
        let small = |what| BadOptions::Small { page_bytes, what };
        for table in Table::ALL {
            if self.rows_loaded_per_page(table) == 0 {
                return Err(small(table.name()));
            }
        }
        for index in Index::ALL {
            if self.entries_loaded_per_page(index) < 4 {
                return Err(small(index.name()));
            }
        }
        Ok(())
    }

    fn room(&self) -> u32 {
        self.page_bytes - self.page_header_bytes
    }

    /// Rows in a full page.
    pub fn rows_per_page(&self, table: Table) -> u32 {
        self.room() / (table.row_bytes() + self.row_overhead_bytes)
    }

    /// Rows in a loaded page.
    pub fn rows_loaded_per_page(&self, table: Table) -> u32 {
        self.room() * self.table_fill_percent / 100 / (table.row_bytes() + self.row_overhead_bytes)
    }

    /// Entries in a full page of an index.
    pub fn entries_per_page(&self, index: Index) -> u32 {
        self.room() / (index.key_bytes() + self.entry_overhead_bytes)
    }

    /// Entries in a loaded page of an index.
    pub fn entries_loaded_per_page(&self, index: Index) -> u32 {
        self.entries_per_page(index) * self.index_fill_percent / 100
    }

    /// Pages by which the database grows at most: the expected numbers of rows, and ten standard deviations more.
    pub(super) fn growth_pages(&self) -> u64 {
        let upper = |mean: f64, variance: f64| mean + 10.0 * variance.sqrt() + 20.0;
        let transactions = self.transactions as f64;
        let drawn = |kind: Kind| {
            let share = f64::from(kind.percent()) / 100.0;
            upper(transactions * share, transactions * share * (1.0 - share))
        };
        let orders = drawn(Kind::NewOrder);
        // The number of lines is even from 5 to 15: mean 10, variance 10.
        let lines = upper(orders * 10.0, orders * 10.0);
        let table = |table, rows: f64| rows / f64::from(self.rows_per_page(table));
        let districts = f64::from(self.warehouses * DISTRICTS);
        let index = |index, entries: f64| {
            let per_page = f64::from(self.entries_per_page(index));
            let leaves = match index {
                // Each split but the first one of a loaded leaf takes half a leaf of entries.
                Index::OrdersByCustomer => {
                    let per_leaf = f64::from(self.entries_loaded_per_page(index));
                    let loaded = (f64::from(CUSTOMERS) / per_leaf).ceil() * districts;
                    loaded.min(entries) + 2.0 * entries / per_page
                }
                // The keys of a district ascend and fill leaves wholly; each district has a last leaf.
                _ => districts.min(entries) + entries / per_page,
            };
            // Inner pages: at least half full, on all levels together, and a new root.
            leaves * (1.0 + 4.0 / per_page) + 10.0
        };
        let pages = table(Table::History, drawn(Kind::Payment))
            + table(Table::Orders, orders)
            + table(Table::NewOrder, orders)
            + table(Table::OrderLine, lines)
            + index(Index::NewOrder, orders)
            + index(Index::Orders, orders)
            + index(Index::OrdersByCustomer, orders)
            + index(Index::OrderLine, lines);
        pages.ceil() as u64 + 8 * 2 * u64::from(self.extent_pages)
    }
}
