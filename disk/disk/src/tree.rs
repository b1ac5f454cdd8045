//! The pages of the file system's tree: a hidden volume that grows. The end of a recovery unit changes them.
//!
//! What a page means is the file system's matter. It changes pages in a function that has no await ([`TreeEdit`]). The
//! function runs over the committed pages. When one is not in memory, it stops, and runs again from the start once the page
//! is loaded. It also runs again when another unit has changed pages before this one ends. So operations on the tree are
//! serialised by the ends of their units, without locks.

use crate::disk::Disk;
use crate::error::DiskError;
use crate::map;
use crate::pages::{Edits, Pages};
use crate::state::SharedVolume;
use crate::table;
use crate::volume::Volume;
use std::cell::RefCell;
use tonearm_base::Slice;
use tonearm_engine::CommitChange;
use tonearm_format::VolumeKind;

/// Pages by which the tree grows at least, if there is space.
const GROWTH_PAGES: u64 = 64;
/// The tree may double in size if this takes at most one part in so many of the free space.
const PLENTY: u64 = 16;

/// Pages that are kept for changes that free space, beside one in so many.
const KEPT_PAGES: u64 = 16;
const KEPT_PART: u64 = 32;

/// Why a [`TreeEdit`] has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeStop {
    /// This page is not in memory.
    Missing(u64),
    /// The tree has no free page.
    Full,
    /// The operation is not possible. The function keeps its reason for its caller.
    Refused,
}

/// A change of the tree. It may run several times, each time over pages without its earlier changes.
pub type TreeEdit = Box<dyn FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>>;

/// The state of the tree in memory.
pub(crate) struct Tree {
    pub pages: Pages,
    /// The pages' volume, once there is one.
    volume: RefCell<Option<SharedVolume>>,
}

impl Tree {
    pub fn new(pages: Pages, volume: Option<SharedVolume>) -> Self {
        let volume = RefCell::new(volume);
        Self { pages, volume }
    }
}

/// The pages as one operation sees them.
pub struct TreePages<'a> {
    disk: &'a Disk,
    edits: &'a mut Edits,
    /// The change frees space.
    frees: bool,
}

impl TreePages<'_> {
    /// A page. Pages that were never written are zeroes.
    ///
    /// # Errors
    /// [`TreeStop::Missing`].
    pub fn page(&mut self, page: u64) -> Result<&[u8], TreeStop> {
        self.see(page)?;
        Ok(self.edits.get(page).expect("it has just been seen"))
    }

    /// A page, to be changed.
    ///
    /// # Errors
    /// [`TreeStop::Missing`].
    pub fn page_mut(&mut self, page: u64) -> Result<&mut [u8], TreeStop> {
        self.see(page)?;
        Ok(self.edits.change(page, self.disk.pool()))
    }

    /// Pages that there are.
    pub fn count(&self) -> u64 {
        self.disk.tree_blocks()
    }

    /// Pages that this change must leave free: a change that frees space may need some itself.
    pub fn kept(&self) -> u64 {
        let count = self.count();
        if self.frees {
            0
        } else {
            KEPT_PAGES.min(count / 8) + count / KEPT_PART
        }
    }

    /// Behind the last block that can be on a list.
    pub fn list_blocks_end(&self) -> u64 {
        self.disk.area_blocks()
    }

    fn see(&mut self, page: u64) -> Result<(), TreeStop> {
        if self.edits.get(page).is_some() {
            return Ok(());
        }
        let known = self.disk.tree().pages.known(page);
        let known = known.ok_or(TreeStop::Missing(page))?;
        self.edits.see(page, known);
        Ok(())
    }
}

/// The changes of the pages that the end of a unit makes.
pub(crate) struct TreeChanges {
    disk: Disk,
    edits: Edits,
}

impl TreeChanges {
    fn new(disk: &Disk) -> Self {
        // The pages that it has loaded stay in memory while it lives, so that it comes to an end.
        disk.tree().pages.hold();
        Self {
            disk: disk.clone(),
            edits: Edits::new(&disk.tree().pages),
        }
    }

    /// False when others have committed since.
    pub fn is_current(&self) -> bool {
        self.edits.is_current(&self.disk.tree().pages)
    }

    /// Most blocks of data that [`TreeChanges::finish`] adds.
    pub fn cost(&self) -> u64 {
        self.edits.len()
    }

    /// Adds the changes. The commit must follow without an await, and then [`Pages::commit`] of the result.
    pub fn finish(mut self, changes: &mut Vec<CommitChange>) -> Vec<(u64, Slice)> {
        let none = Edits::new(&self.disk.tree().pages);
        let edits = std::mem::replace(&mut self.edits, none);
        edits.finish(|page| self.disk.tree_home(page), changes)
    }

