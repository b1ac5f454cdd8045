//! Shadow versions: blocks that an open recovery unit has written and that no other caller sees (ARU 3.1).
//!
//! Invariants:
//! 1. A shadow is a whole block. Of several versions of a block within one unit only the newest is kept. If the unit
//!    has written only a part of the block, the shadow records which bytes the unit has written, and watches what
//!    others commit to the rest (`partial.rs`).
//! 2. The shadows of all open units together stay within a budget of their own, and those of one unit within half of
//!    it. When a unit needs more, its oldest shadows go to home space (`spill.rs`). Shadows in memory hold none of the
//!    write path's memory, so that units which stay open cannot stop it. A unit takes memory of the write path when it
//!    ends.

use crate::error::DiskError;
use crate::partial::Ranges;
use crate::spill::{Spill, Spilled};
use crate::state::Watch;
use crate::table::SharedTable;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Slice};
use tonearm_engine::Engine;
use tonearm_rt::Rt;

/// Most bytes that are written back together.
const SPILL_BYTES: u64 = 4 << 20;

/// A block that may have a shadow: serial number of its volume, and its index there.
pub(crate) type Key = (u64, u64);

/// A shadow of one block.
#[derive(Clone)]
pub(crate) enum Version {
    Memory(Slice),
    Spilled(Spilled),
}

/// A block of which a unit has written only a part.
#[derive(Clone)]
pub(crate) struct Part {
    /// The bytes that the unit has written.
    pub written: Ranges,
    /// Its last look was when the rest was read.
    pub watch: Rc<Watch>,
}

impl Part {
    /// Memory in bytes that the shadow takes.
    fn bytes(&self) -> u64 {
        PART_BYTES + 8 * self.written.count() as u64
    }
}

/// Bytes that a block which is written in part takes in memory besides its content and its ranges.
const PART_BYTES: u64 = 160;

/// A block of a unit.
struct Block {
    version: Version,
    /// `None` when the unit has written all of it.
    part: Option<Box<Part>>,
}

/// State that the shadows of all units share.
pub(crate) struct Shadows {
    pub spill: Spill,
    limit: u64,
    used: Cell<u64>,
    /// Memory in bytes for the records of partly written blocks. They have a budget of their own, half as large.
    parts: Cell<u64>,
}

impl Shadows {
    pub fn new(rt: &Rt, pool: &BufPool, engine: &Engine, table: &SharedTable, limit: u64) -> Self {
        Self {
            spill: Spill::new(rt, pool, engine, table, limit),
            limit,
            used: Cell::new(0),
            parts: Cell::new(0),
        }
    }

    /// Bytes that shadows may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that shadows hold.
    pub fn used(&self) -> u64 {
        self.used.get() + self.parts.get()
    }
}

/// The shadow blocks of one unit.
#[derive(Default)]
pub(crate) struct Shadow {
    blocks: BTreeMap<Key, Block>,
    /// Blocks in memory, the oldest first, and some blocks that are no longer in memory.
    ages: VecDeque<Key>,
    /// Bytes of the blocks in memory.
    bytes: u64,
    /// Number of blocks that are not in memory.
    spilled: u64,
    /// Memory in bytes for the records of partly written blocks.
    parts: u64,
}

