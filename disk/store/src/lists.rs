//! Lists of blocks for threads: in a recovery unit, and as simple operations, which are units of their own.

use crate::aru::Aru;
use crate::error::StoreError;
use crate::store::{Context, Store};
use tonearm_disk::{BlockId, DiskError, ListId, Piece};

/// A list is an ordered sequence of blocks that are written and read as a whole. Its order guides where they are
/// placed.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.tn");
/// use tonearm_store::{CreateOptions, Store, StoreOptions, create};
///
/// create(&path, &CreateOptions::default())?;
/// let store = Store::open(&path, StoreOptions::default())?;
/// let block_size = store.block_size()? as usize;
///
/// let mut unit = store.begin()?;
/// let list = unit.new_list()?;
/// let inode = unit.new_block(list, None)?;
/// let data = unit.new_block(list, Some(inode))?;
/// unit.write_block(inode, &vec![1; block_size])?;
/// assert!(store.list_blocks(list).is_err(), "nobody else sees it yet");
/// let lsn = unit.end()?;
/// assert_eq!(store.list_blocks(list)?, [inode, data]);
/// assert_eq!(store.read_block(inode)?, vec![1; block_size]);
/// assert_eq!(store.read_block(data)?, vec![0; block_size]);
/// store.wait_durable(lsn)?;
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Aru {
    /// Makes an empty list. No other unit gets its identifier from now on. Others see the list when the unit ends.
    ///
    /// # Errors
    /// When the store or memory is full, read-only, or failed.
    pub fn new_list(&mut self) -> Result<ListId, StoreError> {
        self.run(async move |aru, _| aru.new_list().await)
    }

    /// Deletes a list with its blocks. The unit does not walk the list before its end.
    ///
    /// # Errors
    /// When there is no such list.
    pub fn delete_list(&mut self, list: ListId) -> Result<(), StoreError> {
        self.run(async move |aru, _| aru.delete_list(list).await)
    }

    /// Makes a block of zeroes on a list, after `after` or at the head, and places it near its predecessor. No other
    /// unit gets its identifier from now on. Others see the block on the list when the unit ends.
    ///
    /// # Errors
    /// When there is no such list, `after` is not on it, the store or memory is full, or failed.
    pub fn new_block(
        &mut self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, StoreError> {
        self.run(async move |aru, _| aru.new_block(list, after).await)
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// When there is no such block.
    pub fn delete_block(&mut self, block: BlockId) -> Result<(), StoreError> {
        self.run(async move |aru, _| aru.delete_block(block).await)
    }

    /// Reads a block as the unit sees it: [`Store::block_size`] bytes.
    ///
    /// # Errors
    /// When there is no such block, damaged, or failed.
    pub fn read_block(&self, block: BlockId) -> Result<Vec<u8>, StoreError> {
        self.run(async move |aru, _| {
            let piece = aru.read_block(block).await?;
            Ok(Piece::concat(&[piece]))
        })
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block, `data` is not as long as a block, memory is full, or failed.
    pub fn write_block(&mut self, block: BlockId, data: &[u8]) -> Result<(), StoreError> {
        let data = data.to_vec();
        self.run(async move |aru, _| aru.write_block(block, &data).await)
    }

    /// The blocks of a list in order, as the unit sees them.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    pub fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, StoreError> {
        self.run(async move |aru, _| aru.list_blocks(list).await)
    }
}

/// Lists outside units. Each change is a unit of its own, durable with [`Store::flush`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.tn");
/// # use tonearm_store::{CreateOptions, Store, StoreOptions, create};
/// # create(&path, &CreateOptions::default())?;
/// let store = Store::open(&path, StoreOptions::default())?;
/// let list = store.new_list()?;
/// let second = store.new_block(list, None)?;
/// let first = store.new_block(list, None)?;
/// store.write_block(first, &vec![1; store.block_size()? as usize])?;
/// assert_eq!(store.list_blocks(list)?, [first, second]);
/// store.delete_block(second)?;
/// store.flush()?;
/// assert_eq!(store.lists()?, [list]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Store {
    /// Bytes of a block.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn block_size(&self) -> Result<u32, StoreError> {
        self.run(|context| async move { context.disk.block_size() })
    }

    /// All lists, by their numbers. Reads the records of all lists.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn lists(&self) -> Result<Vec<ListId>, StoreError> {
        self.simple(async move |context| context.disk.lists().await)
    }

    /// Makes an empty list.
    ///
    /// # Errors
    /// As for [`Aru::new_list`] and [`Aru::end`].
    pub fn new_list(&self) -> Result<ListId, StoreError> {
        self.simple(async move |context| context.disk.new_list().await)
    }

    /// Deletes a list with its blocks.
    ///
    /// # Errors
    /// As for [`Aru::delete_list`] and [`Aru::end`].
    pub fn delete_list(&self, list: ListId) -> Result<(), StoreError> {
        self.simple(async move |context| context.disk.delete_list(list).await)
    }

    /// Makes a block of zeroes on a list, after `after` or at the head.
    ///
    /// # Errors
    /// As for [`Aru::new_block`] and [`Aru::end`].
    pub fn new_block(&self, list: ListId, after: Option<BlockId>) -> Result<BlockId, StoreError> {
        self.simple(async move |context| context.disk.new_block(list, after).await)
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// As for [`Aru::delete_block`] and [`Aru::end`].
    pub fn delete_block(&self, block: BlockId) -> Result<(), StoreError> {
        self.simple(async move |context| context.disk.delete_block(block).await)
    }

    /// Reads a block in the committed state: [`Store::block_size`] bytes.
    ///
    /// # Errors
    /// When there is no such block, damaged, or failed.
    pub fn read_block(&self, block: BlockId) -> Result<Vec<u8>, StoreError> {
        self.simple(async move |context| {
            let piece = context.disk.read_block(block).await?;
            Ok(Piece::concat(&[piece]))
        })
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// As for [`Aru::write_block`] and [`Aru::end`].
    pub fn write_block(&self, block: BlockId, data: &[u8]) -> Result<(), StoreError> {
        let data = data.to_vec();
        self.simple(async move |context| context.disk.write_block(block, &data).await)
    }

    /// The blocks of a list in order, in the committed state.
    ///
    /// # Errors
    /// When there is no such list, or failed.
    pub fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, StoreError> {
        self.simple(async move |context| context.disk.list_blocks(list).await)
    }

    fn simple<T: Send + 'static>(
        &self,
        operation: impl AsyncFnOnce(Context) -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, StoreError> {
        Ok(self.run(move |context| async move { operation(context).await })??)
    }
}
