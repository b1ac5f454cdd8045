//! Shadow versions: what an open recovery unit has written and nobody else sees (ARU 3.1).
//!
//! Invariants:
//! 1. A shadow is a whole block; of several versions of a block within one unit only the newest is kept.
//! 2. The shadows of all open units together stay within a budget of their own, and those of one unit within
//!    half of it; the oldest of a unit that asks for more go to home space (`spill.rs`). In memory they hold
//!    none of the write path's, so that units which stay open cannot stop it; a unit takes that memory when it
//!    ends.

use crate::error::DiskError;
use crate::spill::{Spill, Spilled};
use base::{Buf, BufPool, Lsn, Slice};
use rt::{Permit, Rt};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// Most bytes that go home together.
const SPILL_BYTES: u64 = 4 << 20;

/// Which version a read of a block returns (ARU 3.3). Changes always go by the unit's own shadow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Visibility {
    /// Within a unit its own shadow, else the committed version: the paper's third option.
    #[default]
    Own,
    /// The committed version, also within a unit: the second option.
    Committed,
    /// The newest shadow of any unit: the first option. Only shadows written while this is set are seen.
    AnyShadow,
}

/// A block that may have a shadow: serial number of its volume, and its index there.
pub(crate) type Key = (u64, u64);

/// A shadow of one block.
#[derive(Clone)]
pub(crate) enum Version {
    Memory(Slice),
    Spilled(Spilled),
}

/// Versions of one block in open units, the newest last, each with the number of its unit.
type Versions = Vec<(u64, Version)>;

/// What the shadows of all units have in common.
pub(crate) struct Shadows {
    pub spill: Spill,
    limit: u64,
    used: Cell<u64>,
    visibility: Cell<Visibility>,
    /// Shadows by identifier, for [`Visibility::AnyShadow`] alone.
    versions: RefCell<BTreeMap<Key, Versions>>,
}

impl Shadows {
    pub fn new(rt: &Rt, limit: u64) -> Self {
        Self {
            spill: Spill::new(rt),
            limit,
            used: Cell::new(0),
            visibility: Cell::default(),
            versions: RefCell::default(),
        }
    }

    pub fn visibility(&self) -> Visibility {
        self.visibility.get()
    }

    pub fn set_visibility(&self, visibility: Visibility) {
        self.visibility.set(visibility);
    }

    /// Bytes that shadows may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that shadows hold.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// The newest shadow of any unit.
    pub fn newest(&self, key: Key) -> Option<Version> {
        let versions = self.versions.borrow();
        let (_, newest) = versions.get(&key)?.last()?;
        Some(newest.clone())
    }

    /// First block of the range that has a shadow in any unit.
    pub fn next(&self, serial: u64, range: Range<u64>) -> Option<u64> {
        let keys = (serial, range.start)..(serial, range.end);
        let versions = self.versions.borrow();
        versions.range(keys).next().map(|((_, index), _)| *index)
    }

    fn forget(&self, key: Key, unit: u64) {
        let mut versions = self.versions.borrow_mut();
        if let Some(of_key) = versions.get_mut(&key) {
            of_key.retain(|(of, _)| *of != unit);
            if of_key.is_empty() {
                versions.remove(&key);
            }
        }
    }
}

/// Memory of the write path, which the buffers of a unit share once it has ended.
#[derive(Default)]
struct Lease(RefCell<Option<Permit>>);

/// The shadow blocks of one unit.
pub(crate) struct Shadow {
    /// Number of the unit.
    unit: u64,
    blocks: BTreeMap<Key, Version>,
    /// Blocks that are in memory, the oldest first, and some that are not any more.
    ages: VecDeque<Key>,
    /// In memory.
    bytes: u64,
    /// Number of those that are not.
    spilled: u64,
    lease: Option<Rc<Lease>>,
    /// Some are in [`Shadows::versions`].
    indexed: bool,
}

