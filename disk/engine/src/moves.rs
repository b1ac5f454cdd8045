//! Content that goes home without the log, and the commits that give it its place.
//!
//! What is too large for memory is written straight to blocks that nobody has ([`Engine::spill`]), and is
//! durable there before a commit names it ([`CommitChange::Move`]). The write-back copies it to its place.
//!
//! What the caller keeps: before blocks are spilled into, no recovery may see a commit that changes them or
//! moves something from them ([`Engine::retire`]); else the replay would change what the spill has written,
//! or miss what it has written over.

use crate::commit::CommitChange;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::pinned::Moved;
use tonearm_base::{BufPool, Lsn, Slice, crc32c};
use tonearm_layout::{Home, HomeBlock, HomeError, Piece};

impl Engine {
    /// Writes `data`, one block each, to the blocks from `first` on; durable there when it returns. They must
    /// be nobody's, and retired ([`Engine::retire`]). Gives the CRC-32C of each, for the commit that moves them.
    ///
    /// # Errors
    /// When the store is read-only or its home cannot be written. If the medium below is full, it can be tried
    /// again.
    ///
    /// # Panics
    /// When a commit that changes one of the blocks is not home yet.
    pub async fn spill(&self, first: u64, data: Vec<Slice>) -> Result<Vec<u32>, EngineError> {
        self.check_writable()?;
        let end = first + data.len() as u64;
        self.check_range(first, data.len() as u64)?;
        {
            let state = self.0.state.borrow();
            let known = (first..end).any(|block| state.pinned.get(block).is_some());
            assert!(!known, "blocks that are spilled into are retired");
        }
        // Who reads them is the scrub, which looks at whole groups, and who began while a block was still moved from here.
        while self.is_being_read(first, end) {
            self.0.idle.wait().await;
        }
        self.0.state.borrow_mut().spilling.push((first, end));
        let crcs: Vec<u32> = data.iter().map(|block| crc32c(block)).collect();
        let blocks = (first..).zip(data).zip(&crcs);
        let blocks = blocks.map(|((block, data), crc)| HomeBlock {
            block,
            data,
            crc: *crc,
        });
        let (engine, blocks) = (self.clone(), blocks.collect());
        // A task of its own: what writes home is driven to its end.
        let written = self.0.rt.spawn(async move {
            let written = engine.0.home.write_back(Vec::new(), blocks).await;
            let mut state = engine.0.state.borrow_mut();
            state.spilling.retain(|range| *range != (first, end));
            drop(state);
            engine.0.idle.notify();
            written
        });
        match written.await {
            Ok(()) => Ok(crcs),
            Err(error @ (HomeError::NoSpace { .. } | HomeError::Full { .. })) => Err(error.into()),
            Err(error) => Err(self.fail(error.into())),
        }
    }

    /// Waits until all commits up to `lsn` are durable at home and no recovery would see one of them.
    ///
    /// # Errors
    /// When the store fails meanwhile.
    pub async fn retire(&self, lsn: Lsn) -> Result<(), EngineError> {
        let mut through = lsn;
        while self.0.trail.replayed_from() <= lsn {
            self.write_home(through).await?;
            // The log head moves with the next record. Any will do: the first block as it is.
            let admission = self.admit(1, 1).await?;
            let (pieces, guard) = self.read_for_merge(0).await?;
            let newest = self.cached(0).or(pieces.first().cloned());
            let same = match newest {
                Some(Piece::Data(data)) => CommitChange::Write { first: 0, data },
                _ => CommitChange::Zero { first: 0, count: 1 },
            };
            let made = self.commit(admission, vec![same])?;
            drop(guard);
            self.wait_durable(made).await?;
            // The record of `lsn` may hold later commits, too: then these must be at home.
            through = made;
        }
        Ok(())
    }

    /// Waits until all commits up to `lsn` are durable at home.
    async fn write_home(&self, lsn: Lsn) -> Result<(), EngineError> {
        self.wait_durable(lsn).await?;
        self.write_back_until(|| self.0.trail.retained_from() > lsn)
            .await
    }

    fn is_being_read(&self, first: u64, end: u64) -> bool {
        let state = self.0.state.borrow();
        let mut reads = state.reads.values();
        reads.any(|(start, stop)| first < *stop && *start < end)
    }
}

/// Reads the content of moved blocks, in runs of those that lie side by side.
///
/// A block that is damaged where it lies stays an error: it gets zeroes and the checksum of what it should be,
/// so that whoever reads it is told, and the store goes on.
///
/// # Errors
/// When a device fails.
pub(crate) async fn read(home: &dyn Home, moved: &[Moved]) -> Result<Vec<HomeBlock>, HomeError> {
    let mut blocks = Vec::with_capacity(moved.len());
    for run in moved.chunk_by(|a, b| a.block + 1 == b.block && a.from + 1 == b.from) {
        match home.read(run[0].from, run.len() as u64).await {
            Ok(pieces) => take(home, run, pieces, &mut blocks),
            Err(HomeError::Checksum { .. } | HomeError::Table { .. }) => {
                for one in run {
                    let pieces = match home.read(one.from, 1).await {
                        Err(HomeError::Checksum { .. } | HomeError::Table { .. }) => Vec::new(),
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
