//! The holes of segments: places whose blocks have newer versions elsewhere, or were trimmed. Plugging fills them (`plug.rs`).
//!
//! Only holes that this process has seen come up are known, for only then is it certain that a block lay there, and not a
//! summary. It takes one bit of memory for each place.

use tonearm_format::SegmentLayout;

/// The known holes.
pub(crate) struct Holes {
    /// Blocks of a segment.
    blocks: u64,
    /// A bit for each place, by segments; none where nothing is plugged.
    words: Vec<u64>,
}

impl Holes {
    /// No holes in the segments of `layout`.
    pub fn of(layout: &SegmentLayout) -> Self {
        let words = (layout.segments + 1) * layout.segment_blocks().div_ceil(64);
        Self {
            blocks: layout.segment_blocks(),
            words: vec![0; words as usize],
        }
    }

    /// For a home without plugging.
    pub fn unknown() -> Self {
        Self {
            blocks: 1,
            words: Vec::new(),
        }
    }

    /// Word and bit of `place`.
    fn locate(&self, place: u64) -> (usize, u64) {
        let (segment, at) = (place / self.blocks, place % self.blocks);
        let word = segment * self.blocks.div_ceil(64) + at / 64;
        (word as usize, 1 << (at % 64))
    }

    /// The block at `place` is dead. A damaged map may name any place.
    pub fn insert(&mut self, place: u64) {
        let (word, bit) = self.locate(place);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// A block lies at `place` again.
    pub fn remove(&mut self, place: u64) {
        let (word, bit) = self.locate(place);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// `segment` is put to a new use.
    pub fn clear(&mut self, segment: u64) {
        let words = self.words_of(segment);
        if let Some(words) = self.words.get_mut(words) {
            words.fill(0);
        }
    }

    /// No hole is known any more.
    pub fn forget(&mut self) {
        self.words.fill(0);
    }

    /// Number of holes in `segment`.
    pub fn count(&self, segment: u64) -> u64 {
        let words = self.words.get(self.words_of(segment));
        let words = words.unwrap_or_default().iter();
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// The holes in `segment`, in the order of their places.
    pub fn places(&self, segment: u64) -> impl Iterator<Item = u64> {
        let places = segment * self.blocks..(segment + 1) * self.blocks;
        places.filter(|place| {
            let (word, bit) = self.locate(*place);
            self.words.get(word).is_some_and(|word| word & bit != 0)
        })
    }

    fn words_of(&self, segment: u64) -> std::ops::Range<usize> {
        let each = self.blocks.div_ceil(64);
        (segment * each) as usize..((segment + 1) * each) as usize
    }
}
