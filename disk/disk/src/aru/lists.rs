//! Lists and blocks in a recovery unit.

use super::Aru;
use crate::error::DiskError;
use crate::lists::records::{self, Records};
use crate::lists::shadow::{ListOp, View};
use crate::lists::{BlockId, Id, ListId};
use async_recursion::async_recursion as boxed;
use tonearm_base::LooseBuf;
use tonearm_format::ListRecord;
use tonearm_layout::Piece;

/// Memory in bytes that a list operation is charged: for its records and its entry in the log.
const OP_BYTES: u64 = 256;

impl Aru {
    /// Makes an empty list. No other unit gets its identifier from now on. Others see the list when the unit ends.
    ///
    /// # Errors
    /// When the store or memory is full, or failed.
    #[boxed(?Send)]
    pub async fn new_list(&mut self) -> Result<ListId, DiskError> {
        self.charge_op()?;
        let list = self.core.take_list().await?;
        self.lists.taken.push(Id::List(list));
        self.records().set_list(list, Some(ListRecord::default()));
        self.lists.log.push(ListOp::NewList(list));
        Ok(ListId(list))
    }

    /// Deletes a list with its blocks. The unit does not walk the list before its end.
    ///
    /// # Errors
    /// When there is no such list.
    #[boxed(?Send)]
    pub async fn delete_list(&mut self, list: ListId) -> Result<(), DiskError> {
        self.charge_op()?;
        records::look_up(&mut self.records(), list.0).await?;
        self.records().set_list(list.0, None);
        self.lists.log.push(ListOp::DeleteList(list.0));
        Ok(())
    }

    /// Makes a block of zeroes on a list, after `after` or at the head, near its predecessor. No other unit gets its
    /// identifier from now on. Others see the block on the list when the unit ends.
    ///
    /// # Errors
    /// When there is no such list, `after` is not on it, the store or memory is full, or failed.
    #[boxed(?Send)]
    pub async fn new_block(
        &mut self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, DiskError> {
        self.charge_op()?;
        let after = after.map(|after| after.0);
        let near = records::look_up(&mut self.records(), list.0).await?.first;
        if let Some(after) = after {
            records::on_list(&mut self.records(), after, list.0).await?;
        }
        let block = self.core.take_block(after.unwrap_or(near), list.0).await?;
        self.lists.taken.push(Id::Block(block));
        records::insert(&mut self.records(), block, list.0, after).await?;
        let list = list.0;
        self.lists.log.push(ListOp::Insert { block, list, after });
        Ok(BlockId(block))
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// When there is no such block.
    #[boxed(?Send)]
    pub async fn delete_block(&mut self, block: BlockId) -> Result<(), DiskError> {
        self.charge_op()?;
        records::remove(&mut self.records(), block.0).await?;
        self.lists.log.push(ListOp::Delete(block.0));
        if let Some(serial) = self.core.lists.serial() {
            self.shadow.remove(&self.core.shadows, (serial, block.0));
        }
        Ok(())
    }

    /// As [`Aru::delete_block`], for a block that must be on `list`.
    ///
    /// # Errors
    /// Also when it is on another list.
    #[boxed(?Send)]
    pub async fn delete_block_of(&mut self, list: ListId, block: BlockId) -> Result<(), DiskError> {
        records::on_list(&mut self.records(), block.0, list.0).await?;
        self.delete_block(block).await
    }

    /// Reads a block.
    ///
    /// # Errors
    /// When there is no such block, damaged, or failed.
    #[boxed(?Send)]
    pub async fn read_block(&self, block: BlockId) -> Result<Piece, DiskError> {
        let area = self.core.area();
        let area = area.ok_or(DiskError::NoBlock(block.0))?;
        if self.lists.block(&self.core.lists, block.0).await?.is_none() {
            return Err(DiskError::NoBlock(block.0));
        }
        let read = self.blocks(&area, block.0, block.0 + 1).await?;
        let block_size = self.block() as usize;
        Ok(read.into_iter().next().unwrap_or(Piece::Zero(block_size)))
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block, `data` is not as long as a block, memory is full, or failed.
    #[boxed(?Send)]
    pub async fn write_block(&mut self, block: BlockId, data: &[u8]) -> Result<(), DiskError> {
        let block_size = self.block();
        if data.len() as u64 != block_size {
            return Err(DiskError::BadBlock {
                bytes: data.len(),
                block_bytes: block_size,
            });
        }
        let there = self.lists.block(&self.core.lists, block.0).await?;
        let area = self.core.area().filter(|_| there.is_some());
        let area = area.ok_or(DiskError::NoBlock(block.0))?;
        self.write(&area, block.0 * block_size, data).await
    }

    /// Writes bytes of adjacent blocks, which are on lists: the end of the unit checks that. `offset` is in bytes, in the
    /// order of block identifiers.
    ///
    /// # Errors
    /// When there are no such blocks, memory is full, or failed.
    #[boxed(?Send)]
    pub async fn write_blocks(&mut self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        let area = self.core.area();
        let area = area.ok_or(DiskError::NoBlock(offset / self.block()))?;
        self.write(&area, offset, data).await
    }

    /// As [`Aru::write_blocks`]. Whole aligned blocks become the unit's without a copy.
    ///
    /// # Errors
    /// As for [`Aru::write_blocks`].
    #[boxed(?Send)]
    pub async fn write_blocks_buf(&mut self, offset: u64, data: LooseBuf) -> Result<(), DiskError> {
        let area = self.core.area();
        let area = area.ok_or(DiskError::NoBlock(offset / self.block()))?;
        self.write_buf(&area, offset, data).await
    }

    /// Reads bytes of adjacent blocks as the unit sees them. `offset` is as for [`Aru::write_blocks`].
    ///
    /// # Errors
    /// When there are no such blocks, damaged, or failed.
    #[boxed(?Send)]
    pub async fn read_blocks(&self, offset: u64, len: u64) -> Result<Vec<Piece>, DiskError> {
        let area = self.core.area();
        let area = area.ok_or(DiskError::NoBlock(offset / self.block()))?;
        self.read(&area, offset, len).await
    }

    /// The blocks of a list in order.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    #[boxed(?Send)]
    pub async fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, DiskError> {
        let blocks = self.lists.walk(&self.core.lists, list.0).await?;
        Ok(blocks.into_iter().map(BlockId).collect())
    }

    fn records(&mut self) -> View<'_> {
        View {
            lists: &self.core.lists,
            shadow: &mut self.lists,
        }
    }

    fn charge_op(&mut self) -> Result<(), DiskError> {
        self.charge(OP_BYTES)
    }
}
