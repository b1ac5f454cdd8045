//! The committed lists: where their records are in the lists area, and which identifiers wait.

use super::Id;
use super::records::{decode_block, decode_list, words_at};
use super::space::Space;
use crate::error::DiskError;
use crate::pages::Pages;
use crate::unit_epochs::UnitEpochs;
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_format::{BlockRecord, ListRecord, RecordAt, Zones};

/// The state of lists in memory.
pub(crate) struct Lists {
    pub zones: Zones,
    /// The lists area, a hidden volume that is created at the first use and grows. Some of its blocks are pages of records.
    pub pages: Rc<Pages>,
    pub space: RefCell<Space>,
    epochs: RefCell<UnitEpochs<Id>>,
}

impl Lists {
    pub fn new(pages: Rc<Pages>, block_size: usize) -> Self {
        Self {
            zones: Zones::new(block_size as u32),
            pages,
            space: RefCell::default(),
            epochs: RefCell::new(UnitEpochs::new()),
        }
    }

    /// Serial number of the area.
    pub fn serial(&self) -> Option<u64> {
        let area = self.pages.volume();
        area.map(|area| area.borrow().serial)
    }

    /// Where the record of a block is; `None` when there is no such block.
    pub fn block_place(&self, block: u64) -> Option<RecordAt> {
        let place = self.zones.block_record(block);
        place.filter(|_| block < self.pages.blocks())
    }

    /// Where the record of a list is; `None` when there is no such list.
    pub fn list_place(&self, list: u64) -> Option<RecordAt> {
        let place = self.zones.list_record(list);
        place.filter(|place| place.page < self.pages.blocks())
    }

    /// The committed record of a block.
    ///
    /// # Errors
    /// When its page cannot be read.
    pub async fn block(&self, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        let Some(place) = self.block_place(id) else {
            return Ok(None);
        };
        let page = self.pages.load(place.page).await?;
        decode_block(words_at(&page, place.at), id)
    }

    /// The committed record of a list.
    ///
    /// # Errors
    /// When its page cannot be read.
    pub async fn list(&self, id: u64) -> Result<Option<ListRecord>, DiskError> {
        let Some(place) = self.list_place(id) else {
            return Ok(None);
        };
        let page = self.pages.load(place.page).await?;
        decode_list(words_at(&page, place.at), id)
    }

    /// Frees identifiers. They are given out again when no open unit can have learned them.
    pub fn free(&self, ids: Vec<Id>) {
        if ids.is_empty() {
            return;
        }
        self.space.borrow_mut().hold(&ids);
        let released = self.epochs.borrow_mut().free(ids);
        self.release(&released);
    }

    /// Lets identifiers be given out again, unless they are in use now.
    pub fn release(&self, ids: &[Id]) {
        self.space.borrow_mut().release(&self.zones, ids);
    }

    /// Begins a recovery unit. Returns its epoch.
    pub fn begin_unit(&self) -> u64 {
        self.epochs.borrow_mut().begin()
    }

    /// Ends a recovery unit of `epoch`.
    pub fn end_unit(&self, epoch: u64) {
        let released = self.epochs.borrow_mut().end(epoch);
        self.release(&released);
    }

    /// True when something that was freed waits for units of `epoch`.
    pub fn is_awaited(&self, epoch: u64) -> bool {
        self.epochs.borrow().is_awaited(epoch)
    }
}
