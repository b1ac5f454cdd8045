//! Numbers in traces, read exactly.

/// Longest time that is accepted, in nanoseconds: 36 years, so that sums of a few do not overflow.
pub(crate) const TIME_MAX_NS: u64 = 1 << 60;

/// A number of decimal digits alone.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A number of hexadecimal digits, with or without `0x`.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    // from_str_radix would accept it.
    if digits.starts_with(b"+") {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A time, such as `12.345`, in units of `unit_ns`: nanoseconds, rounded to the nearest. Never
/// negative, and at most [`TIME_MAX_NS`].
pub(crate) fn time_ns(text: &[u8], unit_ns: u64) -> Option<u64> {
    let nanos = if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        scientific(text, unit_ns)?
    } else {
        decimal(text, unit_ns)?
    };
    (nanos <= TIME_MAX_NS).then_some(nanos)
}

fn decimal(text: &[u8], unit_ns: u64) -> Option<u64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { integer(whole)? };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // The digits after the 18th are less than a nanosecond in any unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        let scale = 10u128.pow(fraction.len() as u32);
        let scaled = u128::from(integer(fraction)?) * u128::from(unit_ns);
        u64::try_from((scaled + scale / 2) / scale).ok()?
    };
    whole.checked_mul(unit_ns)?.checked_add(part)
}

/// `1.5e+06`, as C's `%g` writes large times.
fn scientific(text: &[u8], unit_ns: u64) -> Option<u64> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let nanos = (value * unit_ns as f64).round();
    // NaN and infinity fail this, too.
    (0.0..=TIME_MAX_NS as f64)
        .contains(&nanos)
        .then_some(nanos as u64)
}

#[cfg(test)]
#[path = "number_test.rs"]
mod number_test;
