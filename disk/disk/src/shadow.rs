//! Shadow versions: what an open recovery unit has written and no other caller sees (ARU 3.1).
//!
//! Invariants:
//! 1. A shadow is a whole block; of several versions of a block within one unit only the newest is kept. Of a block that
//!    the unit has written in part it tells which bytes are the unit's, and watches what others commit to the rest
//!    (`partial.rs`).
//! 2. The shadows of all open units together stay within a budget of their own, and those of one unit within
//!    half of it; the oldest of a unit that asks for more go to home space (`spill.rs`). In memory they hold
//!    none of the write path's, so that units which stay open cannot stop it; a unit takes that memory when it
//!    ends.

use crate::error::DiskError;
use crate::partial::Ranges;
use crate::spill::{Spill, Spilled};
use crate::state::Watch;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Lsn, Slice};
use tonearm_rt::Rt;

/// Most bytes that go home together.
const SPILL_BYTES: u64 = 4 << 20;

/// A block that may have a shadow: serial number of its volume, and its index there.
pub(crate) type Key = (u64, u64);

/// A shadow of one block.
#[derive(Clone)]
pub(crate) enum Version {
    Memory(Slice),
    Spilled(Spilled),
}

/// What is known of a block that a unit has written in part.
#[derive(Clone)]
pub(crate) struct Part {
    /// The unit's bytes.
    pub written: Ranges,
    /// Looked when the rest was read.
    pub watch: Rc<Watch>,
}

impl Part {
    /// Memory that it takes.
    fn bytes(&self) -> u64 {
        PART_BYTES + 8 * self.written.count() as u64
    }
}

/// Bytes that a block which is written in part takes in memory besides its content and its ranges.
const PART_BYTES: u64 = 160;

/// A block of a unit.
struct Block {
    version: Version,
    /// `None` when all of it is the unit's.
    part: Option<Box<Part>>,
}

/// What the shadows of all units have in common.
pub(crate) struct Shadows {
    pub spill: Spill,
    limit: u64,
    used: Cell<u64>,
    /// Bytes for what is known of blocks that are written in part; they have half as much room of their own.
    parts: Cell<u64>,
}

impl Shadows {
    pub fn new(rt: &Rt, limit: u64) -> Self {
        Self {
            spill: Spill::new(rt),
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
    /// Blocks that are in memory, the oldest first, and some that are not any more.
    ages: VecDeque<Key>,
    /// In memory.
    bytes: u64,
    /// Number of those that are not.
    spilled: u64,
    /// Bytes for what is known of blocks that are written in part.
    parts: u64,
}

impl Shadow {
    /// Whether `bytes` more have room in the budget, for what cannot go home.
    ///
    /// # Errors
    /// When they have not.
    pub fn check_room(&self, shadows: &Shadows, bytes: u64) -> Result<(), DiskError> {
        match shadows.used.get().saturating_add(bytes) <= shadows.limit {
            true => Ok(()),
            false => Err(DiskError::ShadowsFull {
                limit_bytes: shadows.limit,
            }),
        }
    }

    /// Whether what is known of blocks that are written in part has room for two more.
    ///
    /// # Errors
    /// When it has not.
    pub fn check_parts(&self, shadows: &Shadows) -> Result<(), DiskError> {
        let limit_bytes = shadows.limit;
        match shadows.parts.get() + 2 * PART_BYTES <= limit_bytes / 2 {
            true => Ok(()),
            false => Err(DiskError::ShadowsFull { limit_bytes }),
        }
    }

    /// Whether `bytes` more have room in memory.
    pub fn has_room(&self, shadows: &Shadows, bytes: u64) -> bool {
        shadows.used.get().saturating_add(bytes) <= shadows.limit
            && self.bytes.saturating_add(bytes) <= shadows.limit / 2
    }

    /// Some of the oldest blocks in memory, at least one if there is any: as many as go home together.
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

    /// Takes room in the budget for what is held besides blocks.
    ///
    /// # Errors
    /// When there is none.
    pub fn charge(&mut self, shadows: &Shadows, bytes: u64) -> Result<(), DiskError> {
        self.check_room(shadows, bytes)?;
        self.count(shadows, bytes, 0);
        Ok(())
    }

    /// Takes a version of a block, of which `part` is the unit's or all.
    pub fn put(&mut self, shadows: &Shadows, key: Key, version: Version, part: Option<Box<Part>>) {
        self.enter(shadows, key, &version);
        if let Some(part) = &part {
            self.count_parts(shadows, part.bytes(), 0);
        }
        if let Some(old) = self.blocks.insert(key, Block { version, part }) {
            self.gone(shadows, old);
        }
    }

    /// The content of a block is in home space now.
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

    /// What is known of a block that the unit has written in part.
    pub fn part(&self, key: Key) -> Option<&Part> {
        if self.parts == 0 {
            return None;
        }
        self.blocks.get(&key)?.part.as_deref()
    }

    /// Whether others have committed to the rest of a block that the unit has written in part.
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
