//! Repeats the list operations of a recovery unit over the committed state when the unit ends.

use super::Id;
use super::records::{self, Records};
use super::shadow::{ListOp, damaged};
use crate::disk::Disk;
use crate::error::DiskError;
use crate::map;
use crate::pages::Edits;
use std::collections::BTreeSet;
use tonearm_base::Slice;
use tonearm_engine::CommitChange;
use tonearm_format::{BlockRecord, ListRecord, RecordAt};

/// The committed pages, with the unit's operations done on copies of them.
pub(crate) struct Replay {
    disk: Disk,
    edits: Edits,
    /// Blocks that the unit frees.
    pub freed: BTreeSet<u64>,
    freed_lists: Vec<u64>,
}

impl Replay {
    pub fn new(disk: &Disk) -> Self {
        disk.list_state().pages.hold();
        Self {
            disk: disk.clone(),
            edits: Edits::new(&disk.list_state().pages),
            freed: BTreeSet::new(),
            freed_lists: Vec::new(),
        }
    }

    /// False when others have committed since.
    pub fn is_current(&self) -> bool {
        self.edits.is_current(&self.disk.list_state().pages)
    }

    /// Does the operations, and checks that the blocks `written` exist.
    ///
    /// # Errors
    /// `Conflict` when one of the operations is not possible any more.
    pub async fn run(
        &mut self,
        log: &[ListOp],
        written: impl Iterator<Item = u64>,
    ) -> Result<(), DiskError> {
        for op in log {
            self.redo(*op).await.map_err(conflict)?;
        }
        for block in written {
            if !self.freed.contains(&block) && self.block(block).await?.is_none() {
                return Err(conflict(DiskError::NoBlock(block)));
            }
        }
        Ok(())
    }

    async fn redo(&mut self, op: ListOp) -> Result<(), DiskError> {
        match op {
            ListOp::NewList(list) => {
                if self.list(list).await?.is_some() {
                    return Err(in_use(Id::List(list)));
                }
                self.set_list(list, Some(ListRecord::default()));
            }
            ListOp::DeleteList(list) => {
                let record = records::look_up(self, list).await?;
                let mut at = record.first;
                for _ in 0..record.count {
                    let found = self.block(at).await?;
                    let found = found.filter(|found| found.list == list);
                    let found = found.ok_or_else(|| damaged(list))?;
                    self.set_block(at, None);
                    self.freed.insert(at);
                    at = found.next;
                }
                if at != 0 {
                    return Err(damaged(list));
                }
                self.set_list(list, None);
                self.freed_lists.push(list);
            }
            ListOp::Insert { block, list, after } => {
                if self.block(block).await?.is_some() {
                    return Err(in_use(Id::Block(block)));
                }
                records::insert(self, block, list, after).await?;
            }
            ListOp::Delete(block) => {
                records::remove(self, block).await?;
                self.freed.insert(block);
            }
        }
        Ok(())
    }

    /// Most blocks of data and ranges that [`Replay::changes`] needs.
    pub fn cost(&self) -> (u64, u64) {
        (self.edits.len(), self.freed.len() as u64)
    }

    /// Adds the changes of the operations. The commit must follow without an await, and then [`Replayed::apply`].
    pub fn changes(mut self, changes: &mut Vec<CommitChange>) -> Replayed {
        let area = self.disk.list_state().area.borrow().clone();
        if let Some(area) = area {
            let area = area.borrow();
            let mut freed = self.freed.iter().copied().peekable();
            while let Some(first) = freed.next() {
                let mut count = 1;
                while freed.next_if_eq(&(first + count)).is_some() {
                    count += 1;
                }
                changes.extend(area.runs(first, count).iter().map(map::trim_of));
            }
        }
        let none = Edits::new(&self.disk.list_state().pages);
        let edits = std::mem::replace(&mut self.edits, none);
        let pages = edits.finish(|page| self.disk.area_home(page), changes);
        let lists = self.freed_lists.iter().map(|list| Id::List(*list));
        let freed = self.freed.iter().map(|block| Id::Block(*block));
        Replayed {
            pages,
            freed: freed.chain(lists).collect(),
        }
    }

    async fn words(&mut self, place: RecordAt) -> Result<[u64; 2], DiskError> {
        if let Some(page) = self.edits.get(place.page) {
            return Ok(words_at(page, place.at));
        }
        let page = self.disk.list_page(place.page).await?;
        let words = words_at(&page, place.at);
        self.edits.see(place.page, page);
        Ok(words)
    }

    fn set(&mut self, place: RecordAt, words: [u64; 2]) {
        let page = self.edits.change(place.page, self.disk.pool());
        let at = place.at as usize;
        page[at..at + 8].copy_from_slice(&words[0].to_le_bytes());
        page[at + 8..at + 16].copy_from_slice(&words[1].to_le_bytes());
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.disk.list_state().pages.release();
    }
}

impl Records for Replay {
    async fn block(&mut self, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        match self.disk.block_place(id) {
            Some(place) => decode_block(self.words(place).await?, id),
            None => Ok(None),
        }
    }

    async fn list(&mut self, id: u64) -> Result<Option<ListRecord>, DiskError> {
        match self.disk.list_place(id) {
            Some(place) => decode_list(self.words(place).await?, id),
            None => Ok(None),
        }
    }

    fn set_block(&mut self, id: u64, record: Option<BlockRecord>) {
        let place = self.disk.block_place(id).expect("looked up before");
        self.set(place, BlockRecord::encode(record));
    }

    fn set_list(&mut self, id: u64, record: Option<ListRecord>) {
        let place = self.disk.list_place(id).expect("looked up before");
        self.set(place, ListRecord::encode(record));
    }

    fn broken(&self, list: u64) -> DiskError {
        damaged(list)
    }
}

/// The result of a replay, for use after its commit.
pub(crate) struct Replayed {
    pages: Vec<(u64, Slice)>,
    freed: Vec<Id>,
}

impl Replayed {
    /// Updates the state in memory after the commit.
    pub fn apply(self, disk: &Disk) {
        disk.list_state().pages.commit(self.pages);
        disk.free_ids(self.freed);
    }
}

pub(crate) fn words_at(page: &[u8], at: u32) -> [u64; 2] {
    let (words, _) = page[at as usize..at as usize + 16].as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

pub(crate) fn decode_block(words: [u64; 2], id: u64) -> Result<Option<BlockRecord>, DiskError> {
    BlockRecord::decode(words)
        .map_err(|error| DiskError::ListsDamaged(format!("block {id}: {error}")))
}

pub(crate) fn decode_list(words: [u64; 2], id: u64) -> Result<Option<ListRecord>, DiskError> {
    ListRecord::decode(words)
        .map_err(|error| DiskError::ListsDamaged(format!("list {id}: {error}")))
}

fn in_use(id: Id) -> DiskError {
    DiskError::ListsDamaged(format!("{id:?} was given out and is in use"))
}

/// The error of an operation that was possible in the shadow and is not possible when the unit ends.
fn conflict(error: DiskError) -> DiskError {
    match error {
        DiskError::NoList(_) | DiskError::NoBlock(_) | DiskError::NotOnList { .. } => {
            DiskError::Conflict(error.to_string())
        }
        error => error,
    }
}
