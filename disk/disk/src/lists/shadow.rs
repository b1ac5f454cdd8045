//! Lists as a recovery unit sees them: its own records over the committed ones, and the log of its list operations,
//! which are repeated when the unit ends (ARU 4).

use super::Id;
use super::area::Lists;
use super::records::Records;
use crate::error::DiskError;
use std::collections::BTreeMap;
use tonearm_format::{BlockRecord, ListRecord};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ListOp {
    NewList(u64),
    DeleteList(u64),
    Insert {
        block: u64,
        list: u64,
        after: Option<u64>,
    },
    Delete(u64),
}

/// A unit's lists.
#[derive(Default)]
pub(crate) struct ListShadow {
    blocks: BTreeMap<u64, Option<BlockRecord>>,
    lists: BTreeMap<u64, Option<ListRecord>>,
    pub log: Vec<ListOp>,
    /// The identifiers that the unit has taken.
    pub taken: Vec<Id>,
}

impl ListShadow {
    /// A block that is on a list, as the unit sees it. `None` for a block of a list that the unit has deleted: the
    /// deletion does not change the records of the list's blocks.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn block(&self, lists: &Lists, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        let record = match self.blocks.get(&id) {
            Some(record) => *record,
            None => lists.block(id).await?,
        };
        let deleted = |record: &BlockRecord| matches!(self.lists.get(&record.list), Some(None));
        Ok(record.filter(|record| !deleted(record)))
    }

    /// A list, as the unit sees it.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn list(&self, lists: &Lists, id: u64) -> Result<Option<ListRecord>, DiskError> {
        match self.lists.get(&id) {
            Some(record) => Ok(*record),
            None => lists.list(id).await,
        }
    }

    /// The blocks of a list in order.
    ///
    /// # Errors
    /// When there is no such list, or others have changed it so that the unit's records do not match it any more.
    pub async fn walk(&self, lists: &Lists, list: u64) -> Result<Vec<u64>, DiskError> {
        let pages = &lists.pages;
        'again: loop {
            let version = pages.version();
            let record = self.list(lists, list).await?;
            let record = record.ok_or(DiskError::NoList(list))?;
            let mut blocks = Vec::with_capacity(record.count.min(1 << 16) as usize);
            let (mut at, limit) = (record.first, pages.blocks());
            while at != 0 {
                let found = self.block(lists, at).await?;
                if pages.version() != version {
                    continue 'again;
                }
                match found.filter(|found| found.list == list && (blocks.len() as u64) < limit) {
                    Some(found) => {
                        blocks.push(at);
                        at = found.next;
                    }
                    None if self.log.is_empty() => return Err(damaged(list)),
                    None => return Err(changed(list)),
                }
            }
            return Ok(blocks);
        }
    }
}

/// A unit's lists, to be changed.
pub(crate) struct View<'a> {
    pub lists: &'a Lists,
    pub shadow: &'a mut ListShadow,
}

impl Records for View<'_> {
    async fn block(&mut self, id: u64) -> Result<Option<BlockRecord>, DiskError> {
        self.shadow.block(self.lists, id).await
    }

    async fn list(&mut self, id: u64) -> Result<Option<ListRecord>, DiskError> {
        self.shadow.list(self.lists, id).await
    }

    fn set_block(&mut self, id: u64, record: Option<BlockRecord>) {
        self.shadow.blocks.insert(id, record);
    }

    fn set_list(&mut self, id: u64, record: Option<ListRecord>) {
        self.shadow.lists.insert(id, record);
    }

    fn broken(&self, list: u64) -> DiskError {
        changed(list)
    }
}

/// The error when a unit's own records and records that others have committed no longer form a list.
fn changed(list: u64) -> DiskError {
    DiskError::Conflict(format!("list {list} has been changed in the same place"))
}

/// The error when committed records do not form a list.
pub(crate) fn damaged(list: u64) -> DiskError {
    DiskError::ListsDamaged(format!("the records of list {list} are no chain"))
}
