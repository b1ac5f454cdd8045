//! Spans of time as people write them: `90s`, `10m`, `24h`, `7d`.

use std::time::Duration;

/// Longest span that is accepted: ten years.
const MAX_S: u64 = 10 * 366 * 86_400;

/// Reads a span of at least a second.
///
/// # Errors
/// With the accepted forms.
pub fn parse(text: &str) -> Result<Duration, String> {
    let advice = || "write a whole number and a unit: 90s, 10m, 24h or 7d".to_string();
    let text = text.trim();
    let unit_s = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3_600,
        Some(b'd') => 86_400,
        _ => return Err(advice()),
    };
    let number = &text[..text.len() - 1];
    if !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(advice());
    }
    let count: u64 = number.parse().map_err(|_| advice())?;
    match count.checked_mul(unit_s) {
        Some(0) => Err("a time must be at least one second".into()),
        Some(seconds @ 1..=MAX_S) => Ok(Duration::from_secs(seconds)),
        _ => Err("that is more than ten years".into()),
    }
}

#[cfg(test)]
#[path = "span_test.rs"]
mod span_test;
