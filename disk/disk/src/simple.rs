//! Simple operations, each of which is one commit. Those on bytes and sizes are recovery units of their own. Those on lists and
//! blocks are done straight on the committed state (`lists/direct.rs`).

use crate::aru::Content;
use crate::disk::Disk;
use crate::error::DiskError;
use crate::lists::area::Lists;
use crate::lists::shadow::{ListOp, ListShadow};
use crate::lists::{BlockId, ListId};
use crate::map;
use crate::volume::Volume;
use async_recursion::async_recursion as boxed;
use tonearm_base::{LooseBuf, Lsn};
use tonearm_layout::Piece;

impl Disk {
    /// Writes `data` at `offset` of a volume or file, which grows as needed if it is a file.
    ///
    /// # Errors
    /// As for `Aru::write`, and what `Aru::end` says but for a conflict.
    #[boxed(?Send)]
    pub async fn write(&self, volume: &Volume, offset: u64, data: &[u8]) -> Result<Lsn, DiskError> {
        let data = LooseBuf::copy_of(data);
        self.write_buf(volume, offset, data).await
    }

    /// As [`Disk::write`]. Whole aligned blocks are not copied.
    ///
    /// # Errors
    /// As for [`Disk::write`].
    #[boxed(?Send)]
    pub async fn write_buf(
        &self,
        volume: &Volume,
        offset: u64,
        data: LooseBuf,
    ) -> Result<Lsn, DiskError> {
        let content = Content::of(self.core(), offset, data);
        loop {
            let mut aru = self.begin();
            aru.write_content(volume, offset, &content).await?;
            match aru.end().await {
                // Others have made the file shorter. This operation comes after theirs, so it is tried again.
                Err(DiskError::Conflict(_)) => {}
                ended => return ended,
            }
        }
    }

    /// Sets the size of a volume or file. What is cut off is gone; what is added reads as zeroes.
    ///
    /// # Errors
    /// As for `Aru::resize`, and what `Aru::end` says but for a conflict.
    #[boxed(?Send)]
    pub async fn resize(&self, volume: &Volume, size_bytes: u64) -> Result<Lsn, DiskError> {
        loop {
            let mut aru = self.begin();
            aru.resize(volume, size_bytes).await?;
            match aru.end().await {
                Err(DiskError::Conflict(_)) => {}
                ended => return ended,
            }
        }
    }

    /// Reads bytes of adjacent blocks, as committed. `offset` is in bytes, in the order of block identifiers. Blocks that are on
    /// no list have no content that means anything.
    ///
    /// # Errors
    /// When there are no such blocks, damaged, or failed.
    #[boxed(?Send)]
    pub async fn read_blocks(&self, offset: u64, len: u64) -> Result<Vec<Piece>, DiskError> {
        let block = offset / u64::from(self.block_size());
        let area = self.core().area().ok_or(DiskError::NoBlock(block))?;
        area.read(offset, len).await
    }

    /// Most blocks that can be on lists before the store's free space is used for more.
    pub fn list_blocks_max(&self) -> u64 {
        let Lists { zones, pages, .. } = &self.core().lists;
        let (whole, rest) = (
            pages.blocks() / zones.blocks(),
            pages.blocks() % zones.blocks(),
        );
        whole * zones.records() + rest.saturating_sub(zones.blocks() - zones.records())
    }

    /// Behind the last block that can be on a list.
    pub fn list_blocks_end(&self) -> u64 {
        self.core().lists.pages.blocks()
    }

    /// The block of the lists area whose home this is; `None` for the home of another block. It may be a page of records.
    pub fn list_block_at(&self, home: u64) -> Option<BlockId> {
        let area = self.core().lists.pages.volume()?;
        let area = area.borrow();
        map::index(&area.entry.extents, home).map(BlockId)
    }

    /// Makes an empty list.
    ///
    /// # Errors
    /// When the store is full, or failed.
    #[boxed(?Send)]
    pub async fn new_list(&self) -> Result<ListId, DiskError> {
        self.core().new_list().await.map(ListId)
    }

