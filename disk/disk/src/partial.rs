//! Blocks that are written in part: which bytes are the writer's, and whether the rest has changed since it was read.
//!
//! Everything that writes bytes follows one rule, so that it loses no byte that another writer wrote: watch the block,
//! read the rest of it, and read it again until nothing was committed to the block since ([`settle`]). The commit
//! follows without an await.
//!
//! Invariants:
//! 1. Each commit to blocks of a volume is reported to the volume's [`Watched`], without an await between.
//! 2. [`Watch::look`] comes before the read: a commit during the read makes the watch stale.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, some of one"
)]

use crate::error::DiskError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_layout::Piece;

/// Blocks that one writer writes in part.
pub(crate) trait Parts {
    /// Names one of the blocks.
    type Block;

    /// Blocks whose rest has not been read, or has changed since.
    fn stale(&self) -> Vec<Self::Block>;

    /// Reads the rest of a block, after a [`Watch::look`].
    ///
    /// # Errors
    /// When the block cannot be read, or is the writer's no more.
    async fn read_rest(&mut self, block: Self::Block) -> Result<(), DiskError>;
}

/// Reads the rest of blocks until none has changed since it was read. The commit has to follow without an await.
///
/// # Errors
/// Those of [`Parts::read_rest`].
pub(crate) async fn settle(parts: &mut impl Parts) -> Result<(), DiskError> {
    loop {
        let stale = parts.stale();
        if stale.is_empty() {
            return Ok(());
        }
        for block in stale {
            parts.read_rest(block).await?;
        }
    }
}

/// Bytes of a block: ascending ranges that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ranges(Vec<Range<u32>>);

impl Ranges {
    pub fn of(range: Range<usize>) -> Self {
        Self(vec![range.start as u32..range.end as u32])
    }

    pub fn add(&mut self, range: Range<usize>) {
        let (mut start, mut end) = (range.start as u32, range.end as u32);
        let from = self.0.partition_point(|known| known.end < start);
        let to = self.0.partition_point(|known| known.start <= end);
        if let [first, ..] = &self.0[from..to] {
            start = start.min(first.start);
        }
        if let [.., last] = &self.0[from..to] {
            end = end.max(last.end);
        }
        self.0.splice(from..to, [start..end]);
    }

    /// True when these are all bytes of a block.
    pub fn cover(&self, block_bytes: usize) -> bool {
        self.0 == [0..block_bytes as u32]
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.0.iter();
        ranges.map(|range| range.start as usize..range.end as usize)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Blocks of a volume that are being written in part, and which commit has changed each last.
#[derive(Default)]
pub(crate) struct Watched {
    /// Changes so far; counted while something is watched.
    changes: Cell<u64>,
    blocks: RefCell<BTreeMap<u64, Seen>>,
}

struct Seen {
    watches: u64,
    changed: u64,
}

impl Watched {
    pub fn is_empty(&self) -> bool {
        self.blocks.borrow().is_empty()
    }

    /// A commit has changed `blocks`.
    pub fn change(&self, blocks: Range<u64>) {
        let mut watched = self.blocks.borrow_mut();
        if watched.is_empty() {
            return;
        }
        let change = self.changes.get() + 1;
        self.changes.set(change);
        for (_, seen) in watched.range_mut(blocks) {
            seen.changed = change;
        }
    }
}

/// Tells whether a block has changed since the last look at it. Stale before the first look.
pub(crate) struct Watch {
    of: Rc<Watched>,
    index: u64,
    since: Cell<Option<u64>>,
}

impl Watch {
    pub fn new(of: &Rc<Watched>, index: u64) -> Self {
        let mut blocks = of.blocks.borrow_mut();
        let new = Seen {
            watches: 0,
            changed: 0,
        };
        blocks.entry(index).or_insert(new).watches += 1;
        Self {
            of: of.clone(),
            index,
            since: Cell::new(None),
        }
    }

    /// The block is about to be read.
    pub fn look(&self) {
        self.since.set(Some(self.of.changes.get()));
    }

    pub fn is_stale(&self) -> bool {
        let changed = self.of.blocks.borrow()[&self.index].changed;
        self.since.get().is_none_or(|since| changed > since)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut blocks = self.of.blocks.borrow_mut();
        if let Some(seen) = blocks.get_mut(&self.index) {
            seen.watches -= 1;
            if seen.watches == 0 {
                blocks.remove(&self.index);
            }
        }
    }
}

/// Copies the content of a block from `pieces`, except for the bytes `written`.
pub(crate) fn fill_around(
    block: &mut [u8],
    written: impl IntoIterator<Item = Range<usize>>,
    pieces: &[Piece],
) {
    let mut at = 0;
    let end = block.len();
    for range in written.into_iter().chain([end..end]) {
        if at < range.start {
            copy_from(&mut block[at..range.start], at, pieces);
        }
        at = range.end;
    }
}

/// Copies from byte `skip` of `pieces` on.
pub(crate) fn copy_from(mut into: &mut [u8], mut skip: usize, pieces: &[Piece]) {
    for piece in pieces {
        let bytes = piece_len(piece);
        let from = skip.min(bytes);
        let (part, rest) = into.split_at_mut((bytes - from).min(into.len()));
        match piece {
            Piece::Data(data) => part.copy_from_slice(&data[from..from + part.len()]),
            Piece::Zero(_) => part.fill(0),
        }
        (into, skip) = (rest, skip - from);
    }
}

pub(crate) fn piece_len(piece: &Piece) -> usize {
    match piece {
        Piece::Data(data) => data.len(),
        Piece::Zero(bytes) => *bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_touch() {
        let mut ranges = Ranges::of(10..20);
        for (range, expected) in [
            (30..40, vec![10..20, 30..40]),
            (20..22, vec![10..22, 30..40]),
            (0..5, vec![0..5, 10..22, 30..40]),
            (15..18, vec![0..5, 10..22, 30..40]),
            (4..31, vec![0..40]),
            (41..64, vec![0..40, 41..64]),
            (40..41, vec![0..64]),
        ] {
            ranges.add(range);
            assert!(ranges.iter().eq(expected.iter().cloned()), "{ranges:?}");
            assert_eq!(ranges.cover(64), expected == vec![0..64]);
        }
    }

    #[test]
    fn a_block_is_filled_around_what_is_written() {
        let pool = tonearm_base::BufPool::new(0);
        let pieces = [
            Piece::Data(pool.copy_of(b"abc").share()),
            Piece::Zero(2),
            Piece::Data(pool.copy_of(b"fghij").share()),
        ];
        for (written, expected) in [
            (vec![], b"abc\0\0fghij"),
            (vec![0..10], b"----------"),
            (vec![1..2, 4..7, 9..10], b"a-c\0---hi-"),
        ] {
            let mut block = *b"----------";
            fill_around(&mut block, written, &pieces);
            assert_eq!(&block, expected);
        }
    }

    #[test]
    fn a_watch_is_stale_when_its_block_has_changed_since_the_look() {
        let watched = Rc::new(Watched::default());
        watched.change(0..10);
        let (watch, other) = (Watch::new(&watched, 3), Watch::new(&watched, 3));
        assert!(watch.is_stale());
        watch.look();
        watched.change(0..3);
        watched.change(4..9);
        assert!(!watch.is_stale());
        watched.change(3..4);
        assert!(watch.is_stale());
        watch.look();
        assert!(!watch.is_stale());
        drop(watch);
        assert!(!watched.is_empty());
        drop(other);
        assert!(watched.is_empty());
    }
}
