//! The content of a volatile write cache, by place.

use std::collections::BTreeMap;
use tonearm_base::Nanos;
use tonearm_drive_file::{CacheTakes, WriteCacheSpec};

/// Adjacent sectors that are not on the medium yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirty {
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When the mechanism may begin.
    pub ready: Nanos,
    /// When the first sector begins to cross the bus.
    pub data: Nanos,
}

impl Dirty {
    fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }
}

/// A write cache. Adjacent extents are joined.
pub struct WriteCache {
    extents: BTreeMap<u64, Dirty>,
    sectors: u64,
    capacity: u64,
    takes: CacheTakes,
    /// Time of a sector on the bus.
    bus: Nanos,
}

impl WriteCache {
    /// An empty cache.
    pub fn new(spec: &WriteCacheSpec, bus: Nanos) -> Self {
        Self {
            extents: BTreeMap::new(),
            sectors: 0,
            capacity: u64::from(spec.sectors),
            takes: spec.takes,
            bus,
        }
    }

    /// True when nothing is dirty.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// True when more than half of it is dirty.
    pub fn is_crowded(&self) -> bool {
        self.sectors * 2 > self.capacity
    }

    /// True when the cache is large enough for so many sectors.
    pub fn fits(&self, sectors: u32) -> bool {
        u64::from(sectors) <= self.capacity
    }

    /// True when it takes a write now.
    pub fn takes(&self, lba: u64, sectors: u32) -> bool {
        if self.extents.is_empty() {
            return true;
        }
        let room = self.sectors + u64::from(sectors) <= self.capacity;
        let follows = || self.extents.values().any(|dirty| dirty.end() == lba);
        room && (self.takes == CacheTakes::All || follows())
    }

    /// True when all of `[lba, end)` is dirty.
    pub fn holds(&self, lba: u64, end: u64) -> bool {
        let before = self.extents.range(..=lba).next_back();
        before.is_some_and(|(_, dirty)| end <= dirty.end())
    }

    /// Takes a write, which replaces what was there.
    pub fn put(&mut self, new: Dirty) {
        self.forget(new.lba, new.end());
        let mut new = new;
        let before = self.extents.range(..new.lba).next_back();
        if let Some(before) = before.map(|(_, dirty)| *dirty)
            && before.end() == new.lba
        {
            self.remove(before.lba);
            // The bus transfers the sectors of both one after the other, so this is the latest possible start.
            let earlier = u64::from(before.sectors) * self.bus.0;
            new = Dirty {
                lba: before.lba,
                sectors: before.sectors + new.sectors,
                ready: before.ready,
                data: before.data.max(Nanos(new.data.0.saturating_sub(earlier))),
            };
        }
        if let Some(after) = self.remove(new.end()) {
            new.sectors += after.sectors;
        }
        self.insert(new);
    }

    /// Notes that the sectors of `[lba, end)` are clean.
    pub fn forget(&mut self, lba: u64, end: u64) {
        let before = self.extents.range(..lba).next_back();
        let first = before.map_or(lba, |(first, _)| *first);
        loop {
            let mut touched = self.extents.range(first..end);
            let Some(dirty) = touched.find(|(_, dirty)| dirty.end() > lba) else {
                return;
            };
            let dirty = *dirty.1;
            self.remove(dirty.lba);
            if dirty.lba < lba {
                self.insert(Dirty {
                    sectors: (lba - dirty.lba) as u32,
                    ..dirty
                });
            }
            if dirty.end() > end {
                self.insert(Dirty {
                    lba: end,
                    sectors: (dirty.end() - end) as u32,
                    ..dirty
                });
            }
        }
    }

    /// The next extent for the medium: the first at or after `lba`, else the first of all. An arm that
    /// sweeps in one direction reaches all of them (C-LOOK). At most `most` sectors of it.
    pub fn pop(&mut self, lba: u64, most: u32) -> Option<Dirty> {
        let next = self.extents.range(lba..).next();
        let first = next.or_else(|| self.extents.first_key_value());
        let lba = *first?.0;
        let mut dirty = self.remove(lba)?;
        if dirty.sectors > most {
            self.insert(Dirty {
                lba: lba + u64::from(most),
                sectors: dirty.sectors - most,
                data: Nanos(dirty.data.0 + u64::from(most) * self.bus.0),
                ..dirty
            });
            dirty.sectors = most;
        }
        Some(dirty)
    }

    fn insert(&mut self, dirty: Dirty) {
        self.sectors += u64::from(dirty.sectors);
        self.extents.insert(dirty.lba, dirty);
    }

    fn remove(&mut self, lba: u64) -> Option<Dirty> {
        let dirty = self.extents.remove(&lba)?;
        self.sectors -= u64::from(dirty.sectors);
        Some(dirty)
    }
}
