use super::{parse, parse_short};
use std::time::Duration;

#[test]
fn each_unit_is_read() {
    for (text, seconds) in [
        ("90s", 90),
        ("10m", 600),
        ("24h", 86_400),
        (" 7d ", 604_800),
    ] {
        assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
}

#[test]
fn short_spans_have_milliseconds() {
    for (text, millis) in [
        ("50ms", 50),
        ("5s", 5_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
    ] {
        assert_eq!(
            parse_short(text),
            Ok(Duration::from_millis(millis)),
            "{text}"
        );
    }
    for text in ["", "ms", "50", "50 ms", "1d", "0.5s"] {
        let error = parse_short(text).expect_err(text);
        assert!(error.contains("50ms, 5s"), "{text}: {error}");
    }
    let zero = parse_short("0ms").expect_err("zero");
    assert!(zero.contains("at least one millisecond"));
}

#[test]
fn invalid_times_are_refused_with_advice() {
    for text in [
        "", "s", "10", "10ms", "1.5h", "-1s", "+1s", "10 m", "1w", "10M", "1h30m", "ü",
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains("90s, 10m, 24h"), "{text}: {error}");
    }
    assert!(
        parse("0m")
            .expect_err("zero")
            .contains("at least one second")
    );
    assert!(parse("99999d").expect_err("long").contains("ten years"));
    assert!(
        parse("99999999999999999d")
            .expect_err("huge")
            .contains("ten years")
    );
}
