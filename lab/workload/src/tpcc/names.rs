//! Last names of customers (clause 4.3.2.3).

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// The last name with this number, 0 to 999: a syllable for each of its three digits.
pub fn last_name(number: u32) -> String {
    let digit = |place: u32| SYLLABLES[(number / place % 10) as usize];
    [digit(100), digit(10), digit(1)].concat()
}

/// The rank of each last name in alphabetical order, by its number.
pub(super) fn ranks() -> Vec<u16> {
    let mut numbers: Vec<u16> = (0..1000).collect();
    numbers.sort_by_cached_key(|number| last_name(u32::from(*number)));
    let mut ranks = vec![0; numbers.len()];
    for (rank, number) in (0..).zip(numbers) {
        ranks[usize::from(number)] = rank;
    }
    ranks
}
