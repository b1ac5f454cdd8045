//! List operations over the committed state: those of a recovery unit when it ends, and simple ones.

use super::Id;
use super::area::Lists;
use super::records::{self, Records, decode_block, decode_list, words_at};
use super::shadow::{ListOp, damaged};
use crate::error::DiskError;
use crate::map;
use crate::pages::Edits;
use std::collections::BTreeSet;
use tonearm_base::Slice;
use tonearm_engine::CommitChange;
use tonearm_format::{BlockRecord, ListRecord, RecordAt};

/// The committed pages, with the unit's operations done on copies of them.
pub(crate) struct Replay<'a> {
    lists: &'a Lists,
    edits: Edits,
    /// Blocks that the unit frees.
    pub freed: BTreeSet<u64>,
    freed_lists: Vec<u64>,
}

impl<'a> Replay<'a> {
    pub fn new(lists: &'a Lists) -> Self {
        Self {
            lists,
            edits: Edits::new(&lists.pages),
            freed: BTreeSet::new(),
            freed_lists: Vec::new(),
        }
    }

    /// False when others have committed since.
    pub fn is_current(&self) -> bool {
        self.edits.is_current()
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

    /// Does one operation.
    ///
    /// # Errors
    /// When it is not possible.
    pub async fn redo(&mut self, op: ListOp) -> Result<(), DiskError> {
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
    pub fn changes(self, changes: &mut Vec<CommitChange>) -> Replayed {
        if let Some(area) = self.lists.pages.volume() {
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
        let lists = self.freed_lists.into_iter().map(Id::List);
        let freed = self.freed.into_iter().map(Id::Block);
        Replayed {
            pages: self.edits.finish(changes),
            freed: freed.chain(lists).collect(),
        }
    }

    async fn words(&mut self, place: RecordAt) -> Result<[u64; 2], DiskError> {
        if let Some(page) = self.edits.get(place.page) {
            return Ok(words_at(page, place.at));
        }
        let page = self.lists.pages.load(place.page).await?;
        let words = words_at(&page, place.at);
        self.edits.see(place.page, page);
        Ok(words)
    }

    fn set(&mut self, place: RecordAt, words: [u64; 2]) {
        let page = self.edits.change(place.page);
        let at = place.at as usize;
        page[at..at + 8].copy_from_slice(&words[0].to_le_bytes());
        page[at + 8..at + 16].copy_from_slice(&words[1].to_le_bytes());
    }
}

impl Records for Replay<'_> {
    async fn block(&mut self, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        match self.lists.block_place(id) {
            Some(place) => decode_block(self.words(place).await?, id),
            None => Ok(None),
        }
    }

    async fn list(&mut self, id: u64) -> Result<Option<ListRecord>, DiskError> {
        match self.lists.list_place(id) {
            Some(place) => decode_list(self.words(place).await?, id),
            None => Ok(None),
        }
    }

    fn set_block(&mut self, id: u64, record: Option<BlockRecord>) {
        let place = self.lists.block_place(id).expect("looked up before");
        self.set(place, BlockRecord::encode(record));
    }

    fn set_list(&mut self, id: u64, record: Option<ListRecord>) {
        let place = self.lists.list_place(id).expect("looked up before");
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
    pub fn apply(self, lists: &Lists) {
        lists.pages.commit(self.pages);
        lists.free(self.freed);
    }
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