impl Shadow {
    /// Checks that `bytes` more fit in the budget, for what cannot be written back.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn check_room(&self, shadows: &Shadows, bytes: u64) -> Result<(), DiskError> {
        if shadows.used.get().saturating_add(bytes) <= shadows.limit {
            Ok(())
        } else {
            Err(DiskError::ShadowsFull {
                limit_bytes: shadows.limit,
            })
        }
    }

    /// Checks that the records of two more partly written blocks fit in their budget.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn check_parts(&self, shadows: &Shadows) -> Result<(), DiskError> {
        let limit_bytes = shadows.limit;
        if shadows.parts.get() + 2 * PART_BYTES <= limit_bytes / 2 {
            Ok(())
        } else {
            Err(DiskError::ShadowsFull { limit_bytes })
        }
    }

    /// Whether `bytes` more fit in memory.
    pub fn has_room(&self, shadows: &Shadows, bytes: u64) -> bool {
        shadows.used.get().saturating_add(bytes) <= shadows.limit
            && self.bytes.saturating_add(bytes) <= shadows.limit / 2
    }

    /// Some of the oldest blocks in memory, as many as are written back together: at least one if there is any.
    pub fn oldest(&mut self, shadows: &Shadows) -> Vec<(Key, Slice)> {
        let bytes_max = (shadows.limit / 8).min(SPILL_BYTES);
        let (blocks, mut oldest, mut bytes) = (&self.blocks, BTreeMap::new(), 0);
        let in_memory = |key: &Key| match blocks.get(key).map(|block| &block.version) {
            Some(Version::Memory(data)) => Some(data),
            _ => None,
        };
        while self
            .ages
            .pop_front_if(|key| in_memory(key).is_none())
            .is_some()
        {}
        for key in &self.ages {
            if let Some(data) = in_memory(key) {
                oldest.insert(*key, data.clone());
                bytes += data.len() as u64;
            }
            if bytes >= bytes_max {
                break;
            }
        }
        oldest.into_iter().collect()
    }

    /// Charges the budget for memory other than blocks.
    ///
    /// # Errors
    /// When there is none.
    pub fn charge(&mut self, shadows: &Shadows, bytes: u64) -> Result<(), DiskError> {
        self.check_room(shadows, bytes)?;
        self.count(shadows, bytes, 0);
        Ok(())
    }

    /// Takes a version of a block. `part` is the bytes that the unit has written; `None` for all of them.
    pub fn put(&mut self, shadows: &Shadows, key: Key, version: Version, part: Option<Box<Part>>) {
        self.enter(shadows, key, &version);
        if let Some(part) = &part {
            self.count_parts(shadows, part.bytes(), 0);
        }
        if let Some(old) = self.blocks.insert(key, Block { version, part }) {
            self.gone(shadows, old);
        }
    }

    /// Notes that the content of a block is in home space now.
    pub fn sent_home(&mut self, shadows: &Shadows, key: Key, spilled: Spilled) {
        let version = Version::Spilled(spilled);
        self.enter(shadows, key, &version);
        if let Some(block) = self.blocks.get_mut(&key) {
            let old = std::mem::replace(&mut block.version, version);
            self.version_gone(shadows, old);
        }
    }

    fn enter(&mut self, shadows: &Shadows, key: Key, version: &Version) {
        match version {
            Version::Memory(data) => {
                self.count(shadows, data.len() as u64, 0);
                self.ages.push_back(key);
            }
            Version::Spilled(_) => self.spilled += 1,
        }
    }

    fn gone(&mut self, shadows: &Shadows, block: Block) {
        if let Some(part) = &block.part {
            self.count_parts(shadows, 0, part.bytes());
        }
        self.version_gone(shadows, block.version);
    }

    fn version_gone(&mut self, shadows: &Shadows, version: Version) {
        match version {
            Version::Memory(data) => self.count(shadows, 0, data.len() as u64),
            Version::Spilled(spilled) => {
                self.spilled -= 1;
                shadows.spill.release(spilled);
            }
        }
    }

    fn count(&mut self, shadows: &Shadows, more: u64, less: u64) {
        self.bytes = self.bytes + more - less;
        shadows.used.set(shadows.used.get() + more - less);
    }

    fn count_parts(&mut self, shadows: &Shadows, more: u64, less: u64) {
        self.parts = self.parts + more - less;
        shadows.parts.set(shadows.parts.get() + more - less);
    }

    /// The unit's version of a block.
    pub fn get(&self, key: Key) -> Option<&Version> {
        self.blocks.get(&key).map(|block| &block.version)
    }

    /// Which bytes of the block the unit has written, if it has written only a part.
    pub fn part(&self, key: Key) -> Option<&Part> {
        if self.parts == 0 {
            return None;
        }
        self.blocks.get(&key)?.part.as_deref()
    }

    /// Whether others have committed to the rest of a block of which the unit has written a part.
    pub fn is_stale(&self, key: Key) -> bool {
        self.part(key).is_some_and(|part| part.watch.is_stale())
    }

    /// All such blocks.
    pub fn stale(&self) -> Vec<Key> {
        if self.parts == 0 {
            return Vec::new();
        }
        let keys = self.blocks.keys().copied();
        keys.filter(|key| self.is_stale(*key)).collect()
    }

    /// First block of the range that has a shadow.
    pub fn next(&self, serial: u64, range: Range<u64>) -> Option<u64> {
        let mut keys = self
            .blocks
            .range((serial, range.start)..(serial, range.end));
        keys.next().map(|((_, index), _)| *index)
    }

    /// Drops the shadows of a volume's blocks from `first` on.
    pub fn cut(&mut self, shadows: &Shadows, serial: u64, first: u64) {
        let range = (serial, first)..(serial + 1, 0);
        let gone: Vec<Key> = self.blocks.range(range).map(|(key, _)| *key).collect();
        for key in gone {
            self.remove(shadows, key);
        }
    }

    /// Drops the shadow of a block.
    pub fn remove(&mut self, shadows: &Shadows, key: Key) {
        if let Some(block) = self.blocks.remove(&key) {
            self.gone(shadows, block);
        }
    }

    /// All shadows, in the order of their keys.
    pub fn blocks(&self) -> impl Iterator<Item = (Key, &Version)> {
        self.blocks
            .iter()
            .map(|(key, block)| (*key, &block.version))
    }

    /// Blocks of a volume that have a shadow, in order.
    pub fn indexes(&self, serial: u64) -> impl Iterator<Item = u64> {
        let keys = (serial, 0)..(serial + 1, 0);
        self.blocks.range(keys).map(|((_, index), _)| *index)
    }

    /// All blocks.
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Blocks in memory.
    pub fn in_memory(&self) -> u64 {
        self.blocks.len() as u64 - self.spilled
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes + self.parts
    }

    /// Blocks in home space.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// The unit has ended with commit `lsn`, which moves what was spilled.
    pub fn committed(&mut self, shadows: &Shadows, lsn: Lsn) {
        if self.spilled == 0 {
            return;
        }
        let moved = self
            .blocks
            .extract_if(.., |_, block| matches!(block.version, Version::Spilled(_)));
        let mut parts = 0;
        let blocks = moved.filter_map(|(_, block)| {
            parts += block.part.map_or(0, |part| part.bytes());
            match block.version {
                Version::Spilled(spilled) => Some(spilled.block),
                Version::Memory(_) => None,
            }
        });
        shadows.spill.moved(lsn, blocks);
        self.spilled = 0;
        self.count_parts(shadows, 0, parts);
    }

    /// Drops all shadows.
    pub fn clear(&mut self, shadows: &Shadows) {
        for block in std::mem::take(&mut self.blocks).into_values() {
            self.gone(shadows, block);
        }
        self.count(shadows, 0, self.bytes);
    }
}
