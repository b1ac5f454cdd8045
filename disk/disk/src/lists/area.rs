//! The lists area: a hidden volume that is created at the first use and grows.

use super::{BlockId, Id, Lists};
use crate::disk::Disk;
use crate::error::DiskError;
use crate::lists::replay::{decode_block, decode_list, words_at};
use crate::map;
use crate::table;
use crate::volume::Volume;
use tonearm_base::Slice;
use tonearm_format::{BlockRecord, ListRecord, RecordAt, VolumeKind};

/// The area may double in size if this takes at most one part in so many of the free space.
const PLENTY: u64 = 8;
/// Blocks of the smallest zone: its two pages and one block.
const ZONE_MIN: u64 = 3;

impl Disk {
    /// Behind the last block that can be on a list.
    pub fn list_blocks_end(&self) -> u64 {
        self.area_blocks()
    }

    pub(crate) fn area_blocks(&self) -> u64 {
        let area = self.list_state().area.borrow();
        let size = area.as_ref().map(|area| area.borrow().entry.size_bytes);
        size.unwrap_or(0) / u64::from(self.block_size())
    }

    /// Home of a block, which must be in the area.
    pub(crate) fn area_home(&self, block: u64) -> u64 {
        let area = self.list_state().area.borrow();
        let area = area.as_ref().expect("there is an area").borrow();
        map::home(&area.entry.extents, block)
    }

    /// The block of the lists area whose home this is; `None` for the home of another block. It may be a page of records.
    pub fn list_block_at(&self, home: u64) -> Option<BlockId> {
        let area = self.list_state().area.borrow();
        let area = area.as_ref()?.borrow();
        map::index(&area.entry.extents, home).map(BlockId)
    }

    pub(crate) fn area_volume(&self) -> Option<Volume> {
        let area = self.list_state().area.borrow().clone()?;
        Some(Volume::new(self.engine(), self.pool(), area))
    }

    /// Where the record of a block is; `None` when there is no such block.
    pub(crate) fn block_place(&self, block: u64) -> Option<RecordAt> {
        let place = self.list_state().zones.block_record(block);
        place.filter(|_| block < self.area_blocks())
    }

    /// Where the record of a list is; `None` when there is no such list.
    pub(crate) fn list_place(&self, list: u64) -> Option<RecordAt> {
        let place = self.list_state().zones.list_record(list);
        place.filter(|place| place.page < self.area_blocks())
    }

    /// A committed page of records.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn list_page(&self, page: u64) -> Result<Slice, DiskError> {
        let home = self.area_home(page);
        self.list_state()
            .pages
            .load(self.engine(), page, home)
            .await
    }

    /// The committed record of a block.
    ///
    /// # Errors
    /// When its page cannot be read.
    pub(crate) async fn committed_block(&self, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        let Some(place) = self.block_place(id) else {
            return Ok(None);
        };
        let page = self.list_page(place.page).await?;
        decode_block(words_at(&page, place.at), id)
    }

    /// The committed record of a list.
    ///
    /// # Errors
    /// When its page cannot be read.
    pub(crate) async fn committed_list(&self, id: u64) -> Result<Option<ListRecord>, DiskError> {
        let Some(place) = self.list_place(id) else {
            return Ok(None);
        };
        let page = self.list_page(place.page).await?;
        decode_list(words_at(&page, place.at), id)
    }

    /// Creates the area, or enlarges it ([`next_size`]). This is a commit of its own.
    ///
    /// # Errors
    /// When the store is full.
    pub(crate) async fn grow_area(&self) -> Result<(), DiskError> {
        let zone = self.list_state().zones.blocks();
        let size = |have, free| next_size(have, free, zone);
        let known = self.list_state().area.borrow().clone();
        let area = self.grow_own(known, table::LISTS, VolumeKind::Lists, size);
        let area = area.await?;
        *self.list_state().area.borrow_mut() = Some(area);
        Ok(())
    }

    /// Frees identifiers. They are given out again when no open unit can have learned them.
    pub(crate) fn free_ids(&self, ids: Vec<Id>) {
        if ids.is_empty() {
            return;
        }
        let lists: &Lists = self.list_state();
        lists.space.borrow_mut().hold(&ids);
        let released = self.eras().free(ids);
        lists.space.borrow_mut().release(&lists.zones, &released);
    }
}

/// Size in blocks to which an area of `have` blocks grows in a store with `free` free blocks: by whole zones ([`map::growth`]),
/// else by a zone, else by the space that is left. `None` if it cannot grow.
fn next_size(have: u64, free: u64, zone: u64) -> Option<u64> {
    for more in [map::growth(have, free, PLENTY), 0] {
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
