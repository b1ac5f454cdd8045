//! The content of a media cache: which sectors lie in its band, and where there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tonearm_drive_file::MediaCacheSpec;

/// Sectors in a row that lie in the band.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    end: u64,
    /// Of the first one: sectors from the start of the band.
    place: u64,
}

/// What moves to its place in one pass.
pub struct Unit {
    /// The sectors that are written: a zone, or what is held of it if tracks can be written singly.
    pub home: Range<u64>,
    /// True when a part of them must be read before.
    pub is_partial: bool,
    /// Their parts in the band: first sector there, and number of sectors.
    pub parts: Vec<(u64, u64)>,
}

/// A media cache.
#[derive(Clone)]
pub struct MediaCache {
    spec: MediaCacheSpec,
    held: BTreeMap<u64, Held>,
    /// Sectors that are held.
    sectors: u64,
    /// Zones of which a part was overwritten by its neighbour.
    damaged: BTreeSet<u64>,
    /// Where the next write goes.
    next: u64,
    /// Writes since the last one of the map.
    unmapped: u32,
    /// After the last unit that was moved.
    swept: u64,
    /// Sectors of the drive.
    limit: u64,
}

impl MediaCache {
    /// The empty band of `spec`, of a drive of `limit` sectors.
    pub fn new(spec: &MediaCacheSpec, limit: u64) -> Self {
        let mut spec = spec.clone();
        spec.sectors = spec.sectors.min(limit);
        Self {
            spec,
            held: BTreeMap::new(),
            sectors: 0,
            damaged: BTreeSet::new(),
            next: 0,
            unmapped: 0,
            swept: 0,
            limit,
        }
    }

    /// True when nothing waits for its move.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.damaged.is_empty()
    }

    /// True when the band is large enough for so many sectors.
    pub fn fits(&self, sectors: u64) -> bool {
        sectors <= self.spec.sectors
    }

    /// True when something must move before the band takes so many sectors.
    pub fn is_full(&self, sectors: u64) -> bool {
        let writes = self.held.len() as u64;
        !self.held.is_empty()
            && (self.sectors + sectors > self.spec.sectors
                || (self.spec.writes > 0 && writes >= u64::from(self.spec.writes)))
    }

    /// The first sector of the zone after that of `lba - 1`; `lba` itself for a drive without zones.
    pub fn zone_after(&self, lba: u64) -> u64 {
        match u64::from(self.spec.zone_sectors) {
            0 => lba,
            zone => lba.next_multiple_of(zone),
        }
    }

    /// Takes a write. Returns its place in the band.
    pub fn put(&mut self, lba: u64, end: u64) -> u64 {
        self.forget(lba, end);
        if self.next + (end - lba) > self.spec.sectors {
            self.next = 0;
        }
        let place = self.next;
        self.next += end - lba;
        self.insert(lba, Held { end, place });
        place
    }

    /// True when the drive must write its map after this write.
    pub fn must_map(&mut self) -> bool {
        self.unmapped += 1;
        let must = self.spec.map_writes > 0 && self.unmapped >= self.spec.map_writes;
        if must {
            self.unmapped = 0;
        }
        must
    }

    /// Where the sectors of `[lba, end)` lie in the band, if all of them were written together.
    pub fn place(&self, lba: u64, end: u64) -> Option<u64> {
        let (first, held) = self.held.range(..=lba).next_back()?;
        (end <= held.end).then(|| held.place + (lba - first))
    }

    /// Notes that the sectors of `[lba, end)` are at their places.
    pub fn forget(&mut self, lba: u64, end: u64) {
        let before = self.held.range(..lba).next_back();
        let first = before.map_or(lba, |(first, _)| *first);
        loop {
            let mut touched = self.held.range(first..end);
            let Some((first, held)) = touched.find(|(_, held)| held.end > lba) else {
                return;
            };
            let (first, held) = (*first, *held);
            self.remove(first);
            if first < lba {
                self.insert(first, Held { end: lba, ..held });
            }
            if held.end > end {
                let place = held.place + (end - first);
                self.insert(end, Held { place, ..held });
            }
        }
    }

    /// A sequence of writes ended at `end`. If that is within a zone, its last track overlaps the next one there.
    pub fn damage(&mut self, end: u64) {
        let after = self.zone_after(end);
        if end < after.min(self.limit) {
            self.damaged.insert(end);
        }
    }

    /// Takes what moves next: the first at or after the last one, else the first of all.
    pub fn take(&mut self) -> Option<Unit> {
        let next = |from: u64| {
            let held = self.held.range(from..).next().map(|(lba, _)| *lba);
            let damaged = self.damaged.range(from..).next().copied();
            held.into_iter().chain(damaged).min()
        };
        let lba = next(self.swept).or_else(|| next(0))?;
        let home = match u64::from(self.spec.zone_sectors) {
            0 => lba..self.held.get(&lba)?.end,
            zone => lba - lba % zone..(lba - lba % zone + zone).min(self.limit),
        };
        let (first, end) = (home.start, home.end);
        let mut parts = Vec::new();
        let mut kept = 0;
        let before = self.held.range(..first).next_back();
        let from = before.map_or(first, |(lba, _)| *lba);
        for (lba, held) in self.held.range(from..end) {
            let (start, stop) = ((*lba).max(first), held.end.min(end));
            if start < stop {
                kept += stop - start;
                parts.push((held.place + (start - lba), stop - start));
            }
        }
        self.forget(first, end);
        self.damaged.retain(|lba| *lba < first || *lba >= end);
        self.swept = end;
        Some(Unit {
            is_partial: kept < end - first,
            home,
            parts,
        })
    }

    fn insert(&mut self, lba: u64, held: Held) {
        self.sectors += held.end - lba;
        self.held.insert(lba, held);
    }

    fn remove(&mut self, lba: u64) {
        if let Some(held) = self.held.remove(&lba) {
            self.sectors -= held.end - lba;
        }
    }
}

#[cfg(test)]
#[path = "media_cache_test.rs"]
mod media_cache_test;
