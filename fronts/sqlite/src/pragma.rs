//! Reads the value of `PRAGMA synchronous`.

/// Whether commits wait until they are durable after `PRAGMA synchronous = value`, which SQLite reads the same way
/// (`getSafetyLevel` in its pragma.c): a number, or a word, and anything else means NORMAL.
pub fn waits(value: &str) -> bool {
    let digits: String = value
        .chars()
        .take_while(char::is_ascii_digit)
        .take(9)
        .collect();
    if let Ok(number) = digits.parse::<u32>() {
        // SQLite uses three bits of the number plus one. A level of zero there means OFF.
        return ((number as u8).wrapping_add(1) & 7) >= 3;
    }
    ["full", "extra"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn full_and_extra_wait() {
        for value in ["full", "FULL", "extra", "2", "3"] {
            assert!(waits(value), "{value}");
        }
    }

    #[test]
    fn normal_off_and_nonsense_do_not() {
        for value in [
            "off", "normal", "NORMAL", "0", "1", "on", "true", "bogus", "",
        ] {
            assert!(!waits(value), "{value}");
        }
    }
}
