//! A set of small numbers, stored as bits.

/// Grows with the highest bit that is set.
#[derive(Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub fn set(&mut self, index: u64) {
        let word = (index / 64) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (index % 64);
    }

    pub fn clear(&mut self, index: u64) {
        if let Some(word) = self.0.get_mut((index / 64) as usize) {
            *word &= !(1 << (index % 64));
        }
    }

    /// The first index from `from` on that is not set.
    pub fn next_clear(&self, from: u64) -> u64 {
        let mut at = from;
        loop {
            let Some(word) = self.0.get((at / 64) as usize) else {
                return at;
            };
            let clear = !word >> (at % 64);
            if clear != 0 {
                return at + u64::from(clear.trailing_zeros());
            }
            at = (at / 64 + 1) * 64;
        }
    }

    pub fn get(&self, index: u64) -> bool {
        let word = self.0.get((index / 64) as usize);
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}
