//! What the loads of this crate write, and where.

const MIB: usize = 1 << 20;

/// A sequence of random numbers, and contents that differ from write to write.
pub struct Content {
    state: u64,
    bytes: Vec<u8>,
    written: usize,
}

impl Content {
    /// The sequence that every server gets.
    pub fn new() -> Self {
        let mut content = Self {
            state: 0x9e37_79b9_7f4a_7c15,
            bytes: vec![0; 2 * MIB],
            written: 0,
        };
        for at in (0..2 * MIB).step_by(8) {
            let word = content.random().to_le_bytes();
            content.bytes[at..at + 8].copy_from_slice(&word);
        }
        content
    }

    /// Chooses another sequence of random numbers.
    pub fn seed(&mut self, seed: u64) {
        self.state ^= (seed + 1).wrapping_mul(0xd134_2543_de82_ef95);
    }

    /// Marsaglia's xorshift.
    pub fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Content of the next write, of `length` bytes, at most a MiB. It is new, because Tonearm's log stores only the words of a block
    /// that change.
    pub fn next(&mut self, length: usize) -> &[u8] {
        self.written += 1;
        let from = self.written * 8 % MIB;
        &self.bytes[from..][..length]
    }
}
