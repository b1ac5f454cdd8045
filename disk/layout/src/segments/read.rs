//! Reads and allocation status.

use crate::error::HomeError;
use crate::home::Piece;
use crate::queue::Reader;
use crate::segments::Segments;
use crate::segments::map::Found;
use std::ops::Range;
use tonearm_base::{Slice, crc32c};
use tonearm_format::MapEntry;

/// Most bytes of one device read.
const IO_BYTES_MAX: usize = 1 << 20;

/// Blocks that are neighbours at home, too.
struct Run {
    first: u64,
    place: u64,
    crcs: Vec<u32>,
}

enum Part {
    Zero(usize),
    Run(Run),
}

/// While it exists, no place that its read may use is overwritten.
pub(crate) struct ReadGuard {
    home: Segments,
    read: u64,
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.home.state.borrow_mut().table.end_read(self.read);
    }
}

impl Segments {
    pub(crate) fn read_guard(&self) -> ReadGuard {
        ReadGuard {
            home: self.clone(),
            read: self.state.borrow_mut().table.begin_read(),
        }
    }

    pub(crate) async fn read(
        &self,
        first: u64,
        count: u64,
        reader: Reader,
    ) -> Result<Vec<Piece>, HomeError> {
        let end = self.checked_end(first, count);
        let guard = self.read_guard();
        let mut parts = Vec::new();
        self.entries(first..end, |block, entries| {
            self.plan(block, entries, &mut parts)
        })
        .await??;
        let single = parts.len() == 1;
        let mut pieces = Vec::with_capacity(parts.len());
        let mut under_way = Vec::new();
        for part in parts {
            match part {
                Part::Zero(bytes) => pieces.push(Piece::Zero(bytes)),
                Part::Run(run) if single => {
                    pieces.push(Piece::Data(self.read_run(run, reader).await?))
                }
                Part::Run(run) => {
                    let home = self.clone();
                    let read = async move { home.read_run(run, reader).await };
                    under_way.push((pieces.len(), self.rt.spawn(read)));
                    pieces.push(Piece::Zero(0));
                }
            }
        }
        let mut failed = None;
        for (index, read) in under_way {
            match read.await {
                Ok(data) => pieces[index] = Piece::Data(data),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        drop(guard);
        failed.map_or(Ok(pieces), Err)
    }

    pub(crate) async fn status(
        &self,
        first: u64,
        count: u64,
    ) -> Result<Vec<(u64, bool)>, HomeError> {
        let end = self.checked_end(first, count);
        let _guard = self.read_guard();
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut add = |blocks: u64, allocated: bool| match runs.last_mut() {
            Some(last) if last.1 == allocated => last.0 += blocks,
            _ => runs.push((blocks, allocated)),
        };
        let mut at = first;
        while at < end {
            let (part, found) = self.leaf(at, end).await;
            let blocks = part.end - part.start;
            match found {
                Ok(Leaf::Entries(entries)) => {
                    entries.iter().for_each(|entry| add(1, !entry.is_hole()));
                }
                Ok(Leaf::Hole) => add(blocks, false),
                // Reads of these blocks give the error.
                Err(HomeError::MapPage { .. }) => add(blocks, true),
                Err(error) => return Err(error),
            }
            at = part.end;
        }
        Ok(runs)
    }

    /// Passes the entries of a range to `take` in portions; none for a portion of holes.
    pub(crate) async fn entries<T>(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(u64, Result<&[MapEntry], u64>) -> Result<T, HomeError>,
    ) -> Result<Result<(), HomeError>, HomeError> {
        let mut at = range.start;
        while at < range.end {
            let (part, found) = self.leaf(at, range.end).await;
            let taken = match found? {
                Leaf::Entries(entries) => take(at, Ok(&entries)),
                Leaf::Hole => take(at, Err(part.end - part.start)),
            };
            if let Err(error) = taken {
                return Ok(Err(error));
            }
            at = part.end;
        }
        Ok(Ok(()))
    }

    /// The part of `at..end` that belongs to one leaf of the map.
    pub(crate) async fn leaf(&self, at: u64, end: u64) -> (Range<u64>, Result<Leaf, HomeError>) {
        let fanout = self.fanout as u64;
        let leaf = at / fanout;
        let part = at..end.min((leaf + 1) * fanout);
        let within = (at % fanout) as usize..(part.end - leaf * fanout) as usize;
        let found = self.page((0, leaf)).await.map(|found| match found {
            Found::Page(page) => {
                let page = page.content.borrow();
                Leaf::Entries(within.map(|slot| page.get(slot)).collect())
            }
            Found::Hole(_) => Leaf::Hole,
            Found::Lost => Leaf::Entries(vec![MapEntry::LOST; (part.end - at) as usize]),
        });
        (part, found)
    }

    fn plan(
        &self,
        first: u64,
        entries: Result<&[MapEntry], u64>,
        parts: &mut Vec<Part>,
    ) -> Result<(), HomeError> {
        let size = self.block_size();
        let zero = |parts: &mut Vec<Part>, bytes: usize| match parts.last_mut() {
            Some(Part::Zero(zeroes)) => *zeroes += bytes,
            _ => parts.push(Part::Zero(bytes)),
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(blocks) => {
                zero(parts, blocks as usize * size);
                return Ok(());
            }
        };
        for (block, entry) in (first..).zip(entries) {
            if entry.is_hole() {
                zero(parts, size);
                continue;
            }
            if !entry.is_placed() || !self.media.holds(entry.place) {
                return Err(HomeError::LostBlock { block });
            }
            let adjacent = |run: &Run| {
                run.place + run.crcs.len() as u64 == entry.place
                    && self.media.segment_of(run.place) == self.media.segment_of(entry.place)
                    && run.crcs.len() * size < IO_BYTES_MAX
            };
            match parts.last_mut() {
                Some(Part::Run(run)) if adjacent(run) => run.crcs.push(entry.crc),
                _ => parts.push(Part::Run(Run {
                    first: block,
                    place: entry.place,
                    crcs: vec![entry.crc],
                })),
            }
        }
        Ok(())
    }

    async fn read_run(&self, run: Run, reader: Reader) -> Result<Slice, HomeError> {
        let _read = (reader == Reader::Client).then(|| self.media.note_client_read(run.place));
        let bytes = self.media.read(run.place, run.crcs.len() as u64).await?;
        for (index, block) in bytes.chunks_exact(self.block_size()).enumerate() {
            let index = index as u64;
            let expected = run.crcs[index as usize];
            self.verify(run.first + index, run.place + index, expected, block)?;
        }
        Ok(bytes.share())
    }

    /// The error of a block whose content fails its checksum.
    pub(crate) fn verify(
        &self,
        block: u64,
        place: u64,
        expected: u32,
        content: &[u8],
    ) -> Result<(), HomeError> {
        let found = crc32c(content);
        if found == expected {
            return Ok(());
        }
        self.media.count(|stats| stats.checksum_errors += 1);
        let (member, offset) = self.media.address(place);
        Err(HomeError::Checksum {
            block,
            member,
            offset,
            expected,
            found,
        })
    }

    fn checked_end(&self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        let size = self.size_blocks;
        assert!(end <= size, "blocks {first}..{end} of a store of {size}");
        end
    }
}

/// The entries of a leaf of the map for a part of its blocks.
pub(crate) enum Leaf {
    Entries(Vec<MapEntry>),
    Hole,
}
