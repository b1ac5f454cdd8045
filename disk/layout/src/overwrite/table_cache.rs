//! The cache of checksum tables, within a bound in bytes. The least recently used table is evicted first.
//!
//! Invariants:
//! 1. A table with another reference (most of all one that is being written) is not evicted, because a second copy
//!    could be loaded beside it. Such tables may exceed the bound.
//! 2. An evicted table has been written: a table changes only while its writer holds it. If the write has failed, the
//!    caller repeats the changes, and the table is read again from the medium.
//! 3. The order of eviction depends on the calls alone.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use tonearm_format::TableSlot;

/// One group's table in memory.
pub(crate) struct Table {
    /// The entries, and the generation of the newest slot: written, or being written when pending.
    pub slot: RefCell<TableSlot>,
    /// The slot of this generation may be half written or not durable, so the next write goes to the same slot again.
    /// The other slot is the durable one.
    pub pending: Cell<bool>,
}

impl Table {
    pub fn new(slot: TableSlot) -> Self {
        Self {
            slot: RefCell::new(slot),
            pending: Cell::new(false),
        }
    }
}

struct Cached {
    table: Rc<Table>,
    used_at: u64,
}

/// See the module.
pub(crate) struct TableCache {
    tables: BTreeMap<u64, Cached>,
    by_use: BTreeMap<u64, u64>,
    /// Groups of cached tables that were written since [`TableCache::begin_batch`].
    batch: BTreeSet<u64>,
    clock: u64,
    tables_max: usize,
    table_bytes: usize,
}

impl TableCache {
    /// A cache of `bytes_max` bytes of tables of `table_bytes` bytes.
    pub fn new(bytes_max: usize, table_bytes: usize) -> Self {
        Self {
            tables: BTreeMap::new(),
            by_use: BTreeMap::new(),
            batch: BTreeSet::new(),
            clock: 0,
            tables_max: (bytes_max / table_bytes).max(1),
            table_bytes,
        }
    }

    /// The table of `group`, now the most recently used one.
    pub fn get(&mut self, group: u64) -> Option<Rc<Table>> {
        let cached = self.tables.get_mut(&group)?;
        if cached.used_at != self.clock {
            self.by_use.remove(&cached.used_at);
            self.clock += 1;
            cached.used_at = self.clock;
            self.by_use.insert(self.clock, group);
        }
        Some(cached.table.clone())
    }

    /// Adds or replaces the table of `group`.
    pub fn insert(&mut self, group: u64, table: Rc<Table>) {
        self.remove(group);
        self.clock += 1;
        self.by_use.insert(self.clock, group);
        let used_at = self.clock;
        self.tables.insert(group, Cached { table, used_at });
        self.evict();
    }

    /// True when the table of `group` is cached. This does not count as a use.
    pub fn contains(&self, group: u64) -> bool {
        self.tables.contains_key(&group)
    }

    /// Drops the tables of `groups`; the work is proportional to the tables dropped.
    pub fn forget(&mut self, groups: Range<u64>) {
        let gone: Vec<u64> = self.tables.range(groups).map(|(group, _)| *group).collect();
        for group in gone {
            self.remove(group);
        }
    }

    /// Notes that the table of `group` is about to be written. Returns the generation to write.
    pub fn begin_write(&mut self, group: u64, table: &Table) -> u64 {
        let mut slot = table.slot.borrow_mut();
        if !table.pending.replace(true) {
            slot.generation += 1;
        }
        self.batch.insert(group);
        slot.generation
    }

    /// Begins a new batch. Tables of a batch that failed stay pending until they are written again.
    pub fn begin_batch(&mut self) {
        self.batch.clear();
    }

    /// Notes that everything written in this batch is durable.
    pub fn commit_batch(&mut self) {
        for group in std::mem::take(&mut self.batch) {
            if let Some(cached) = self.tables.get(&group) {
                cached.table.pending.set(false);
            }
        }
    }

    /// Bytes of the tables held here.
    pub fn bytes(&self) -> usize {
        self.tables.len() * self.table_bytes
    }

    fn remove(&mut self, group: u64) {
        if let Some(cached) = self.tables.remove(&group) {
            self.by_use.remove(&cached.used_at);
            self.batch.remove(&group);
        }
    }

    fn evict(&mut self) {
        while self.tables.len() > self.tables_max {
            let idle = self
                .by_use
                .values()
                .find(|group| Rc::strong_count(&self.tables[*group].table) == 1);
            match idle.copied() {
                Some(group) => self.remove(group),
                None => return,
            }
        }
    }
}
