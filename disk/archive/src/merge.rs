//! Several ranges of commits as one: each block once.

use std::collections::BTreeMap;
use tonearm_base::{Lsn, crc32c};
use tonearm_format::{ArchiveEntry, ArchiveReader, ArchiveWriter, FormatError};

/// Bytes of an entry for a range of zeroes.
const ZERO_BYTES: usize = 17;
/// Bytes of an entry for a block, without its content or words.
const HEAD_BYTES: usize = 13;
/// Bytes of a word of a patch.
const WORD_BYTES: usize = 12;

/// What becomes of a block that is not zeroed, or that is changed after it was.
enum Change {
    /// It gets this content.
    Whole(Vec<u8>),
    /// Words at these offsets change. The others are as they were before, or zero in a zeroed range.
    Words(BTreeMap<u32, [u8; 8]>),
}

/// Changes of adjacent commits. To apply them gives the same state as to apply the commits one after the other, also where
/// blocks have the content of one of these commits already: so a base may have been read in between.
pub(crate) struct Merge {
    block_size: usize,
    /// Zeroed ranges: first block, block after the last one, whether they keep their space. They do not overlap. They are
    /// applied before `blocks`.
    zeroes: BTreeMap<u64, (u64, bool)>,
    blocks: BTreeMap<u64, Change>,
}

impl Merge {
    /// No changes yet, of blocks of `block_size` bytes.
    pub(crate) fn new(block_size: u32) -> Self {
        Self {
            block_size: block_size as usize,
            zeroes: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// Adds the payload of the range that follows.
    pub(crate) fn add(&mut self, payload: &[u8]) -> Result<(), FormatError> {
        let mut reader = ArchiveReader::new(payload, self.block_size);
        while let Some(entry) = reader.next() {
            match entry? {
                ArchiveEntry::Data { block, data, .. } => {
                    self.blocks.insert(block, Change::Whole(data.to_vec()));
                }
                ArchiveEntry::Zero {
                    first,
                    count,
                    keep_space,
                } => self.zero(first, first + count, keep_space),
                ArchiveEntry::Patch { block, words } => self.patch(block, words.iter()),
                ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. } => {}
            }
        }
        Ok(())
    }

    fn zero(&mut self, first: u64, end: u64, keep_space: bool) {
        let mut rest = self.blocks.split_off(&first);
        self.blocks.append(&mut rest.split_off(&end));
        // Of ranges that it overlaps, the parts outside stay.
        let overlaps: Vec<(u64, u64, bool)> = self
            .zeroes
            .range(..end)
            .rev()
            .map(|(from, (until, keeps))| (*from, *until, *keeps))
            .take_while(|(_, until, _)| *until > first)
            .collect();
        for (from, until, keeps) in overlaps {
            self.zeroes.remove(&from);
            if from < first {
                self.zeroes.insert(from, (first, keeps));
            }
            if until > end {
                self.zeroes.insert(end, (until, keeps));
            }
        }
        self.zeroes.insert(first, (end, keep_space));
    }

    fn patch(&mut self, block: u64, words: impl Iterator<Item = (usize, [u8; 8])>) {
        let change = self.blocks.entry(block);
        match change.or_insert_with(|| Change::Words(BTreeMap::new())) {
            Change::Whole(data) => {
                for (at, value) in words {
                    data[at..at + 8].copy_from_slice(&value);
                }
            }
            Change::Words(known) => {
                known.extend(words.map(|(at, value)| (at as u32, value)));
                if known.len() * 8 == self.block_size {
                    let data = known.values().flatten().copied().collect();
                    self.blocks.insert(block, Change::Whole(data));
                }
            }
        }
    }

    /// Bytes of the payload so far, but for a few at its end.
    pub(crate) fn len(&self) -> usize {
        let blocks = self.blocks.values().map(|change| match change {
            Change::Whole(data) => HEAD_BYTES + data.len(),
            Change::Words(words) => HEAD_BYTES + WORD_BYTES * words.len(),
        });
        ZERO_BYTES * self.zeroes.len() + blocks.sum::<usize>()
    }

    /// The payload. `last` is its last commit, which was durable at `unix_ms`.
    pub(crate) fn encode(&self, last: Lsn, unix_ms: u64) -> Vec<u8> {
        let mut writer = ArchiveWriter::default();
        for (first, (end, keep_space)) in &self.zeroes {
            writer.zero(*first, end - first, *keep_space);
        }
        for (block, change) in &self.blocks {
            match change {
                Change::Whole(data) => writer.data(*block, crc32c(data), data),
                Change::Words(words) => {
                    let words = words.iter();
                    let words = words.map(|(at, value)| (*at, u64::from_le_bytes(*value)));
                    writer.patch(*block, &words.collect::<Vec<_>>());
                }
            }
        }
        writer.commit(last);
        writer.time(unix_ms);
        writer.into_bytes()
    }
}

#[cfg(test)]
#[path = "merge_test.rs"]
mod merge_test;
