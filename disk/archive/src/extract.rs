//! Takes one volume or file out of an archive, without the rest of its store.
//!
//! Where the blocks of a volume lie is in the volume table, in the first blocks of the store. So there are two passes of the
//! same kind: the first one makes these blocks as they were at the wanted commit, in memory. The second one makes the blocks
//! that the table gives to the volume, in a file. Where the blocks of a file lie is in the tree of files, whose pages are a
//! volume. So there is a pass more between the two, which makes the pages. No pass needs space for other blocks. Each pass
//! reads only the objects that may change its blocks.

use crate::error::ArchiveError;
use crate::plan::Plan;
use std::io;
use std::ops::Range;
use tonearm_base::Lsn;
use tonearm_format::{ArchiveEntry, ArchiveReader, Extent, FormatError};

/// Bytes that are made from an archive. At first they are zeroes.
pub trait Content {
    /// Reads `bytes` at byte `at`.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at byte `at`.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes `count` bytes from byte `at` on zeroes.
    ///
    /// # Errors
    /// When they cannot be written.
    fn zero(&mut self, at: u64, count: u64) -> io::Result<()>;
}

impl Content for Vec<u8> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = at as usize;
        bytes.copy_from_slice(&self[at..at + bytes.len()]);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = at as usize;
        self[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn zero(&mut self, at: u64, count: u64) -> io::Result<()> {
        let at = at as usize;
        self[at..at + count as usize].fill(0);
        Ok(())
    }
}

/// Blocks of the store, and where they are in what is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The blocks.
    pub extent: Extent,
    /// The number that the first of them has in what is made.
    pub at: u64,
}

impl Place {
    fn end(&self) -> u64 {
        self.extent.start + self.extent.count
    }
}

/// Blocks that are made.
pub struct Extract {
    /// The blocks, ascending by their place in the store.
    places: Vec<Place>,
    block_size: usize,
    /// The last commit to apply.
    until: Lsn,
}

impl Extract {
    /// Makes the blocks of `extents`, which do not overlap, as they were at the commit of `plan`: one after the other, in this
    /// order.
    pub fn new(plan: &Plan, extents: &[Extent]) -> Self {
        let mut at = 0;
        let places = extents.iter().map(|extent| {
            let place = Place {
                extent: *extent,
                at,
            };
            at += extent.count;
            place
        });
        Self::of(plan, places.collect())
    }

    /// Makes blocks at explicit places, as they were at the commit of `plan`. The rest of what is made stays as it is. Takes
    /// 24 bytes of memory for each place.
    ///
    /// # Errors
    /// When two places have the same block of the store.
    pub fn at_places(plan: &Plan, url: &str, places: Vec<Place>) -> Result<Self, ArchiveError> {
        let made = Self::of(plan, places);
        let twice = made
            .places
            .windows(2)
            .find(|two| two[0].end() > two[1].extent.start);
        match twice {
            None => Ok(made),
            Some(two) => Err(ArchiveError::Table {
                url: url.to_string(),
                lsn: plan.lsn,
                why: format!(
                    "a file has block {} of the store twice",
                    two[1].extent.start
                ),
            }),
        }
    }

    fn of(plan: &Plan, mut places: Vec<Place>) -> Self {
        places.sort_unstable_by_key(|place| place.extent.start);
        Self {
            places,
            block_size: plan.shape.block_size as usize,
            until: plan.lsn,
        }
    }

    /// Bytes up to the end of the last block that is made.
    pub fn size_bytes(&self) -> u64 {
        let ends = self
            .places
            .iter()
            .map(|place| place.at + place.extent.count);
        ends.max().unwrap_or(0) * self.block_size as u64
    }

    /// True when one of `blocks` is made.
    pub(crate) fn touches(&self, blocks: &Range<u64>) -> bool {
        let after = self
            .places
            .partition_point(|place| place.end() <= blocks.start);
        let next = self.places.get(after);
        next.is_some_and(|place| place.extent.start < blocks.end)
    }

    /// Applies the payload of object `name` of the archive at `url` to `content`, which has [`Extract::size_bytes`] bytes. To
    /// apply objects again to a later state gives the later state.
    ///
    /// # Errors
    /// When the payload is damaged, or `content` cannot be written.
    pub fn apply(
        &self,
        payload: &[u8],
        url: &str,
        name: &str,
        content: &mut dyn Content,
    ) -> Result<(), ArchiveError> {
        let mut reader = ArchiveReader::new(payload, self.block_size);
        let object = |error: FormatError| ArchiveError::Object {
            url: url.to_string(),
            name: name.to_string(),
            error,
        };
        let mut buf = vec![0; self.block_size];
        while let Some(entry) = reader.next() {
            match entry.map_err(object)? {
                ArchiveEntry::Data { block, data, .. } => {
                    if let Some(at) = self.place(block) {
                        content.write(at, data)?;
                    }
                }
                ArchiveEntry::Zero { first, count, .. } => {
                    self.zero(first, count, content)?;
                }
                ArchiveEntry::Patch { block, words } => {
                    let Some(at) = self.place(block) else {
                        continue;
                    };
                    content.read(at, &mut buf)?;
                    for (word, value) in words.iter() {
                        buf[word..word + 8].copy_from_slice(&value);
                    }
                    content.write(at, &buf)?;
                }
                ArchiveEntry::Commit(lsn) if lsn >= self.until => return Ok(()),
                ArchiveEntry::Commit(_) | ArchiveEntry::Time { .. } => {}
            }
        }
        Ok(())
    }

    /// Where the block begins in what is made, in bytes.
    fn place(&self, block: u64) -> Option<u64> {
        let after = self
            .places
            .partition_point(|place| place.extent.start <= block);
        let place = &self.places[after.checked_sub(1)?];
        let within = block - place.extent.start;
        (within < place.extent.count).then(|| (place.at + within) * self.block_size as u64)
    }

    fn zero(&self, first: u64, count: u64, content: &mut dyn Content) -> io::Result<()> {
        let (end, block_size) = (first + count, self.block_size as u64);
        let after = self.places.partition_point(|place| place.end() <= first);
        let touched = self.places[after..].iter();
        for place in touched.take_while(|place| place.extent.start < end) {
            let start = place.extent.start;
            let (from, to) = (first.max(start), end.min(place.end()));
            content.zero(
                (place.at + from - start) * block_size,
                (to - from) * block_size,
            )?;
        }
        Ok(())
    }
}
