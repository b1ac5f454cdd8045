//! Content that is written home without the log, and the commits that move it to its place.
//!
//! Content that is too large for memory is written straight to unused blocks ([`Engine::spill`]). It is durable there
//! before a commit names it ([`CommitChange::Move`]). The write-back copies it to its place.
//!
//! What the caller must ensure: before blocks are spilled into, no recovery sees a commit that changes them or moves
//! content from them ([`Engine::retire`]). Otherwise the replay would change what the spill has written, or miss what
//! the spill has overwritten.

use crate::commit::CommitChange;
use crate::engine::Engine;
use crate::error::EngineError;
use async_recursion::async_recursion as boxed;
use tonearm_base::{Lsn, Slice, crc32c};
use tonearm_layout::{HomeBlock, HomeError, Piece};
use tonearm_trail::FlushCause;

impl Engine {
    /// Writes `data`, one block each, to the blocks from `first` on; they are durable there when it returns. These
    /// blocks must be unused, and retired ([`Engine::retire`]). Gives the CRC-32C of each, for the commit that moves
    /// them.
    ///
    /// # Errors
    /// When the store is read-only or its home cannot be written. If the medium below is full, it can be tried
    /// again.
    ///
    /// # Panics
    /// When a commit that changes one of the blocks is not home yet.
    #[boxed(?Send)]
    pub async fn spill(&self, first: u64, data: Vec<Slice>) -> Result<Vec<u32>, EngineError> {
        self.0.check_writable()?;
        let end = first + data.len() as u64;
        self.0.assert_range(first, data.len() as u64);
        {
            let pinned = self.0.pinned.borrow();
            let known = (first..end).any(|block| pinned.get(block).is_some());
            assert!(!known, "blocks that are spilled into are retired");
        }
        // Readers: the scrub, which looks at whole groups, and a read that began while a block was still moved from
        // here.
        while self.0.access.is_read(first, end) {
            self.0.access.changed.wait().await;
        }
        self.0.access.begin_spill(first, end);
        let crcs: Vec<u32> = data.iter().map(|block| crc32c(block)).collect();
        let blocks = (first..).zip(data).zip(&crcs);
        let blocks = blocks.map(|((block, data), crc)| HomeBlock {
            block,
            data,
            crc: *crc,
        });
        let (engine, blocks) = (self.clone(), blocks.collect());
        // A task of its own: the caller may drop this future, and a write of the home must be driven to its end.
        let written = self.0.rt.spawn(async move {
            let written = engine.0.home.write_back(Vec::new(), blocks).await;
            engine.0.access.end_spill(first, end);
            written
        });
        match written.await {
            Ok(()) => Ok(crcs),
            Err(error @ (HomeError::NoSpace { .. } | HomeError::Full { .. })) => Err(error.into()),
            Err(error) => Err(self.0.fail(error.into())),
        }
    }

    /// Waits until all commits up to `lsn` are durable at home and no recovery would see any of them.
    ///
    /// # Errors
    /// When the store fails meanwhile.
    pub async fn retire(&self, lsn: Lsn) -> Result<(), EngineError> {
        self.retire_by(lsn).await.map(|_| ())
    }

    /// As [`Engine::retire`]. Gives the commit that it has made last, if it has made any.
    pub(crate) async fn retire_by(&self, lsn: Lsn) -> Result<Option<Lsn>, EngineError> {
        let (mut through, mut last) = (lsn, None);
        while self.0.trail.replayed_from() <= lsn {
            self.write_home(through).await?;
            // The log start moves with the next record. Any record serves, so this commits the first block unchanged.
            // The guard keeps the write-back away, so memory has every version of the block that is committed during
            // the read.
            let admission = self.admit(1, 1).await?;
            let guard = self.0.access.read(0, 1);
            let pieces = self.read(0, 1).await?;
            let same = match self.cached(0).or(pieces.into_iter().next()) {
                Some(Piece::Data(data)) => CommitChange::Write { first: 0, data },
                _ => CommitChange::Zero { first: 0, count: 1 },
            };
            let made = self.commit(admission, vec![same])?;
            drop(guard);
            self.make_durable(made, FlushCause::Checkpoint).await?;
            // The record of `lsn` may hold later commits, too: then these must be at home as well.
            (through, last) = (made, Some(made));
        }
        Ok(last)
    }

    /// Waits until all commits up to `lsn` are durable at home.
    async fn write_home(&self, lsn: Lsn) -> Result<(), EngineError> {
        self.make_durable(lsn, FlushCause::Checkpoint).await?;
        let is_home = || self.0.trail.retained_from() > lsn;
        self.0.write_back.until(is_home).await
    }
}
