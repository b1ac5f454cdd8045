//! NURand, the standard's non-uniform random numbers (clause 2.1.6).

use crate::random::Random;

/// `NURand(a, low, high)` with its constant C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NuRand {
    /// 255 for last names, 1023 for customers, 8191 for items.
    pub a: u32,
    /// The least number.
    pub low: u32,
    /// The greatest number.
    pub high: u32,
    /// From 0 to `a`.
    pub c: u32,
}

impl NuRand {
    /// `NURand(a, low, high)` with a random C.
    pub fn new(a: u32, low: u32, high: u32, random: &mut Random) -> Self {
        let c = random.between(0, a);
        Self { a, low, high, c }
    }

    /// A number.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        let mixed = random.between(0, self.a) | random.between(self.low, self.high);
        (mixed + self.c) % (self.high - self.low + 1) + self.low
    }
}