impl Shadow {
    pub fn new(unit: u64) -> Self {
        Self {
            unit,
            blocks: BTreeMap::new(),
            ages: VecDeque::new(),
            bytes: 0,
            spilled: 0,
            lease: None,
            indexed: false,
        }
    }

    /// A buffer for shadows of `len` bytes, paid for by [`Shadow::put`] and [`Shadow::pay`].
    pub fn alloc(&mut self, pool: &BufPool, len: usize) -> Buf {
        let lease = self.lease.get_or_insert_default();
        let mut buf = pool.alloc(len);
        buf.attach(lease.clone());
        buf
    }

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

    /// Whether `bytes` more have room in memory.
    pub fn has_room(&self, shadows: &Shadows, bytes: u64) -> bool {
        shadows.used.get().saturating_add(bytes) <= shadows.limit
            && self.bytes.saturating_add(bytes) <= shadows.limit / 2
    }

    /// Some of the oldest blocks in memory, at least one if there is any: as many as go home together.
    pub fn oldest(&mut self, shadows: &Shadows) -> Vec<(Key, Slice)> {
        let bytes_max = (shadows.limit / 8).min(SPILL_BYTES);
        let (blocks, mut oldest, mut bytes) = (&self.blocks, BTreeMap::new(), 0);
        let in_memory = |key: &Key| match blocks.get(key) {
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

    /// Takes a version of a block.
    pub fn put(&mut self, shadows: &Shadows, key: Key, version: Version) {
        if shadows.visibility() == Visibility::AnyShadow || self.indexed {
            self.indexed = true;
            shadows.forget(key, self.unit);
            let mut versions = shadows.versions.borrow_mut();
            versions
                .entry(key)
                .or_default()
                .push((self.unit, version.clone()));
        }
        match &version {
            Version::Memory(data) => {
                self.count(shadows, data.len() as u64, 0);
                self.ages.push_back(key);
            }
            Version::Spilled(_) => self.spilled += 1,
        }
        if let Some(old) = self.blocks.insert(key, version) {
            self.gone(shadows, old);
        }
    }

    fn gone(&mut self, shadows: &Shadows, version: Version) {
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

    /// The unit's version of a block.
    pub fn get(&self, key: Key) -> Option<&Version> {
        self.blocks.get(&key)
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
        if let Some(version) = self.blocks.remove(&key) {
            self.gone(shadows, version);
            if self.indexed {
                shadows.forget(key, self.unit);
            }
        }
    }

    /// All shadows, in the order of their keys.
    pub fn blocks(&self) -> impl Iterator<Item = (Key, &Version)> {
        self.blocks.iter().map(|(key, version)| (*key, version))
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

    /// The unit ends: its buffers are paid for by `permit` from now on.
    pub fn pay(&mut self, permit: Option<Permit>) {
        if let Some(lease) = &self.lease {
            *lease.0.borrow_mut() = permit;
        }
    }

    /// The unit has ended with commit `lsn`, which moves what was spilled.
    pub fn committed(&mut self, shadows: &Shadows, lsn: Lsn) {
        if self.spilled == 0 {
            return;
        }
        let moved = self
            .blocks
            .extract_if(.., |_, version| matches!(version, Version::Spilled(_)));
        let blocks = moved.filter_map(|(key, version)| {
            if self.indexed {
                shadows.forget(key, self.unit);
            }
            match version {
                Version::Spilled(spilled) => Some(spilled.block),
                Version::Memory(_) => None,
            }
        });
        shadows.spill.moved(lsn, blocks);
        self.spilled = 0;
    }

    /// Drops all shadows.
    pub fn clear(&mut self, shadows: &Shadows) {
        for (key, version) in std::mem::take(&mut self.blocks) {
            if self.indexed {
                shadows.forget(key, self.unit);
            }
            self.gone(shadows, version);
        }
        self.count(shadows, 0, self.bytes);
    }
}
