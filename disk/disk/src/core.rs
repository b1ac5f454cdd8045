//! The state of an open store that its volumes, lists and recovery units share.

use crate::error::DiskError;
use crate::lists::area::Lists;
use crate::pages::Pages;
use crate::shadow::Shadows;
use crate::state::SharedVolume;
use crate::table::{SharedTable, Table};
use crate::volume::Volume;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_engine::Engine;
use tonearm_format::VolumeKind;
use tonearm_rt::{Rt, Semaphore};

/// The cache of list pages may hold memory of its own: the store's memory divided by this.
const PAGES_SHARE: u64 = 32;
/// The cache of pages of the tree may hold memory of its own: the store's memory divided by this.
const TREE_SHARE: u64 = 8;
/// Pages that a cache may hold at least.
const PAGES_MIN: u64 = 4;
/// Shadows may hold memory of their own: the store's memory divided by this. Other shadows go to home space.
const SHADOW_SHARE: u64 = 4;

/// Ends an open unit that holds space, and returns true, or finds none.
pub(crate) type Reclaim = Box<dyn Fn() -> bool>;

pub(crate) struct Core {
    pub engine: Engine,
    pub pool: BufPool,
    table: SharedTable,
    pub shadows: Shadows,
    pub lists: Lists,
    /// The pages of the tree of files.
    pub tree: Rc<Pages>,
    /// One of the disk's own volumes is enlarged at a time.
    pub growth: Semaphore,
    pub reclaim: RefCell<Option<Reclaim>>,
}

impl Core {
    pub fn new(rt: &Rt, pool: &BufPool, engine: Engine, table: Table) -> Self {
        let memory_bytes = engine.options().memory_bytes;
        let pages = |share: u64, kind: VolumeKind| {
            let count = memory_bytes / share / engine.block_size() as u64;
            let limit = count.max(PAGES_MIN) as usize;
            Rc::new(Pages::new(&engine, pool, limit, table.of_kind(kind)))
        };
        let lists = Lists::new(pages(PAGES_SHARE, VolumeKind::Lists), engine.block_size());
        let tree = pages(TREE_SHARE, VolumeKind::Tree);
        let table = Rc::new(RefCell::new(table));
        let shadows = Shadows::new(rt, pool, &engine, &table, memory_bytes / SHADOW_SHARE);
        Self {
            engine,
            pool: pool.clone(),
            table,
            shadows,
            lists,
            tree,
            growth: Semaphore::new(rt, 1),
            reclaim: RefCell::new(None),
        }
    }

    /// The volume table. The borrow must not live over an await.
    pub fn table(&self) -> RefMut<'_, Table> {
        self.table.borrow_mut()
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u64 {
        self.engine.block_size() as u64
    }

    /// Bytes that no volume has.
    pub fn free_bytes(&self) -> u64 {
        let free = self.table().free(self.engine.size_blocks());
        free.iter().map(|extent| extent.count).sum::<u64>() * self.block_size()
    }

    /// A handle on a volume.
    pub fn handle(&self, shared: SharedVolume) -> Volume {
        Volume::new(&self.engine, &self.pool, shared)
    }

    /// A volume of a user; the disk's own volumes have no name here.
    ///
    /// # Errors
    /// When there is none.
    pub fn volume(&self, name: &str) -> Result<Volume, DiskError> {
        let table = self.table();
        let found = table.volumes.get(name);
        let found = found.filter(|volume| volume.borrow().entry.kind == VolumeKind::Plain);
        let found = found.ok_or_else(|| DiskError::NoVolume(name.to_string()))?;
        Ok(self.handle(found.clone()))
    }

    /// The lists area as a volume.
    pub fn area(&self) -> Option<Volume> {
        Some(self.handle(self.lists.pages.volume()?))
    }

    /// Has an open unit ended that holds space. False when there is none.
    pub fn reclaim(&self) -> bool {
        let reclaim = self.reclaim.borrow();
        reclaim.as_ref().is_some_and(|reclaim| reclaim())
    }
}
