//! A random permutation of the numbers below n, without a table.
//!
//! A number is split into a quotient and a remainder. Each round adds a hash of one part to the other part, modulo that
//! part's range, which can be undone; so the whole is a permutation of rows * columns numbers. That product is at least
//! n. A result of n or more is permuted again until it is below n, which keeps the map a permutation of the numbers
//! below n.

use crate::random::Random;

const ROUNDS: usize = 4;

/// The permutation.
pub(crate) struct Permutation {
    numbers: u64,
    rows: u64,
    columns: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// A permutation of `numbers` numbers, at least 1.
    pub fn new(numbers: u64, random: &mut Random) -> Self {
        let columns = numbers.isqrt().max(1);
        Self {
            numbers,
            rows: numbers.div_ceil(columns),
            columns,
            keys: std::array::from_fn(|_| random.number()),
        }
    }

    /// Where `number` goes.
    #[inline]
    pub fn at(&self, number: u64) -> u64 {
        let mut number = number;
        loop {
            let (mut row, mut column) = (number / self.columns, number % self.columns);
            for keys in self.keys.chunks_exact(2) {
                row = add(row, hash(column, keys[0]), self.rows);
                column = add(column, hash(row, keys[1]), self.columns);
            }
            number = row * self.columns + column;
            if number < self.numbers {
                return number;
            }
        }
    }
}

/// `value` plus a number below `range` that `hash` chooses, modulo `range`.
#[inline]
fn add(value: u64, hash: u64, range: u64) -> u64 {
    let sum = value + ((u128::from(hash) * u128::from(range)) >> 64) as u64;
    if sum >= range { sum - range } else { sum }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
#[inline]
fn hash(value: u64, key: u64) -> u64 {
    let mut z = value.wrapping_add(key);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "permutation_test.rs"]
mod permutation_test;
