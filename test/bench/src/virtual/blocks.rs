//! Blocks that are written through the engine, and compared with what was written.

use anyhow::ensure;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_bench::Contents;
use tonearm_engine::{CommitChange, Engine, EngineError};
use tonearm_format::SYSTEM_BLOCKS;
use tonearm_layout::Piece;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Blocks that the check reads with one read.
const CHECK_BLOCKS: u64 = 256;

/// The blocks of a store, and their newest contents.
pub struct Blocks {
    /// The engine that has them.
    pub engine: Engine,
    /// Pool whose buffers hold only stamped pages when there are no `contents`.
    pages: BufPool,
    contents: Option<Contents>,
    /// Newest version of each block, or 0 for a block that was never written.
    versions: RefCell<Vec<u64>>,
    begun: Cell<u64>,
}

impl Blocks {
    /// `count` blocks that were never written. With `all_new` every word of a block is new when it is written.
    /// Otherwise only its first 16 bytes are, and the rest is zero, which simulated drives keep in little memory.
    pub fn new(engine: Engine, count: u64, memory_bytes: u64, all_new: bool) -> Self {
        Self {
            engine,
            pages: BufPool::new(memory_bytes as usize),
            contents: all_new.then(|| Contents::new(BLOCK)),
            versions: RefCell::new(vec![0; count as usize]),
            begun: Cell::new(0),
        }
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        self.versions.borrow().len() as u64
    }

    /// Commits new content for adjacent blocks: memory, log space, commit, durability.
    pub async fn commit(&self, blocks: std::ops::Range<u64>) -> Result<(), EngineError> {
        let (first, count) = (blocks.start, blocks.end - blocks.start);
        let bytes = count as usize * BLOCK;
        let permit = self.engine.reserve(bytes as u64).await?;
        let mut pages = self.pages.alloc(bytes);
        pages.attach(Rc::new(permit));
        let admission = self.engine.admit(count, 0).await?;
        for (block, page) in blocks.zip(pages.chunks_exact_mut(BLOCK)) {
            let version = self.begun.get() + 1;
            self.begun.set(version);
            self.versions.borrow_mut()[block as usize] = version;
            // Otherwise the rest of the page is zero: new memory is zeroed, and only stamps are written to it.
            if let Some(contents) = &self.contents {
                page.copy_from_slice(contents.of(version));
            }
            page[..16].copy_from_slice(&stamp(block, version));
        }
        let (first, data) = (SYSTEM_BLOCKS + first, pages.share());
        let changes = vec![CommitChange::Write { first, data }];
        let lsn = self.engine.commit(admission, changes)?;
        self.engine.wait_durable(lsn).await
    }

    /// Reads every block from memory and from home, and compares it.
    ///
    /// # Errors
    /// When the engine fails, or a block does not read as it was written.
    pub async fn check(&self) -> anyhow::Result<()> {
        for first in (0..self.count()).step_by(CHECK_BLOCKS as usize) {
            let count = CHECK_BLOCKS.min(self.count() - first);
            let pieces = self.engine.read(SYSTEM_BLOCKS + first, count).await?;
            let mut index = first;
            for piece in pieces {
                let bytes = match &piece {
                    Piece::Data(bytes) => &bytes[..],
                    Piece::Zero(len) => &vec![0; *len],
                };
                for page in bytes.chunks_exact(BLOCK) {
                    let version = self.versions.borrow()[index as usize];
                    let right = self.is_right(index, version, page);
                    ensure!(right, "block {index} does not read as version {version}");
                    index += 1;
                }
            }
            ensure!(index == first + count, "a read is as long as was asked");
        }
        Ok(())
    }

    fn is_right(&self, index: u64, version: u64, page: &[u8]) -> bool {
        let (head, rest) = page.split_at(16);
        match &self.contents {
            _ if version == 0 => tonearm_base::is_zero(page),
            Some(contents) => head == stamp(index, version) && *rest == contents.of(version)[16..],
            None => head == stamp(index, version) && tonearm_base::is_zero(rest),
        }
    }
}

fn stamp(index: u64, version: u64) -> [u8; 16] {
    let mut stamp = [0; 16];
    stamp[..8].copy_from_slice(&version.to_le_bytes());
    stamp[8..].copy_from_slice(&index.to_le_bytes());
    stamp
}
