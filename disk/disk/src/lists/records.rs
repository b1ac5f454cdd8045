//! List operations over records, in a unit's shadow or in the committed state.

use crate::error::DiskError;
use tonearm_format::{BlockRecord, LIST_ID_LIMIT, ListRecord};

/// Records that can be looked up and changed.
pub(crate) trait Records {
    /// A block that is on a list.
    async fn block(&mut self, id: u64) -> Result<Option<BlockRecord>, DiskError>;
    /// A list.
    async fn list(&mut self, id: u64) -> Result<Option<ListRecord>, DiskError>;
    /// Changes a block's record, which has been looked up before.
    fn set_block(&mut self, id: u64, record: Option<BlockRecord>);
    /// Changes a list's record, which has been looked up before.
    fn set_list(&mut self, id: u64, record: Option<ListRecord>);
    /// The error for a list whose neighbour is missing.
    fn broken(&self, list: u64) -> DiskError;
}

/// Inserts a free block after `after`, or at the head of the list.
///
/// # Errors
/// When there is no such list, or `after` is not on it. Nothing has changed then.
pub(crate) async fn insert(
    records: &mut impl Records,
    block: u64,
    list: u64,
    after: Option<u64>,
) -> Result<(), DiskError> {
    let mut of_list = look_up(records, list).await?;
    let before = match after {
        None => None,
        Some(after) => Some((after, on_list(records, after, list).await?)),
    };
    let next = before.map_or(of_list.first, |(_, record)| record.next);
    let next_record = neighbour(records, next, list).await?;
    records.block(block).await?;

    if of_list.count + 1 == LIST_ID_LIMIT {
        return Err(records.broken(list));
    }
    of_list.count += 1;
    match before {
        Some((id, record)) => {
            let next = block;
            records.set_block(id, Some(BlockRecord { next, ..record }));
        }
        None => of_list.first = block,
    }
    match next_record {
        Some(record) => {
            let prev = block;
            records.set_block(next, Some(BlockRecord { prev, ..record }));
        }
        None => of_list.last = block,
    }
    let prev = after.unwrap_or(0);
    records.set_block(block, Some(BlockRecord { next, prev, list }));
    records.set_list(list, Some(of_list));
    Ok(())
}

/// Takes a block off its list.
///
/// # Errors
/// When it is on none. Nothing has changed then.
pub(crate) async fn remove(records: &mut impl Records, block: u64) -> Result<(), DiskError> {
    let record = records.block(block).await?;
    let record = record.ok_or(DiskError::NoBlock(block))?;
    let list = record.list;
    let Some(mut of_list) = records.list(list).await? else {
        return Err(records.broken(list));
    };
    let before = neighbour(records, record.prev, list).await?;
    let after = neighbour(records, record.next, list).await?;
    if of_list.count == 0 {
        return Err(records.broken(list));
    }

    of_list.count -= 1;
    match before {
        Some(other) => {
            let next = record.next;
            records.set_block(record.prev, Some(BlockRecord { next, ..other }));
        }
        None => of_list.first = record.next,
    }
    match after {
        Some(other) => {
            let prev = record.prev;
            records.set_block(record.next, Some(BlockRecord { prev, ..other }));
        }
        None => of_list.last = record.prev,
    }
    records.set_block(block, None);
    records.set_list(list, Some(of_list));
    Ok(())
}

/// The record of the list.
///
/// # Errors
/// When there is no such list.
pub(crate) async fn look_up(
    records: &mut impl Records,
    list: u64,
) -> Result<ListRecord, DiskError> {
    let record = records.list(list).await?;
    record.ok_or(DiskError::NoList(list))
}

/// The record of a block that must be on the list.
///
/// # Errors
/// When it is not.
pub(crate) async fn on_list(
    records: &mut impl Records,
    block: u64,
    list: u64,
) -> Result<BlockRecord, DiskError> {
    match records.block(block).await? {
        Some(record) if record.list == list => Ok(record),
        Some(_) => Err(DiskError::NotOnList { block, list }),
        None => Err(DiskError::NoBlock(block)),
    }
}

async fn neighbour(
    records: &mut impl Records,
    block: u64,
    list: u64,
) -> Result<Option<BlockRecord>, DiskError> {
    if block == 0 {
        return Ok(None);
    }
    match records.block(block).await? {
        Some(record) if record.list == list => Ok(Some(record)),
        _ => Err(records.broken(list)),
    }
}

/// The words of the record at byte `at` of a page.
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
