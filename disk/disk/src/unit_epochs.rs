//! Quarantine: a freed identifier is not given out again while a recovery unit is open that may have learned it before.
//!
//! Units between whose beginnings nothing was freed belong to one epoch. A freed identifier waits until its epoch and all
//! earlier ones have ended. A unit costs one count, however many units are open.

use std::collections::BTreeMap;

struct Epoch<T> {
    /// Open units. May be 0 only if this is the only epoch.
    open: u64,
    /// What was freed before the next epoch began. Empty if no unit is open.
    freed: Vec<T>,
}

/// The epochs of open units, with the `T`s that were freed in each.
pub(crate) struct UnitEpochs<T> {
    epochs: BTreeMap<u64, Epoch<T>>,
    next: u64,
}

impl<T> UnitEpochs<T> {
    pub fn new() -> Self {
        Self {
            epochs: BTreeMap::new(),
            next: 0,
        }
    }

    /// Begins a unit. Returns its epoch.
    pub fn begin(&mut self) -> u64 {
        if let Some(mut last) = self.epochs.last_entry()
            && last.get().freed.is_empty()
        {
            last.get_mut().open += 1;
            return *last.key();
        }
        let (open, freed) = (1, Vec::new());
        self.epochs.insert(self.next, Epoch { open, freed });
        self.next += 1;
        self.next - 1
    }

    /// Keeps what is freed now. Returns it when no unit is open.
    pub fn free(&mut self, freed: Vec<T>) -> Vec<T> {
        match self.epochs.last_entry() {
            Some(mut last) if last.get().open > 0 => {
                last.get_mut().freed.extend(freed);
                Vec::new()
            }
            _ => freed,
        }
    }

    /// True when something waits for units of `epoch`.
    pub fn is_awaited(&self, epoch: u64) -> bool {
        let mut from = self.epochs.range(epoch..);
        from.any(|(_, epoch)| !epoch.freed.is_empty())
    }

    /// Ends a unit of `epoch`. Returns what may be used again.
    pub fn end(&mut self, epoch: u64) -> Vec<T> {
        let alone = self.epochs.len() == 1;
        let ended = self
            .epochs
            .get_mut(&epoch)
            .expect("an open unit has an epoch");
        ended.open -= 1;
        if ended.open > 0 {
            return Vec::new();
        }
        let freed = std::mem::take(&mut ended.freed);
        if alone {
            return freed;
        }
        self.epochs.remove(&epoch);
        match self.epochs.range_mut(..epoch).next_back() {
            Some((_, earlier)) => {
                earlier.freed.extend(freed);
                Vec::new()
            }
            None => freed,
        }
    }
}
