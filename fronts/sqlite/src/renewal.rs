//! A connection that goes on with another server: what SQLite has in memory must not pass for what the file has now.
//!
//! SQLite keeps pages and the schema between transactions. It takes them for current while the file's counter of changes
//! and its schema number are those that it has seen. The server that died may have taken commits with it that it had
//! answered and that were not durable (`synchronous` NORMAL or OFF), and others may have committed since. Then the same
//! numbers stand for other content. So a connection sees these numbers of its file shifted, by another amount for each
//! server that it has gone on with. SQLite then reads everything again, and later finds the same numbers as long as nothing
//! changes.

use std::borrow::Cow;

/// Places of the numbers in the file, four bytes each: the counter of changes, the schema number, and the counter for which
/// the size in the header is valid (SQLite's file format, 1.3).
const NUMBERS: [u64; 3] = [24, 40, 92];

/// Odd, so that no two of 2^32 renewals have the same shift, and far from what a lost commit or two may change.
const STEP: u32 = 0x3c6e_f361;

/// By how much a connection sees the numbers of its file shifted.
#[derive(Clone, Copy, Default)]
pub struct Shift(u32);

impl Shift {
    /// The connection goes on with another server.
    pub fn renew(&mut self) {
        self.0 = self.0.wrapping_add(STEP);
    }

    /// The connection has gone on with another server.
    pub fn is_renewed(self) -> bool {
        self.0 != 0
    }

    /// Makes of `bytes` at `offset` of the file what the connection sees.
    pub fn show(self, bytes: &mut [u8], offset: u64) {
        shift(bytes, offset, self.0);
    }

    /// Makes of `bytes` that the connection writes at `offset` what the file gets.
    pub fn store(self, bytes: &[u8], offset: u64) -> Cow<'_, [u8]> {
        let Some(last) = NUMBERS.last().filter(|_| self.is_renewed()) else {
            return bytes.into();
        };
        if offset > *last {
            return bytes.into();
        }
        let mut bytes = bytes.to_vec();
        shift(&mut bytes, offset, self.0.wrapping_neg());
        bytes.into()
    }
}

fn shift(bytes: &mut [u8], offset: u64, by: u32) {
    if by == 0 {
        return;
    }
    for place in NUMBERS {
        let at = place.checked_sub(offset).map(|at| at as usize);
        let number = at.and_then(|at| bytes.get_mut(at..at + 4));
        if let Some(number) = number {
            let old = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
            number.copy_from_slice(&old.wrapping_add(by).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shift;

    #[test]
    fn numbers_are_seen_shifted_and_stored_as_they_were() {
        let page: Vec<u8> = (0..=255).collect();
        let mut shift = Shift::default();
        for renewals in 0..3 {
            let mut seen = page.clone();
            shift.show(&mut seen, 0);
            let changed: Vec<usize> = (0..256).filter(|at| seen[*at] != page[*at]).collect();
            assert_eq!(changed.is_empty(), renewals == 0);
            let within = |at: &usize| {
                [24, 40, 92]
                    .iter()
                    .any(|from| (*from..from + 4).contains(at))
            };
            assert!(changed.iter().all(within), "{changed:?}");
            assert_eq!(*shift.store(&seen, 0), page);
            // SQLite reads the counter with what follows it.
            let mut version = page[24..40].to_vec();
            shift.show(&mut version, 24);
            assert_eq!(version, seen[24..40]);
            // Another page, and the end of a short file.
            for (offset, len) in [(4096, 256), (512, 100), (0, 20)] {
                let mut other = page[..len].to_vec();
                shift.show(&mut other, offset);
                assert_eq!(other, page[..len]);
                assert_eq!(*shift.store(&other, offset), other);
            }
            shift.renew();
        }
    }

    #[test]
    fn a_number_that_was_seen_does_not_come_again_soon() {
        let counter = |shift: Shift, number: u32| {
            let mut bytes = number.to_be_bytes();
            shift.show(&mut bytes, 24);
            u32::from_be_bytes(bytes)
        };
        let mut shift = Shift::default();
        let mut seen = Vec::new();
        for _ in 0..16 {
            let numbers = (1000..1100).map(|number| counter(shift, number));
            let numbers: Vec<u32> = numbers.collect();
            assert!(numbers.iter().all(|number| !seen.contains(number)));
            seen.extend(numbers);
            shift.renew();
        }
    }
}
