//! Contents for blocks that are written again and again. Of a block that changes in parts the log takes the parts, so
//! what is to be measured with whole blocks must be new in every word.

/// Different pages: two versions of a block that follow each other have different ones.
const PAGES: usize = 61;

/// Pages without any word in common.
pub struct Contents {
    bytes: usize,
    all: Vec<u8>,
}

impl Contents {
    /// Pages of `bytes` bytes.
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

    /// The page of version `version`.
    pub fn of(&self, version: u64) -> &[u8] {
        let page = (version % PAGES as u64) as usize;
        &self.all[page * self.bytes..][..self.bytes]
    }
}
