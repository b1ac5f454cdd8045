//! Gzipped files are recognised by their first bytes.

use crate::read;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use tonearm_trace::Format;

const LINES: &str = "0,303567,3584,w,0.000000\n1,55590,3072,w,0.000000\n";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzipped_and_plain_files_read_the_same() {
    let plain = read(Format::Spc, LINES).unwrap();
    assert_eq!(plain.len(), 2);
    assert_eq!(read(Format::Spc, gzip(LINES)).unwrap(), plain);
}

#[test]
fn gzip_files_in_a_row_are_one() {
    let twice = [gzip(LINES), gzip(LINES)].concat();
    assert_eq!(read(Format::Spc, twice).unwrap().len(), 4);
}

#[test]
fn a_damaged_gzip_file_is_an_error_with_its_place() {
    let mut packed = gzip(LINES);
    packed.truncate(packed.len() - 6);
    let error = read(Format::Spc, packed).unwrap_err().to_string();
    assert!(
        error.starts_with("trace.txt:3: cannot read on: "),
        "{error}"
    );
    let error = read(Format::Spc, [0x1f, 0x8b, 8, 0])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("trace.txt:1: cannot read on: "),
        "{error}"
    );
}

#[test]
fn files_of_one_byte_or_none_are_read() {
    assert_eq!(read(Format::Spc, "").unwrap(), []);
    assert_eq!(read(Format::Spc, "\n").unwrap(), []);
    assert!(read(Format::Spc, [0x1f]).is_err());
}
