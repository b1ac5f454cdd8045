use super::{TIME_MAX_NS, hexadecimal, integer, time_ns};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

#[test]
fn times_are_exact() {
    assert_eq!(time_ns(b"0.026214", S), Some(26_214_000));
    assert_eq!(time_ns(b"45.422000", MS), Some(45_422_000));
    assert_eq!(time_ns(b"20296.786638", 1_000), Some(20_296_787));
    assert_eq!(time_ns(b"7", S), Some(7 * S));
    assert_eq!(time_ns(b"7.", S), Some(7 * S));
    assert_eq!(time_ns(b".5", S), Some(S / 2));
    assert_eq!(
        time_ns(b"0.1234567899999999999999999", S),
        Some(123_456_790)
    );
    assert_eq!(time_ns(b"1.5e+03", MS), Some(1_500 * MS));
}

#[test]
fn invalid_times_are_refused() {
    for text in [
        "",
        ".",
        "-1",
        "-0.0",
        "+1",
        "nan",
        "NaN",
        "inf",
        "infinity",
        "1e999",
        "-1e3",
        "1.2.3",
        "0x10",
        "1 ",
        "e5",
        "1,5",
        "1_000",
        "1e",
        "99999999999999999999",
        "1e300",
    ] {
        assert_eq!(time_ns(text.as_bytes(), S), None, "{text}");
    }
    assert_eq!(time_ns(&[0xff, 0xfe], S), None);
    let max = TIME_MAX_NS.to_string();
    assert_eq!(time_ns(max.as_bytes(), 1), Some(TIME_MAX_NS));
    let more = (TIME_MAX_NS + 1).to_string();
    assert_eq!(time_ns(more.as_bytes(), 1), None);
}

#[test]
fn integers_do_not_overflow() {
    assert_eq!(integer(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(integer(b"18446744073709551616"), None);
    for text in ["", "-1", "+1", "1.0", " 1", "a"] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn flags_are_hexadecimal() {
    assert_eq!(hexadecimal(b"1"), Some(1));
    assert_eq!(hexadecimal(b"0x4a"), Some(0x4a));
    for text in ["", "0x", "+1", "-1", "g"] {
        assert_eq!(hexadecimal(text.as_bytes()), None, "{text}");
    }
}
