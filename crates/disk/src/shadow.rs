//! Shadow versions: what an open recovery unit has written and nobody else sees (ARU 3.1).
//!
//! Invariants:
//! 1. A shadow is a whole block; of several versions of a block within one unit only the newest is kept.
//! 2. The shadows of all open units together stay within a budget of their own. They hold no memory of the
//!    write path, so that units which stay open cannot stop it; a unit takes that memory when it ends.

use crate::error::DiskError;
use base::{Buf, BufPool, Slice};
use rt::Permit;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

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

/// Versions of one block in open units, the newest last, each with the number of its unit.
type Versions = Vec<(u64, Slice)>;

/// What the shadows of all units have in common.
pub(crate) struct Shadows {
    limit: u64,
    used: Cell<u64>,
    visibility: Cell<Visibility>,
    /// Shadows by identifier, for [`Visibility::AnyShadow`] alone.
    versions: RefCell<BTreeMap<Key, Versions>>,
}

impl Shadows {
    pub fn new(limit: u64) -> Self {
        Self {
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

    /// Bytes that shadows hold.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// The newest shadow of any unit.
    pub fn newest(&self, key: Key) -> Option<Slice> {
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
    blocks: BTreeMap<Key, Slice>,
    bytes: u64,
    lease: Option<Rc<Lease>>,
    /// Some are in [`Shadows::versions`].
    indexed: bool,
}

impl Shadow {
    pub fn new(unit: u64) -> Self {
        Self {
            unit,
            blocks: BTreeMap::new(),
            bytes: 0,
            lease: None,
            indexed: false,
        }
    }

    /// A buffer for shadows of `len` bytes, paid for by [`Shadow::put`] and [`Shadow::pay`].
    pub fn alloc(&mut self, pool: &BufPool, len: usize) -> Buf {
        let lease = self.lease.get_or_insert_default();
        let mut buf = pool.alloc(len);
        buf.attach(Box::new(lease.clone()));
        buf
    }

    /// Whether `bytes` more have room in the budget.
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

    /// Takes a version of a block. [`Shadow::check_room`] comes before.
    pub fn put(&mut self, shadows: &Shadows, key: Key, data: Slice) {
        if shadows.visibility() == Visibility::AnyShadow {
            self.indexed = true;
            shadows.forget(key, self.unit);
            let mut versions = shadows.versions.borrow_mut();
            versions
                .entry(key)
                .or_default()
                .push((self.unit, data.clone()));
        }
        let bytes = data.len() as u64;
        let old = self.blocks.insert(key, data);
        let old_bytes = old.map_or(0, |old| old.len() as u64);
        self.bytes += bytes - old_bytes;
        shadows.used.set(shadows.used.get() + bytes - old_bytes);
    }

    /// The unit's version of a block.
    pub fn get(&self, key: Key) -> Option<&Slice> {
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
        if let Some(data) = self.blocks.remove(&key) {
            let bytes = data.len() as u64;
            self.bytes -= bytes;
            shadows.used.set(shadows.used.get() - bytes);
            if self.indexed {
                shadows.forget(key, self.unit);
            }
        }
    }

    /// All shadows, in the order of their keys.
    pub fn blocks(&self) -> impl Iterator<Item = (Key, &Slice)> {
        self.blocks.iter().map(|(key, data)| (*key, data))
    }

    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The unit ends: its buffers are paid for by `permit` from now on.
    pub fn pay(&mut self, permit: Permit) {
        if let Some(lease) = &self.lease {
            *lease.0.borrow_mut() = Some(permit);
        }
    }

    /// Drops all shadows.
    pub fn clear(&mut self, shadows: &Shadows) {
        if self.indexed {
            for key in self.blocks.keys() {
                shadows.forget(*key, self.unit);
            }
        }
        shadows.used.set(shadows.used.get() - self.bytes);
        self.bytes = 0;
        self.blocks.clear();
    }
}
