use super::parse;
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
fn what_is_no_time_is_refused_with_advice() {
    for text in [
        "", "s", "10", "1.5h", "-1s", "+1s", "10 m", "1w", "10M", "1h30m", "ü",
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