    /// Runs `edit` over the present pages. If it `frees` space, it may use the pages that are kept for that.
    ///
    /// # Errors
    /// When a page cannot be read, the store is full, or the function refuses.
    pub async fn run(
        disk: &Disk,
        frees: bool,
        mut edit: impl FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>,
    ) -> Result<Self, DiskError> {
        let mut held = Self::new(disk);
        loop {
            held.edits = Edits::new(&disk.tree().pages);
            let edits = &mut held.edits;
            match edit(&mut TreePages { disk, edits, frees }) {
                Ok(()) => return Ok(held),
                Err(TreeStop::Missing(page)) if page < disk.tree_blocks() => {
                    let home = disk.tree_home(page);
                    let pages = &disk.tree().pages;
                    pages.load(disk.engine(), page, home).await?;
                }
                Err(TreeStop::Missing(page)) => return Err(DiskError::NoTreePage(page)),
                Err(TreeStop::Full) => disk.grow_tree().await?,
                Err(TreeStop::Refused) => return Err(DiskError::Refused),
            }
        }
    }
}

impl Drop for TreeChanges {
    fn drop(&mut self) {
        self.disk.tree().pages.release();
    }
}

impl Disk {
    /// Runs `look` over the committed pages of the tree. What it changes is dropped.
    ///
    /// # Errors
    /// When a page cannot be read, or the function refuses.
    pub async fn look_at_tree(
        &self,
        look: impl FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>,
    ) -> Result<(), DiskError> {
        TreeChanges::run(self, false, look).await.map(|_| ())
    }

    /// True when the store has a tree.
    pub fn has_tree(&self) -> bool {
        self.tree().volume.borrow().is_some()
    }

    fn tree_blocks(&self) -> u64 {
        let volume = self.tree().volume.borrow();
        let size = volume
            .as_ref()
            .map(|volume| volume.borrow().entry.size_bytes);
        size.unwrap_or(0) / u64::from(self.block_size())
    }

    fn tree_home(&self, page: u64) -> u64 {
        let volume = self.tree().volume.borrow();
        let volume = volume.as_ref().expect("there is a tree").borrow();
        map::home(&volume.entry.extents, page)
    }

    /// Makes the tree's volume, or enlarges it ([`map::growth`]). This is a commit of its own.
    ///
    /// # Errors
    /// When the store is full.
    async fn grow_tree(&self) -> Result<(), DiskError> {
        let size = |have, free| {
            let more = map::growth(have, free, PLENTY).max(GROWTH_PAGES);
            (free > 0).then_some(have + more.min(free))
        };
        let known = self.tree().volume.borrow().clone();
        let grown = self.grow_own(known, table::TREE, VolumeKind::Tree, size);
        let grown = grown.await?;
        *self.tree().volume.borrow_mut() = Some(grown);
        Ok(())
    }

    /// Makes one of the disk's own volumes, or enlarges it to the number of blocks that `size` makes of those that it has and
    /// those that are free; `None` when that is too few. This is a commit of its own. One volume grows at a time: while one grows,
    /// what it takes is neither the volume's nor free, so that another caller would want a smaller size, which cuts off what units
    /// have put after it, or finds a store full that is not.
    ///
    /// # Errors
    /// When the store is full or has failed.
    pub(crate) async fn grow_own(
        &self,
        known: Option<SharedVolume>,
        name: &str,
        kind: VolumeKind,
        size: impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<SharedVolume, DiskError> {
        let block_size = u64::from(self.block_size());
        let blocks_of = |volume: &SharedVolume| volume.borrow().entry.size_bytes / block_size;
        let have = known.as_ref().map_or(0, blocks_of);
        let _turn = self.growth().acquire(1).await;
        let larger = || {
            let there = self.table().of_kind(kind);
            there.filter(|there| blocks_of(there) > have)
        };
        let mut free = self.free_bytes() / block_size;
        let mut error = DiskError::StoreFull {
            free_bytes: free * block_size,
            needed_bytes: block_size,
        };
        loop {
            if let Some(there) = larger() {
                return Ok(there);
            }
            let Some(blocks) = size(have, free) else {
                return Err(error);
            };
            let mut unit = self.begin();
            let volume = match &known {
                Some(known) => Volume::new(self.engine(), self.pool(), known.clone()),
                None => {
                    let superblock = self.engine().superblock();
                    let (store, made) = (superblock.store, superblock.created_unix_s);
                    unit.create(name, kind, store, made)?
                }
            };
            let grown = match unit.resize(&volume, blocks * block_size).await {
                Ok(()) => unit.end().await.map(drop),
                Err(error) => Err(error),
            };
            match grown {
                Ok(()) => {}
                // Less may be left by now, or in too many pieces.
                Err(full) if full.is_full() => {
                    free = (blocks - have).min(free) / 2;
                    error = full;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
