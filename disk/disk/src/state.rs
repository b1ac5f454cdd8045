//! The state of a volume, common to all its handles: its entry, where its blocks are at home, and its watches for
//! changes.

use crate::changes::Changes;
use crate::error::DiskError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_format::{Extent, VolumeEntry};

/// The stage of a volume's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// Made by a recovery unit that has not ended: it has a slot, and no other caller sees it.
    Pending,
    /// In the table.
    Live,
    /// Gone.
    Deleted,
}

/// The state of a volume, common to all its handles.
pub(crate) struct VolumeState {
    /// Its number since the opening, from 1 on. Names and slots are used again; this number is not.
    pub serial: u64,
    pub slot: u64,
    pub entry: VolumeEntry,
    pub life: Life,
    /// How often its blocks have moved to other homes.
    pub moves: u64,
    /// How often it has been made shorter.
    pub cuts: u64,
    /// Commits that have changed it.
    pub changes: Changes,
    /// Its blocks that are being written in part.
    pub watched: Rc<Watched>,
}

impl VolumeState {
    /// # Errors
    /// When it is gone, or does not have all of `len` bytes from `offset` on.
    pub fn check(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        if self.life != Life::Live {
            return Err(DiskError::Deleted);
        }
        self.check_range(offset, len, self.entry.size_bytes)
    }

    /// # Errors
    /// When it does not have all of `len` bytes from `offset` on with a size of `size_bytes`.
    pub fn check_range(&self, offset: u64, len: u64, size_bytes: u64) -> Result<(), DiskError> {
        match offset.checked_add(len) {
            Some(end) if end <= size_bytes => Ok(()),
            end => Err(DiskError::OutOfRange {
                volume: self.entry.name.clone(),
                offset,
                end: end.unwrap_or(u64::MAX),
                size_bytes,
            }),
        }
    }

    /// # Errors
    /// When it takes no changes.
    pub fn check_mode(&self) -> Result<(), DiskError> {
        if self.entry.read_only {
            Err(DiskError::ReadOnlyVolume(self.entry.name.clone()))
        } else {
            Ok(())
        }
    }

    /// Home blocks of its blocks `first .. first + count`, which it must have.
    pub fn runs(&self, mut first: u64, mut count: u64) -> Vec<Extent> {
        let mut found = Vec::with_capacity(1);
        for extent in &self.entry.extents {
            if count == 0 {
                break;
            }
            if first >= extent.count {
                first -= extent.count;
                continue;
            }
            let part = count.min(extent.count - first);
            found.push(Extent {
                start: extent.start + first,
                count: part,
            });
            (first, count) = (0, count - part);
        }
        assert_eq!(count, 0, "extents cover the volume");
        found
    }

    /// Notes that a commit has changed `blocks`.
    pub fn written(&self, blocks: Range<u64>) {
        self.changes.note();
        self.watched.change(blocks);
    }

    /// Notes that a commit has given the volume `entry`, and has cut off its content from byte `cut` on.
    pub fn change(&mut self, entry: VolumeEntry, cut: u64) {
        self.changes.note();
        self.moves += 1;
        if cut.min(entry.size_bytes) < self.entry.size_bytes {
            self.cuts += 1;
            // The volume may grow again, over other homes.
            self.watched.change(0..u64::MAX);
        }
        self.entry = entry;
    }
}

pub(crate) type SharedVolume = Rc<RefCell<VolumeState>>;

/// Blocks of a volume that are being written in part, each with the last change of it.
#[derive(Default)]
pub(crate) struct Watched {
    /// Changes so far; counted while something is watched.
    changes: Cell<u64>,
    blocks: RefCell<BTreeMap<u64, Seen>>,
}

struct Seen {
    watches: u64,
    changed: u64,
}

impl Watched {
    pub fn is_empty(&self) -> bool {
        self.blocks.borrow().is_empty()
    }

    /// Notes that a commit has changed `blocks`.
    pub fn change(&self, blocks: Range<u64>) {
        let mut watched = self.blocks.borrow_mut();
        if watched.is_empty() {
            return;
        }
        let change = self.changes.get() + 1;
        self.changes.set(change);
        for (_, seen) in watched.range_mut(blocks) {
            seen.changed = change;
        }
    }
}

/// Tells whether a block has changed since the last look at it. It counts as changed before the first look.
pub(crate) struct Watch {
    of: Rc<Watched>,
    index: u64,
    since: Cell<Option<u64>>,
}

impl Watch {
    pub fn new(of: &Rc<Watched>, index: u64) -> Self {
        let mut blocks = of.blocks.borrow_mut();
        let new = Seen {
            watches: 0,
            changed: 0,
        };
        blocks.entry(index).or_insert(new).watches += 1;
        Self {
            of: of.clone(),
            index,
            since: Cell::new(None),
        }
    }

    /// Looks at the block, which is about to be read.
    pub fn look(&self) {
        self.since.set(Some(self.of.changes.get()));
    }

    pub fn is_stale(&self) -> bool {
        let changed = self.of.blocks.borrow()[&self.index].changed;
        self.since.get().is_none_or(|since| changed > since)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut blocks = self.of.blocks.borrow_mut();
        if let Some(seen) = blocks.get_mut(&self.index) {
            seen.watches -= 1;
            if seen.watches == 0 {
                blocks.remove(&self.index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_stale_when_its_block_has_changed_since_the_look() {
        let watched = Rc::new(Watched::default());
        watched.change(0..10);
        let (watch, other) = (Watch::new(&watched, 3), Watch::new(&watched, 3));
        assert!(watch.is_stale());
        watch.look();
        watched.change(0..3);
        watched.change(4..9);
        assert!(!watch.is_stale());
        watched.change(3..4);
        assert!(watch.is_stale());
        watch.look();
        assert!(!watch.is_stale());
        drop(watch);
        assert!(!watched.is_empty());
        drop(other);
        assert!(watched.is_empty());
    }
}
