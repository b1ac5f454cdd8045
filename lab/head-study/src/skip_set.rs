//! Sets of skips, as bits.

/// A set of skips, by their numbers on the grid of a profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkipSet {
    words: Vec<u64>,
    len: usize,
}

impl SkipSet {
    /// None of `len` skips.
    pub fn none(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// Those of `len` skips that are among `skips`.
    pub fn of(len: usize, skips: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::none(len);
        for skip in skips {
            set.insert(skip);
        }
        set
    }

    /// Adds `skip`.
    ///
    /// # Panics
    /// When it is beyond the grid.
    pub fn insert(&mut self, skip: usize) {
        assert!(skip < self.len, "a skip beyond the grid");
        self.words[skip / 64] |= 1 << (skip % 64);
    }

    /// True when `skip` is among them.
    pub fn contains(&self, skip: usize) -> bool {
        skip < self.len && self.words[skip / 64] >> (skip % 64) & 1 == 1
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// They, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len).filter(|skip| self.contains(*skip))
    }

    /// Least and greatest of them.
    pub fn bounds(&self) -> Option<(usize, usize)> {
        let first = self.words.iter().position(|word| *word != 0)?;
        let last = self.words.iter().rposition(|word| *word != 0)?;
        let low = first * 64 + self.words[first].trailing_zeros() as usize;
        let high = last * 64 + 63 - self.words[last].leading_zeros() as usize;
        Some((low, high))
    }

    /// Keeps each skip `s` for which `s + by` is in `other`. False when none is left.
    pub fn keep_shifted(&mut self, other: &Self, by: i64) -> bool {
        let mut left = 0;
        for (index, word) in self.words.iter_mut().enumerate() {
            if *word != 0 {
                *word &= other.bits_from(index as i64 * 64 + by);
                left |= *word;
            }
        }
        left != 0
    }

    /// The 64 bits from `bit` on; those outside of the set are 0.
    fn bits_from(&self, bit: i64) -> u64 {
        let word = |index: i64| {
            let index = usize::try_from(index).ok();
            index
                .and_then(|index| self.words.get(index))
                .map_or(0, |word| *word)
        };
        let (index, offset) = (bit.div_euclid(64), bit.rem_euclid(64));
        match offset {
            0 => word(index),
            _ => word(index) >> offset | word(index + 1) << (64 - offset),
        }
    }
}

#[cfg(test)]
#[path = "skip_set_test.rs"]
mod skip_set_test;
