use super::{count, date, one_line, span};
use anyhow::Context;

#[test]
fn dates_follow_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
    assert_eq!(date(1_767_225_599), "2025-12-31 23:59:59 UTC");
}

#[test]
fn numbers_are_readable() {
    assert_eq!(count(1_234_567), "1,234,567");
    assert_eq!(count(999), "999");
    assert_eq!(span(1_500), "1.5 us");
    assert_eq!(span(2_000_000_000), "2.0 s");
}

#[test]
fn an_error_is_one_line_without_repetition() {
    let cause = std::io::Error::other("no such thing");
    let error = Err::<(), _>(cause)
        .context("cannot do it: no such thing")
        .expect_err("an error");
    assert_eq!(one_line(&error), "cannot do it: no such thing");
    let error = anyhow::anyhow!("a\nb").context("outer");
    assert_eq!(one_line(&error), "outer: a b");
}