    /// Deletes a list with its blocks.
    ///
    /// # Errors
    /// When there is no such list, or the store is full or failed.
    #[boxed(?Send)]
    pub async fn delete_list(&self, list: ListId) -> Result<(), DiskError> {
        self.core()
            .commit_op(ListOp::DeleteList(list.0), None)
            .await
    }

    /// Makes a block of zeroes on a list, after `after` or at the head.
    ///
    /// # Errors
    /// When there is no such list, `after` is not on it, or the store is full or failed.
    #[boxed(?Send)]
    pub async fn new_block(
        &self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, DiskError> {
        let after = after.map(|after| after.0);
        self.core().new_block(list.0, after).await.map(BlockId)
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// When there is no such block, or the store is full or failed.
    #[boxed(?Send)]
    pub async fn delete_block(&self, block: BlockId) -> Result<(), DiskError> {
        self.core().commit_op(ListOp::Delete(block.0), None).await
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block, `data` is not as long as a block, or the store is full or failed.
    #[boxed(?Send)]
    pub async fn write_block(&self, block: BlockId, data: &[u8]) -> Result<(), DiskError> {
        self.core().write_block(block.0, data).await
    }

    /// Reads a block in the committed state.
    ///
    /// # Errors
    /// When there is no such block, damaged, or failed.
    #[boxed(?Send)]
    pub async fn read_block(&self, block: BlockId) -> Result<Piece, DiskError> {
        self.core().read_block(block.0).await
    }

    /// The blocks of a list in order.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    #[boxed(?Send)]
    pub async fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, DiskError> {
        let blocks = ListShadow::default()
            .walk(&self.core().lists, list.0)
            .await?;
        Ok(blocks.into_iter().map(BlockId).collect())
    }

    /// The number of blocks of a list, as its record says.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    #[boxed(?Send)]
    pub async fn list_len(&self, list: ListId) -> Result<u64, DiskError> {
        let record = self.core().lists.list(list.0).await?;
        Ok(record.ok_or(DiskError::NoList(list.0))?.count)
    }

    /// The list that has a block.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    #[boxed(?Send)]
    pub async fn list_of(&self, block: BlockId) -> Result<ListId, DiskError> {
        let record = self.core().lists.block(block.0).await?;
        Ok(ListId(record.ok_or(DiskError::NoBlock(block.0))?.list))
    }

    /// The first block of a list; `None` when it is empty.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    #[boxed(?Send)]
    pub async fn first_block(&self, list: ListId) -> Result<Option<BlockId>, DiskError> {
        let record = self.core().lists.list(list.0).await?;
        let record = record.ok_or(DiskError::NoList(list.0))?;
        Ok((record.first != 0).then_some(BlockId(record.first)))
    }

    /// The last block of a list; `None` when it is empty.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    #[boxed(?Send)]
    pub async fn last_block(&self, list: ListId) -> Result<Option<BlockId>, DiskError> {
        let record = self.core().lists.list(list.0).await?;
        let record = record.ok_or(DiskError::NoList(list.0))?;
        Ok((record.last != 0).then_some(BlockId(record.last)))
    }

    /// The block after a block; `None` at the end of its list.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    #[boxed(?Send)]
    pub async fn next_block(&self, block: BlockId) -> Result<Option<BlockId>, DiskError> {
        let record = self.core().lists.block(block.0).await?;
        let record = record.ok_or(DiskError::NoBlock(block.0))?;
        Ok((record.next != 0).then_some(BlockId(record.next)))
    }

    /// All lists, by their numbers. Reads the list pages of the whole area.
    ///
    /// # Errors
    /// When a page cannot be read.
    #[boxed(?Send)]
    pub async fn lists(&self) -> Result<Vec<ListId>, DiskError> {
        let (lists, mut found) = (&self.core().lists, Vec::new());
        let zones = lists.zones;
        for zone in 0..lists.pages.blocks().div_ceil(zones.blocks()) {
            for slot in 0..zones.records() {
                let list = zones.list(zone, slot);
                if self.core().lists.list(list).await?.is_some() {
                    found.push(ListId(list));
                }
            }
        }
        Ok(found)
    }
}
