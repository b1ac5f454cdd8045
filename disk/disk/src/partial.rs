//! Blocks that are written in part: which bytes the writer has written, and whether the rest has changed since it was
//! read.
//!
//! All code that writes bytes follows one rule, so that it loses no byte of another writer: watch the block, read the
//! rest of it, and read it again until nothing has been committed to the block since ([`reread_changed`]). The commit follows
//! without an await.
//!
//! Invariants:
//! 1. Each commit to blocks of a volume is reported to the volume's watches ([`crate::state::Watched`]), without an
//!    await between.
//! 2. [`Watch::look`](crate::state::Watch::look) comes before the read: a commit during the read makes the watch stale.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "lists of ranges, some of one"
)]

use crate::error::DiskError;
use std::ops::Range;
use tonearm_layout::Piece;

/// Blocks that one writer writes in part.
pub(crate) trait Parts {
    /// Names one of the blocks.
    type Block;

    /// Blocks whose rest has not been read, or has changed since.
    fn stale(&self) -> Vec<Self::Block>;

    /// Reads the rest of a block, after a look at its watch.
    ///
    /// # Errors
    /// When the block cannot be read, or no longer belongs to the writer.
    async fn read_rest(&mut self, block: Self::Block) -> Result<(), DiskError>;
}

/// Reads the rest of blocks until none has changed since it was read. The commit has to follow without an await.
///
/// # Errors
/// Those of [`Parts::read_rest`].
pub(crate) async fn reread_changed(parts: &mut impl Parts) -> Result<(), DiskError> {
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
        let bytes = piece.len();
        let from = skip.min(bytes);
        let (part, rest) = into.split_at_mut((bytes - from).min(into.len()));
        piece.slice(from..bytes).copy_to(part);
        (into, skip) = (rest, skip - from);
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
}
