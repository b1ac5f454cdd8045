//! Spans of time as people write them: `50ms`, `90s`, `10m`, `24h`, `7d`.

use std::time::Duration;

/// Longest span that is accepted: ten years.
const MAX_MS: u64 = 10 * 366 * 86_400_000;

/// Names of units, in milliseconds.
type Units = [(&'static str, u64)];

const LONG: &Units = &[
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const SHORT: &Units = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Reads a span of at least a second.
///
/// # Errors
/// With the accepted forms.
pub fn parse(text: &str) -> Result<Duration, String> {
    match read(text, LONG, "90s, 10m, 24h or 7d")? {
        Duration::ZERO => Err("a time must be at least one second".into()),
        span => Ok(span),
    }
}

/// Reads a span of at least a millisecond.
///
/// # Errors
/// With the accepted forms.
pub fn parse_short(text: &str) -> Result<Duration, String> {
    match read(text, SHORT, "50ms, 5s, 10m or 1h")? {
        Duration::ZERO => Err("a time must be at least one millisecond".into()),
        span => Ok(span),
    }
}

fn read(text: &str, units: &Units, forms: &str) -> Result<Duration, String> {
    let advice = || format!("write a whole number and a unit: {forms}");
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(digits);
    let unit = units.iter().find(|(known, _)| *known == name);
    let (_, unit_ms) = unit.ok_or_else(advice)?;
    let count: u64 = number.parse().map_err(|_| advice())?;
    match count.checked_mul(*unit_ms) {
        Some(millis @ 0..=MAX_MS) => Ok(Duration::from_millis(millis)),
        _ => Err("that is more than ten years".into()),
    }
}

#[cfg(test)]
#[path = "span_test.rs"]
mod span_test;
