use crate::{FormatError, ParityExtent, ParityRecord, SECTOR};
use tonearm_base::crc32c;

fn record() -> (ParityRecord, Vec<u8>) {
    let payload: Vec<u8> = (0..8192u32).map(|at| (at % 251) as u8).collect();
    let extent = |column, start, len| ParityExtent { column, start, len };
    let record = ParityRecord {
        array: [7; 16],
        row: 1 << 40,
        start: 4096,
        len: 8192,
        payload_crc: crc32c(&payload),
        extents: vec![extent(0, 4096, 512), extent(3, 8192, 4096)],
    };
    let mut slot = record.encode().to_vec();
    slot.extend(&payload);
    (record, slot)
}

#[test]
fn a_parity_record_comes_back_and_zeroes_are_a_free_slot() {
    let (record, slot) = record();
    let (found, payload) = ParityRecord::decode(&slot).unwrap().unwrap();
    assert_eq!((&found, payload), (&record, &slot[SECTOR..]));
    assert_eq!(ParityRecord::decode(&[0; SECTOR]), Ok(None));
}

#[test]
fn a_torn_parity_record_is_refused() {
    let (_, slot) = record();
    for at in (0..slot.len()).step_by(97) {
        let mut torn = slot.clone();
        torn[at] ^= 0x10;
        assert!(ParityRecord::decode(&torn).is_err(), "byte {at}");
    }
    for len in [0, 100, SECTOR, SECTOR + 8191] {
        assert!(ParityRecord::decode(&slot[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn an_extent_outside_of_the_range_is_refused() {
    let (mut record, slot) = record();
    for (start, len) in [(0, 512), (8192, 4097), (u32::MAX, 2)] {
        record.extents[1].start = start;
        record.extents[1].len = len;
        let mut bytes = record.encode().to_vec();
        bytes.extend(&slot[SECTOR..]);
        let refused = ParityRecord::decode(&bytes).unwrap_err();
        assert!(
            matches!(refused, FormatError::Inconsistent { .. }),
            "{start} {len}"
        );
    }
}
