//! Contents for blocks that are overwritten many times. The log stores only the parts of a block that change, so a
//! benchmark of whole blocks must change every word of a block with each write.

/// Number of different pages. Consecutive versions of a block have different pages.
const PAGES: usize = 61;

/// Pages that have no word in common.
pub struct Contents {
    bytes: usize,
    all: Vec<u8>,
}

impl Contents {
    /// Makes pages of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let words = (0..(PAGES * bytes / 8) as u64).map(|word| {
            let mixed = (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 29)).to_le_bytes()
        });
        Self {
            bytes,
            all: words.flatten().collect(),
        }
    }

    /// The page for version `version`.
    pub fn of(&self, version: u64) -> &[u8] {
        let page = (version % PAGES as u64) as usize;
        &self.all[page * self.bytes..][..self.bytes]
    }
}
