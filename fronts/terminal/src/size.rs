//! Sizes as people write them: `10GiB`, `10G` (the same), `512MB` (decimal), plain bytes.

use bytesize::ByteSize;

/// Largest size that is accepted: more than any store can have.
const MAX: u64 = 1 << 62;

/// Reads a size in bytes, at least 1.
///
/// # Errors
/// With the accepted forms.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.trim();
    let looks_right = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.')
        && number.matches('.').count() <= 1
        && !(unit.is_empty() && number.contains('.'));
    if !looks_right {
        return Err(advice());
    }
    // A single letter is the binary unit, as in other disk tools.
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => "B",
        "k" | "ki" | "kib" => "KiB",
        "m" | "mi" | "mib" => "MiB",
        "g" | "gi" | "gib" => "GiB",
        "t" | "ti" | "tib" => "TiB",
        "p" | "pi" | "pib" => "PiB",
        "kb" => "KB",
        "mb" => "MB",
        "gb" => "GB",
        "tb" => "TB",
        "pb" => "PB",
        _ => return Err(advice()),
    };
    let bytes = format!("{number}{unit}")
        .parse::<ByteSize>()
        .map_err(|_| advice())?
        .as_u64();
    match bytes {
        0 => Err("a size must be at least one byte".into()),
        1..=MAX => Ok(bytes),
        _ => Err("that is more than any store can have".into()),
    }
}

fn advice() -> String {
    "write a number and a unit, such as 10GiB, 512MiB, 1T (= 1TiB), or plain bytes".into()
}

/// A size for people: a whole number of the largest unit that divides it, else two digits after the point.
pub fn text(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (u64::BITS - 1 - bytes.max(1).leading_zeros()) as usize / 10;
    let (name, one) = (UNITS[unit], 1u64 << (10 * unit));
    if bytes.is_multiple_of(one) {
        format!("{} {name}", bytes / one)
    } else {
        format!("{:.2} {name}", bytes as f64 / one as f64)
    }
}

/// A size as an argument of this program: exact.
pub fn argument(bytes: u64) -> String {
    for (name, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{name}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
#[path = "size_test.rs"]
mod size_test;
