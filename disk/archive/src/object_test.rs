use super::*;
use crate::keys::NoKeys;

fn object(payload: &[u8]) -> (ArchiveHeader, Vec<u8>) {
    let header = ArchiveHeader {
        kind: ArchiveKind::Mark,
        store: [0; 16],
        number: 1,
        epoch: 1,
        first: 1,
        last: 1,
        inexact_from: 0,
        exact_from: 0,
        unix_ms: 0,
        raw_bytes: 0,
        stored_bytes: 0,
        payload_crc: 0,
        digest: 0,
        previous_crc: 0,
        base: 0,
        encrypted: false,
        spares_table: false,
        level: 0,
    };
    let (header, object) = Packer::of(payload).seal(&NoKeys, header);
    (header, object[ARCHIVE_HEADER_BYTES..].to_vec())
}

#[test]
fn payload_comes_back() {
    for size in [0, 1, 100_000] {
        let payload: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let (header, stored) = object(&payload);
        assert_eq!(unpack(&header, &stored), Ok(payload));
    }
}

#[test]
fn payload_of_another_size_than_claimed_is_damaged() {
    let (header, stored) = object(&[7; 1000]);
    for raw_bytes in [0, 999, 1001, 1 << 32] {
        let header = ArchiveHeader {
            raw_bytes,
            ..header
        };
        assert!(unpack(&header, &stored).is_err(), "{raw_bytes}");
    }
    assert!(unpack(&header, &stored[..stored.len() - 1]).is_err());
    assert!(unpack(&header, b"no frame").is_err());
}

#[test]
fn frame_that_expands_is_read_no_further_than_claimed() {
    let (header, stored) = object(&vec![0; 64 << 20]);
    let header = ArchiveHeader {
        raw_bytes: 10,
        ..header
    };
    assert!(unpack(&header, &stored).is_err());
}
