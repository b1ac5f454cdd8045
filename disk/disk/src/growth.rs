//! Growth of the disk's own volumes: the lists area and the pages of the tree.
//!
//! A unit that finds its volume full enlarges it by another unit, which uses neither lists nor the tree.

use crate::aru::Aru;
use crate::core::Core;
use crate::error::DiskError;
use crate::map;
use crate::pages::Pages;
use crate::state::SharedVolume;
use crate::table;
use std::rc::Rc;
use tonearm_format::VolumeKind;

/// The lists area may double in size if this takes at most one part in so many of the free space.
const LISTS_PLENTY: u64 = 8;
/// Blocks of the smallest zone of the lists area: its two pages and one block.
const ZONE_MIN: u64 = 3;

/// Pages by which the tree grows at least, if there is space.
const TREE_PAGES: u64 = 64;
/// The tree may double in size if this takes at most one part in so many of the free space.
const TREE_PLENTY: u64 = 16;

impl Core {
    /// Creates the lists area, or enlarges it ([`next_size`]). This is a commit of its own.
    ///
    /// # Errors
    /// When the store is full.
    pub async fn grow_lists(self: &Rc<Self>) -> Result<(), DiskError> {
        let zone = self.lists.zones.blocks();
        let size = |have, free| next_size(have, free, zone);
        self.grow(&self.lists.pages, table::LISTS, VolumeKind::Lists, size)
            .await
    }

    /// Makes the tree's volume, or enlarges it ([`map::growth`]). This is a commit of its own.
    ///
    /// # Errors
    /// When the store is full.
    pub async fn grow_tree(self: &Rc<Self>) -> Result<(), DiskError> {
        let size = |have, free| {
            let more = map::growth(have, free, TREE_PLENTY).max(TREE_PAGES);
            (free > 0).then_some(have + more.min(free))
        };
        self.grow(&self.tree, table::TREE, VolumeKind::Tree, size)
            .await
    }

    /// Makes one of the disk's own volumes, or enlarges it to the number of blocks that `size` makes of those that it has and
    /// those that are free; `None` when that is too few. One volume grows at a time: while one grows, what it takes is neither
    /// the volume's nor free, so that another caller would want a smaller size, which cuts off what units have put after it, or
    /// finds a store full that is not.
    ///
    /// # Errors
    /// When the store is full or has failed.
    async fn grow(
        self: &Rc<Self>,
        pages: &Pages,
        name: &str,
        kind: VolumeKind,
        size: impl Fn(u64, u64) -> Option<u64>,
    ) -> Result<(), DiskError> {
        let block_size = self.block_size();
        let blocks_of = |volume: &SharedVolume| volume.borrow().entry.size_bytes / block_size;
        let known = pages.volume();
        let have = known.as_ref().map_or(0, blocks_of);
        let _turn = self.growth.acquire(1).await;
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
                pages.set_volume(there);
                return Ok(());
            }
            let Some(blocks) = size(have, free) else {
                return Err(error);
            };
            let mut unit = Aru::begin(self);
            let volume = match &known {
                Some(known) => self.handle(known.clone()),
                None => {
                    let superblock = self.engine.superblock();
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

/// Size in blocks to which an area of `have` blocks grows in a store with `free` free blocks: by whole zones ([`map::growth`]),
/// else by a zone, else by the space that is left. `None` if it cannot grow.
fn next_size(have: u64, free: u64, zone: u64) -> Option<u64> {
    for more in [map::growth(have, free, LISTS_PLENTY), 0] {
        let size = (have + more.max(1)).next_multiple_of(zone);
        if size - have <= free {
            return Some(size);
        }
    }
    let begun = have % zone;
    (begun + free >= ZONE_MIN && free > 0).then_some(have + free)
}

#[cfg(test)]
mod tests {
    use super::next_size;

    /// Each growth is a commit that callers wait for, and an extent if something else has grown meanwhile.
    #[test]
    fn an_area_grows_in_proportion_until_the_store_is_full() {
        for size in [1000u64, 1 << 16, 1 << 21, 1 << 31] {
            let (mut have, mut growths) = (0, 0);
            while let Some(larger) = next_size(have, size - have, 258) {
                assert!(larger > have && larger <= size, "{have} to {larger}");
                (have, growths) = (larger, growths + 1);
            }
            assert!(size - have < 3, "{} of {size} are left", size - have);
            assert!(growths <= 100, "{growths} growths to {size}");
        }
    }
}
