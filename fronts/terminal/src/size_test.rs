use super::{argument, parse, text};

#[test]
fn units_and_letters_are_binary_and_decimal_units_decimal() {
    for (written, bytes) in [
        ("1", 1),
        ("4096", 4096),
        ("10GiB", 10 << 30),
        ("10G", 10 << 30),
        ("10g", 10 << 30),
        ("512 MiB", 512 << 20),
        ("1T", 1 << 40),
        ("64k", 64 << 10),
        ("1.5GiB", 3 << 29),
        ("10GB", 10_000_000_000),
    ] {
        assert_eq!(parse(written), Ok(bytes), "{written}");
    }
}

#[test]
fn invalid_sizes_are_refused_with_advice() {
    for written in [
        "", "G", "ten", "1.5", "-1", "1e9", "10Gigs", "1..2G", "GiB10", "0x10",
    ] {
        let error = parse(written).expect_err(written);
        assert!(error.contains("such as 10GiB"), "{written}: {error}");
    }
    assert!(parse("0").expect_err("zero").contains("at least one byte"));
    assert!(
        parse("99999PiB")
            .expect_err("huge")
            .contains("more than any store")
    );
}

#[test]
fn sizes_are_printed_exactly_where_a_unit_fits() {
    assert_eq!(text(10 << 30), "10 GiB");
    assert_eq!(text(1_500_000), "1.43 MiB");
    assert_eq!(text(0), "0 B");
    assert_eq!(argument(3 << 20), "3MiB");
    assert_eq!(argument(1025), "1025");
    for bytes in [1, 1023, 1 << 20, (1 << 40) + 4096] {
        assert_eq!(parse(&argument(bytes)), Ok(bytes));
    }
}
