//! Traces that must be refused, and the words of the errors.

use crate::{at_ns, read, refused};
use proptest::prelude::*;
use tonearm_trace::{Format, Reader};

#[test]
fn errors_name_file_line_field_and_reason() {
    let cases = [
        (
            Format::DisksimAscii,
            "1 0 5 abc 1",
            "4th field 'abc' is not a number of sectors",
        ),
        (
            Format::DisksimAscii,
            "nan 0 5 8 1",
            "1st field 'nan' is not a time in milliseconds",
        ),
        (
            Format::DisksimAscii,
            "1 0 5",
            "4th field, a number of sectors, is missing",
        ),
        (
            Format::DisksimAscii,
            "1 -1 5 8 1",
            "2nd field '-1' is not a device number",
        ),
        (
            Format::DisksimAscii,
            "1 0 5 0 1",
            "the request has no sectors",
        ),
        (
            Format::DisksimAscii,
            "1 0 18446744073709551615 8 1",
            "the request ends beyond the last sector that can be numbered",
        ),
        (
            Format::DisksimValid,
            "X Hit 1 8 5 5",
            "1st field 'X' is not R or W",
        ),
        (
            Format::DisksimValid,
            "R Hit 1 8 5 -5",
            "6th field '-5' is not a time in microseconds",
        ),
        (
            Format::Spc,
            "0,1,4096,r,",
            "5th field '' is not a time in seconds",
        ),
        (Format::Spc, "0,1,4096", "4th field, r or w, is missing"),
        (
            Format::Msr,
            "1,h,0,Erase,0,1,1",
            "4th field 'Erase' is not Read or Write",
        ),
        (
            Format::Msr,
            "1,h,0,Read,18446744073709551615,2,1",
            "the request ends beyond the last sector that can be numbered",
        ),
        (
            Format::FioIolog,
            "fio version 1 iolog",
            "'fio version 1 iolog' is neither 'fio version 2 iolog' nor 'fio version 3 iolog'",
        ),
        (
            Format::Csv,
            "a,b,c",
            "the header has no column 'think_ms_before_next'",
        ),
        (
            Format::Csv,
            "rw,arrival_ms,blocks",
            "the header has no column 'blkno'",
        ),
    ];
    for (format, line, reason) in cases {
        assert_eq!(refused(format, line), format!("trace.txt:1: {reason}"));
    }
    let text = "# remark\n\nfio version 2 iolog\nf read 0 512\nf move 0 512\n";
    assert_eq!(
        refused(Format::FioIolog, text),
        "trace.txt:5: 2nd field 'move' is not an action of an iolog"
    );
}

#[test]
fn the_reading_ends_with_the_first_error() {
    let text = "1 0 5 8 1\n2 0 5 x 1\n3 0 5 8 1\n";
    let mut reader = Reader::new("t", Format::DisksimAscii, text.as_bytes());
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_short_step_back_is_clamped_and_a_long_one_refused() {
    let text = "5000 0 5 8 1\n4000 0 5 8 1\n6000 0 5 8 1\n";
    let mut reader = Reader::new("t", Format::DisksimAscii, text.as_bytes());
    let at: Vec<u64> = reader
        .by_ref()
        .map(|record| at_ns(&record.unwrap()))
        .collect();
    assert_eq!(at, [5_000_000_000, 5_000_000_000, 6_000_000_000]);
    assert_eq!(reader.clamped(), 1);
    assert_eq!(
        refused(Format::DisksimAscii, "60000 0 5 8 1\n1 0 5 8 1\n"),
        "trace.txt:2: arrives 59.999 s before the line above: are several traces joined here?"
    );
}

#[test]
fn requests_of_no_bytes_are_counted_and_left_out() {
    let text = "0,1,0,r,0.0\n0,1,512,r,0.0\n";
    let mut reader = Reader::new("t", Format::Spc, text.as_bytes());
    assert_eq!(reader.by_ref().count(), 1);
    assert_eq!(reader.skipped(), 1);
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let text = vec![b'1'; 1 << 20];
    for format in Format::ALL {
        assert_eq!(
            refused(format, &text),
            "trace.txt:1: the line is longer than 65536 bytes: is this a text file?"
        );
    }
}

#[test]
fn text_that_an_error_repeats_is_short_and_printable() {
    let mut line = b"1 0 5 ".to_vec();
    line.extend_from_slice(&[0xff; 1000]);
    line.extend_from_slice(b" 1\n");
    let error = refused(Format::DisksimAscii, &line);
    assert!(error.chars().count() < 120, "{error}");
    let error = refused(Format::DisksimAscii, "1 0 5 \x1b[31m 1\n");
    assert!(!error.contains('\x1b'), "{error}");
}

/// Pieces of lines of these formats, and pieces that do not belong there.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "R",
        "W",
        "Hit",
        ",",
        ",",
        " ",
        " ",
        " ",
        "\n",
        "\n",
        "\r\n",
        "0",
        "1",
        "8",
        "512",
        "-1",
        "1e9",
        "18446744073709551615",
        "9223372036854775808",
        "1152921504606846976",
        "0.5",
        "nan",
        "8,0",
        "Q",
        "D",
        "C",
        "+",
        "[0]",
        "FWS",
        "Read",
        "Write",
        "rw",
        "blkno",
        "blocks",
        "arrival_ms",
        "think_ms_before_next",
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "read",
        "write",
        "wait",
        "sync",
        "trim",
        "Total",
        "#",
        "\u{feff}",
        "\0",
    ]);
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    let piece = (0..10u8, words, bytes).prop_map(|(choice, word, bytes)| match choice {
        0 => bytes,
        _ => word.as_bytes().to_vec(),
    });
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in pieces()) {
        for format in Format::ALL {
            if let Ok(records) = read(format, &text) {
                for record in records {
                    prop_assert!(record.sector.checked_add(record.sectors.into()).is_some());
                }
            }
        }
    }
}
