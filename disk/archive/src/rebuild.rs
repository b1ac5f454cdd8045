//! Makes the state of a commit in the home of a new store.
//!
//! The home gets the blocks directly, in rounds, without the log: a restore that is interrupted is repeated from an
//! earlier object on. To apply commits again to a later state gives the later state.

use crate::error::ArchiveError;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Lsn, Slice, crc32c};
use tonearm_format::{ArchiveEntry, ArchiveReader, FormatError};
use tonearm_layout::{Home, HomeBlock, HomeError, Piece, Reader, ZeroRange};

/// Bytes that wait in memory for one round.
const ROUND_BYTES: usize = 64 << 20;
/// Zeroed ranges in one round.
const RANGES_MAX: usize = 1024;

enum Pending {
    /// Content as the archive has it.
    Whole(Slice, u32),
    /// Content that has been patched.
    Patched(Buf),
}

/// A store that is being made from an archive.
pub struct Rebuild {
    home: Rc<dyn Home>,
    pool: BufPool,
    block_size: usize,
    size_blocks: u64,
    /// The last commit to apply.
    until: Lsn,
    zeroes: Vec<ZeroRange>,
    blocks: BTreeMap<u64, Pending>,
}

impl Rebuild {
    /// Makes the state of commit `until` in `home`, which is new or has a part of it.
    pub fn new(home: &Rc<dyn Home>, pool: &BufPool, until: Lsn) -> Self {
        let shape = home.shape();
        Self {
            home: home.clone(),
            pool: pool.clone(),
            block_size: shape.block_size,
            size_blocks: shape.size_blocks,
            until,
            zeroes: Vec::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// Applies the payload of object `name` of the archive at `url`.
    ///
    /// # Errors
    /// When the payload is damaged, or the home fails or is full.
    #[boxed(?Send)]
    pub async fn apply(
        &mut self,
        payload: &[u8],
        url: &str,
        name: &str,
    ) -> Result<(), ArchiveError> {
        let mut reader = ArchiveReader::new(payload, self.block_size);
        let object = |error| ArchiveError::Object {
            url: url.to_string(),
            name: name.to_string(),
            error,
        };
        while let Some(entry) = reader.next() {
            match entry.map_err(object)? {
                ArchiveEntry::Data { block, crc, data } => {
                    self.check(block, 1).map_err(object)?;
                    let data = self.pool.copy_of(data).share();
                    self.blocks.insert(block, Pending::Whole(data, crc));
                }
                ArchiveEntry::Zero {
                    first,
                    count,
                    keep_space,
                } => {
                    self.check(first, count).map_err(object)?;
                    self.zero(first, count, keep_space);
                }
                ArchiveEntry::Patch { block, words } => {
                    self.check(block, 1).map_err(object)?;
                    let mut buf = self.content(block).await?;
                    for (at, value) in words.iter() {
                        buf[at..at + 8].copy_from_slice(&value);
                    }
                    self.blocks.insert(block, Pending::Patched(buf));
                }
                ArchiveEntry::Commit(lsn) if lsn >= self.until => return Ok(()),
                ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. } => {}
            }
            let bytes = self.blocks.len() * self.block_size;
            if bytes >= ROUND_BYTES || self.zeroes.len() >= RANGES_MAX {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Makes everything so far durable.
    ///
    /// # Errors
    /// When the home fails or is full.
    pub async fn flush(&mut self) -> Result<(), ArchiveError> {
        let mut zeroes = std::mem::take(&mut self.zeroes);
        let blocks: Vec<HomeBlock> = std::mem::take(&mut self.blocks)
            .into_iter()
            .map(|(block, pending)| match pending {
                Pending::Whole(data, crc) => HomeBlock { block, data, crc },
                Pending::Patched(buf) => HomeBlock {
                    block,
                    crc: crc32c(&buf),
                    data: buf.share(),
                },
            })
            .collect();
        // As many blocks as the layout takes at once.
        let most = (self.home.round_bytes_max() / self.block_size).max(1);
        if blocks.is_empty() && !zeroes.is_empty() {
            self.home
                .write_back(std::mem::take(&mut zeroes), Vec::new())
                .await?;
        }
        for part in blocks.chunks(most) {
            let zeroes = std::mem::take(&mut zeroes);
            self.home.write_back(zeroes, part.to_vec()).await?;
        }
        Ok(())
    }

    fn check(&self, first: u64, count: u64) -> Result<(), FormatError> {
        if first
            .checked_add(count)
            .is_some_and(|end| end <= self.size_blocks)
        {
            Ok(())
        } else {
            Err(FormatError::Inconsistent {
                what: "archive object",
                why: "it has blocks that the store does not have",
            })
        }
    }

    fn zero(&mut self, first: u64, count: u64, keep_space: bool) {
        let mut rest = self.blocks.split_off(&first);
        self.blocks.append(&mut rest.split_off(&(first + count)));
        self.zeroes.push(ZeroRange {
            first,
            count,
            keep_space,
        });
    }

    /// What the block has now.
    async fn content(&mut self, block: u64) -> Result<Buf, HomeError> {
        if let Entry::Occupied(pending) = self.blocks.entry(block) {
            return Ok(match pending.remove() {
                Pending::Whole(data, _) => self.pool.copy_of(&data),
                Pending::Patched(buf) => buf,
            });
        }
        let is_in = |range: &ZeroRange| (range.first..range.first + range.count).contains(&block);
        if !self.zeroes.iter().any(is_in)
            && let [Piece::Data(data)] = self.home.read(block, 1, Reader::Store).await?.as_slice()
        {
            return Ok(self.pool.copy_of(data));
        }
        Ok(self.pool.alloc_zeroed(self.block_size))
    }
}
