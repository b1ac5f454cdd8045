//! Quarantine: a freed identifier is not given out again while a recovery unit is open that may have learned it before.
//!
//! Units between whose beginnings nothing was freed belong to one era. A freed identifier waits until its era and all
//! earlier ones have ended. A unit costs one count, however many units are open.

use std::collections::BTreeMap;

struct Era<T> {
    /// Open units. May be 0 only if this is the only era.
    open: u64,
    /// What was freed before the next era began. Empty if no unit is open.
    freed: Vec<T>,
}

/// The eras of open units, with the `T`s that were freed in each.
pub(crate) struct Eras<T> {
    eras: BTreeMap<u64, Era<T>>,
    next: u64,
}

impl<T> Eras<T> {
    pub fn new() -> Self {
        Self {
            eras: BTreeMap::new(),
            next: 0,
        }
    }

    /// Begins a unit. Returns its era.
    pub fn begin(&mut self) -> u64 {
        if let Some(mut last) = self.eras.last_entry()
            && last.get().freed.is_empty()
        {
            last.get_mut().open += 1;
            return *last.key();
        }
        let (open, freed) = (1, Vec::new());
        self.eras.insert(self.next, Era { open, freed });
        self.next += 1;
        self.next - 1
    }

    /// Keeps what is freed now. Returns it when no unit is open.
    pub fn free(&mut self, freed: Vec<T>) -> Vec<T> {
        match self.eras.last_entry() {
            Some(mut last) if last.get().open > 0 => {
                last.get_mut().freed.extend(freed);
                Vec::new()
            }
            _ => freed,
        }
    }

    /// True when something waits for units of `era`.
    pub fn is_awaited(&self, era: u64) -> bool {
        let mut from = self.eras.range(era..);
        from.any(|(_, era)| !era.freed.is_empty())
    }

    /// Ends a unit of `era`. Returns what may be used again.
    pub fn end(&mut self, era: u64) -> Vec<T> {
        let alone = self.eras.len() == 1;
        let ended = self.eras.get_mut(&era).expect("an open unit has an era");
        ended.open -= 1;
        if ended.open > 0 {
            return Vec::new();
        }
        let freed = std::mem::take(&mut ended.freed);
        if alone {
            return freed;
        }
        self.eras.remove(&era);
        match self.eras.range_mut(..era).next_back() {
            Some((_, earlier)) => {
                earlier.freed.extend(freed);
                Vec::new()
            }
            None => freed,
        }
    }
}
