//! The configuration space, byte by byte.

use crate::shape::{Features, Shape};

fn shape() -> Shape {
    Shape {
        name: "a volume with a long name".to_owned(),
        size_bytes: 3 << 30,
        block_size: 8192,
        read_only: false,
    }
}

#[test]
fn the_fields_are_where_the_specification_has_them() {
    let bytes = shape().configuration();
    assert_eq!(bytes.len(), 60);
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(bytes[..8], (6u64 << 20).to_le_bytes());
    assert_eq!(number(12), 126, "segments");
    assert_eq!(number(20), 512, "block size of the protocol");
    assert_eq!(bytes[24..28], [4, 0, 16, 0], "a block is 16 sectors");
    assert_eq!(number(28), 16, "best request");
    assert_eq!(bytes[34..36], [16, 0], "queues");
    assert_eq!((number(36), number(40)), (1 << 22, 16), "discard");
    assert_eq!(number(44), 16, "alignment of a discard");
    assert_eq!((number(48), number(52)), (1 << 22, 16), "zeroes");
    assert_eq!(bytes[56], 1, "zeroes may give space back");
}

#[test]
fn the_serial_number_is_the_beginning_of_the_name() {
    assert_eq!(&shape().serial(), b"a volume with a long");
    let short = Shape {
        name: "main".to_owned(),
        ..shape()
    };
    assert_eq!(short.serial()[..5], *b"main\0");
}

#[test]
fn a_volume_without_changes_offers_none() {
    let fixed = Shape {
        read_only: true,
        ..shape()
    };
    let (read_only, discard) = (1 << 5, 1 << 13);
    assert_eq!(fixed.features() & (read_only | discard), read_only);
    assert_eq!(shape().features() & (read_only | discard), discard);
    assert!(Features(shape().features()).flushes());
    assert!(!Features(0).flushes());
}
