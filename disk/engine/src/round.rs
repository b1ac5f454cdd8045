//! One round of write-back: a batch of the pinned set is written back. Recovery makes rounds, too.

use crate::pinned::{Batch, LogRetention, Moved, Order, Pinned};
use std::cell::RefCell;
use tonearm_base::{BufPool, Lsn};
use tonearm_layout::{Home, HomeBlock, HomeError, Piece, Reader};

/// The result of a round.
pub(crate) struct Done {
    /// Blocks written home.
    pub blocks: u64,
    /// Number of those blocks that got a newer version meanwhile.
    pub superseded: u64,
    /// The block after the last one, if there are any.
    pub next: Option<u64>,
}

/// Takes up to `blocks_max` blocks in `order`, and all ranges, as far as they may be written back, and makes them durable
/// there; `None` when nothing may. Blocks for which `busy` holds stay.
///
/// # Errors
/// When the home fails or has no space: everything is still to be done.
pub(crate) async fn write_back_batch(
    home: &dyn Home,
    pinned: &RefCell<Pinned>,
    holds: &dyn LogRetention,
    durable: Lsn,
    order: Order<'_>,
    blocks_max: usize,
    busy: impl Fn(u64) -> bool,
) -> Result<Option<Done>, HomeError> {
    let batch = pinned
        .borrow_mut()
        .start_batch(durable, order, blocks_max, busy);
    if batch.is_empty() {
        return Ok(None);
    }
    let Batch {
        ranges,
        mut blocks,
        moved,
        placed,
        written,
    } = batch;
    let range_count = ranges.len();
    let result = async {
        blocks.extend(read_moved(home, &moved).await?);
        blocks.sort_by_key(|block| block.block);
        if !ranges.is_empty() || !blocks.is_empty() {
            home.write_back(ranges, blocks).await?;
        }
        match home.indirect() {
            Some(indirect) if !placed.is_empty() => indirect.enter(placed).await,
            _ => Ok(()),
        }
    };
    let result = result.await;
    let mut pinned = pinned.borrow_mut();
    if let Err(error) = result {
        pinned.cancel_batch(&written, holds);
        return Err(error);
    }
    let before = pinned.block_count() as u64;
    pinned.finish_batch(range_count, &written, holds);
    let freed = before - pinned.block_count() as u64;
    let blocks = written.len() as u64;
    Ok(Some(Done {
        blocks,
        superseded: blocks - freed.min(blocks),
        next: written.last().map(|(block, _)| block + 1),
    }))
}

/// Reads the content of moved blocks, in runs of adjacent blocks.
///
/// A damaged source block does not fail the round: its destination gets zeroes, with the checksum of the lost content.
/// Reads of the destination then give an error, and the store goes on.
///
/// # Errors
/// When a device fails.
async fn read_moved(home: &dyn Home, moved: &[Moved]) -> Result<Vec<HomeBlock>, HomeError> {
    let mut blocks = Vec::with_capacity(moved.len());
    for run in moved.chunk_by(|a, b| a.block + 1 == b.block && a.from + 1 == b.from) {
        match home
            .read(run[0].from, run.len() as u64, Reader::Store)
            .await
        {
            Ok(pieces) => take(home, run, pieces, &mut blocks),
            Err(error) if error.is_damage() => {
                for one in run {
                    let pieces = match home.read(one.from, 1, Reader::Store).await {
                        Err(error) if error.is_damage() => Vec::new(),
                        other => other?,
                    };
                    take(home, std::slice::from_ref(one), pieces, &mut blocks);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(blocks)
}

fn take(home: &dyn Home, run: &[Moved], pieces: Vec<Piece>, blocks: &mut Vec<HomeBlock>) {
    let size = home.shape().block_size;
    let zeroes = || BufPool::new(0).alloc_zeroed(size).share();
    let mut contents = pieces.into_iter().flat_map(|piece| match piece {
        Piece::Data(data) => (0..data.len())
            .step_by(size)
            .map(|at| data.slice(at..at + size))
            .collect::<Vec<_>>(),
        Piece::Zero(bytes) => vec![zeroes(); bytes / size],
    });
    blocks.extend(run.iter().map(|one| HomeBlock {
        block: one.block,
        data: contents.next().unwrap_or_else(zeroes),
        crc: one.crc,
    }));
}
