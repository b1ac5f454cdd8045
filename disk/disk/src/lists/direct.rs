//! Simple list operations: each is done straight on copies of the committed pages, which it commits. It has no shadow and no
//! log of operations (ARU 3.1). When others commit list operations meanwhile, it is done again on their pages.

use super::replay::Replay;
use super::shadow::ListOp;
use super::{Id, area::Lists};
use crate::core::Core;
use crate::error::DiskError;
use crate::memory::CommitMemory;
use std::rc::Rc;
use tonearm_engine::CommitChange;
use tonearm_layout::Piece;

/// An identifier that an operation has taken. It is free again unless the operation has committed it.
struct Taken<'a> {
    lists: &'a Lists,
    id: Option<Id>,
}

impl Taken<'_> {
    fn committed(mut self) {
        self.lists.release(&Vec::from_iter(self.id.take()));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.lists.free(Vec::from_iter(self.id.take()));
    }
}

impl Core {
    /// Makes an empty list.
    pub async fn new_list(self: &Rc<Self>) -> Result<u64, DiskError> {
        let list = self.take_list().await?;
        self.commit_op(ListOp::NewList(list), Some(Id::List(list)))
            .await?;
        Ok(list)
    }

    /// Makes a block of zeroes on a list, after `after` or at the head.
    pub async fn new_block(
        self: &Rc<Self>,
        list: u64,
        after: Option<u64>,
    ) -> Result<u64, DiskError> {
        let record = self.lists.list(list).await?;
        let near = record.ok_or(DiskError::NoList(list))?.first;
        let block = self.take_block(after.unwrap_or(near), list).await?;
        let insert = ListOp::Insert { block, list, after };
        self.commit_op(insert, Some(Id::Block(block))).await?;
        Ok(block)
    }

    /// Commits an operation, for which `taken` was taken.
    ///
    /// # Errors
    /// When the operation is not possible, the store is full, or failed. `taken` is free then.
    pub async fn commit_op(&self, op: ListOp, taken: Option<Id>) -> Result<(), DiskError> {
        let (lists, engine) = (&self.lists, &self.engine);
        let taken = Taken { lists, id: taken };
        let mut memory = CommitMemory::default();
        loop {
            let mut replay = Replay::new(lists);
            match replay.redo(op).await {
                Ok(()) => {}
                Err(error) if replay.is_current() => return Err(error),
                // It has read pages of different commits.
                Err(_) => continue,
            }
            let (blocks, ranges) = replay.cost();
            memory.reserve(engine, (blocks, ranges)).await?;
            let admission = engine.admit(blocks, ranges).await?;
            if !replay.is_current() {
                continue;
            }
            let mut changes = Vec::new();
            let replayed = replay.changes(&mut changes);
            engine.commit(admission, changes)?;
            // The engine has charged each buffer.
            drop(memory);
            taken.committed();
            replayed.apply(lists);
            return Ok(());
        }
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block, `data` is not as long as a block, or the store is full or failed.
    pub async fn write_block(&self, block: u64, data: &[u8]) -> Result<(), DiskError> {
        let (lists, engine) = (&self.lists, &self.engine);
        let block_bytes = self.block_size();
        let bytes = data.len();
        if bytes as u64 != block_bytes {
            return Err(DiskError::BadBlock { bytes, block_bytes });
        }
        let memory = engine.reserve(block_bytes).await?;
        let admission = engine.admit(1, 0).await?;
        // Between the last look at the block's record and the commit there is no await.
        loop {
            let version = lists.pages.version();
            let there = lists.block(block).await?.is_some();
            match lists.pages.version() == version {
                true if there => break,
                true => return Err(DiskError::NoBlock(block)),
                false => {}
            }
        }
        let first = lists.pages.home(block);
        let data = self.pool.copy_of(data).share();
        engine.commit(admission, vec![CommitChange::Write { first, data }])?;
        drop(memory);
        if let Some(area) = lists.pages.volume() {
            area.borrow().written(block..block + 1);
        }
        Ok(())
    }

    /// Reads a block in the committed state.
    ///
    /// # Errors
    /// When there is no such block, damaged, or failed.
    pub async fn read_block(&self, block: u64) -> Result<Piece, DiskError> {
        let there = self.lists.block(block).await?;
        let area = self.area().filter(|_| there.is_some());
        let area = area.ok_or(DiskError::NoBlock(block))?;
        let bytes = self.block_size();
        let read = area.read(block * bytes, bytes).await?;
        Ok(read
            .into_iter()
            .next()
            .unwrap_or(Piece::Zero(bytes as usize)))
    }
}
