//! The Logical Disk's interface (ARU 2 and 3): that of the product, and that of a disk with sequential units (ARU, Table 1).

use super::sequential::{self, Sequential};
use tonearm_disk::{Aru, BlockId, Disk, DiskError, ListId};

/// Lists of blocks, recovery units over them, and simple operations. Clones are the same disk.
#[derive(Clone)]
pub enum LogicalDisk {
    /// "new": the disk of a store.
    Concurrent(Disk),
    /// "old": the same store with one unit at a time.
    Sequential(Sequential),
}

/// An open recovery unit.
#[expect(
    clippy::large_enum_variant,
    reason = "an allocation would count as processor time of one variant"
)]
pub enum Unit {
    /// One of several.
    Concurrent(Aru),
    /// The only one.
    Sequential(sequential::Unit),
}

/// Makes the lists area of a store large enough for `count` more blocks.
///
/// # Errors
/// When the store is full, or failed.
pub async fn reserve_blocks(disk: &Disk, count: u64) -> Result<(), DiskError> {
    let mut unit = disk.begin();
    let list = unit.new_list().await?;
    for _ in 0..count {
        unit.new_block(list, None).await?;
    }
    // The area has grown, whatever becomes of the unit.
    unit.abort();
    Ok(())
}

impl LogicalDisk {
    /// Begins a unit.
    pub fn begin(&self) -> Unit {
        match self {
            Self::Concurrent(disk) => Unit::Concurrent(disk.begin()),
            Self::Sequential(disk) => Unit::Sequential(disk.begin()),
        }
    }

    /// Makes a block on a list: a simple operation.
    ///
    /// # Errors
    /// When there is no such list, the store is full, or failed.
    pub async fn new_block(
        &self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, DiskError> {
        match self {
            Self::Concurrent(disk) => disk.new_block(list, after).await,
            Self::Sequential(disk) => {
                let mut unit = disk.begin();
                let block = unit.new_block(list, after)?;
                unit.end().await?;
                Ok(block)
            }
        }
    }

    /// Writes a block, as a whole: a simple operation.
    ///
    /// # Errors
    /// When there is no such block, the store is full, or failed.
    pub async fn write_block(&self, block: BlockId, data: &[u8]) -> Result<(), DiskError> {
        match self {
            Self::Concurrent(disk) => disk.write_block(block, data).await,
            Self::Sequential(disk) => {
                let mut unit = disk.begin();
                unit.write_block(block, data)?;
                unit.end().await
            }
        }
    }

    /// Reads a block, as committed.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    pub async fn read_block(&self, block: BlockId) -> Result<Vec<u8>, DiskError> {
        let piece = match self {
            Self::Concurrent(disk) => disk.read_block(block).await?,
            Self::Sequential(disk) => disk.read_block(block).await?,
        };
        let mut data = Vec::with_capacity(piece.len());
        piece.append_to(&mut data);
        Ok(data)
    }

    /// The blocks of a list in order, as committed.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    pub async fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, DiskError> {
        match self {
            Self::Concurrent(disk) => disk.list_blocks(list).await,
            Self::Sequential(disk) => disk.list_blocks(list),
        }
    }

    /// The store below.
    pub fn store(&self) -> &Disk {
        match self {
            Self::Concurrent(disk) => disk,
            Self::Sequential(disk) => disk.store(),
        }
    }
}

impl Unit {
    /// Makes an empty list.
    ///
    /// # Errors
    /// When the store is full, or failed.
    pub async fn new_list(&mut self) -> Result<ListId, DiskError> {
        match self {
            Self::Concurrent(unit) => unit.new_list().await,
            Self::Sequential(unit) => unit.new_list(),
        }
    }

    /// Deletes a list with its blocks.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    pub async fn delete_list(&mut self, list: ListId) -> Result<(), DiskError> {
        match self {
            Self::Concurrent(unit) => unit.delete_list(list).await,
            Self::Sequential(unit) => unit.delete_list(list),
        }
    }

    /// Makes a block of zeroes on a list, after `after` or at the head.
    ///
    /// # Errors
    /// When there is no such list, the store is full, or failed.
    pub async fn new_block(
        &mut self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, DiskError> {
        match self {
            Self::Concurrent(unit) => unit.new_block(list, after).await,
            Self::Sequential(unit) => unit.new_block(list, after),
        }
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    pub async fn delete_block(&mut self, block: BlockId) -> Result<(), DiskError> {
        match self {
            Self::Concurrent(unit) => unit.delete_block(block).await,
            Self::Sequential(unit) => unit.delete_block(block),
        }
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    pub async fn write_block(&mut self, block: BlockId, data: &[u8]) -> Result<(), DiskError> {
        match self {
            Self::Concurrent(unit) => unit.write_block(block, data).await,
            Self::Sequential(unit) => unit.write_block(block, data),
        }
    }

    /// Ends the unit.
    ///
    /// # Errors
    /// When others have made it impossible, the store is full, or failed.
    pub async fn end(self) -> Result<(), DiskError> {
        match self {
            Self::Concurrent(unit) => unit.end().await.map(drop),
            Self::Sequential(unit) => unit.end().await,
        }
    }
}
