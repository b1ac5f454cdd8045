use crate::FORMAT_VERSION;
use crate::{
    ARRAY_BYTES, ArrayDescriptor, ArrayLevel, ArrayMember, ArrayMissing, FormatError,
    HEADER_AREA_BYTES, SECTOR, SHEET_BYTES_MAX, SUPERBLOCK_SLOTS, array_offset, bytes_with_trailer,
    sheet_offsets, superblock_offset, trailer_offset,
};

const GONE: ArrayMissing = ArrayMissing {
    member: 0,
    replaced: false,
    rebuilt_rows: 0,
};

fn descriptor() -> ArrayDescriptor {
    ArrayDescriptor {
        store: [1; 16],
        array: [2; 16],
        generation: 0x0102_0304_0506,
        level: ArrayLevel::Raid5,
        clean: true,
        own_index: Some(2),
        stripe_bytes: 0x1_0000,
        rows: 0x1234,
        missing: Some(ArrayMissing {
            member: 1,
            replaced: true,
            rebuilt_rows: 0x1122,
        }),
        records_offset: 5 << 20,
        records_bytes: 0x11_0000,
        trailer_offset: 0x7770_0000,
        members: (0..4)
            .map(|index| ArrayMember {
                uuid: [10 + index; 16],
                path: format!("disk.{index}"),
            })
            .collect(),
    }
}

/// The bytes that `docs/format/array.md` gives.
#[test]
fn a_descriptor_has_its_documented_bytes() {
    let bytes = descriptor().encode();
    assert_eq!(bytes.len(), ARRAY_BYTES);
    assert_eq!(&bytes[..8], b"TNARRAY\0");
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    assert_eq!(u32_at(8), FORMAT_VERSION);
    assert_eq!(
        (&bytes[16..32], &bytes[32..48]),
        (&[1; 16][..], &[2; 16][..])
    );
    assert_eq!(u64_at(48), 0x0102_0304_0506);
    assert_eq!(
        [u16_at(56), u16_at(58), u16_at(60), u16_at(62)],
        [5, 3, 2, 4]
    );
    assert_eq!((u32_at(64), u16_at(68)), (0x1_0000, 1));
    assert_eq!([u64_at(72), u64_at(80)], [0x1234, 0x1122]);
    assert_eq!([u64_at(88), u64_at(96)], [5 << 20, 0x11_0000]);
    assert_eq!(u64_at(104), 0x7770_0000);
    let second = &bytes[128 + 480..];
    assert_eq!((&second[..16], second[16]), (&[11; 16][..], 6));
    assert_eq!(&second[40..46], b"disk.1");
    assert_eq!(ArrayDescriptor::decode(&bytes), Ok(descriptor()));
}

#[test]
fn absent_values_encode_as_the_largest_number() {
    let none = ArrayDescriptor {
        own_index: None,
        missing: None,
        ..descriptor()
    };
    let bytes = none.encode();
    assert_eq!(
        (&bytes[60..62], &bytes[68..70]),
        (&[255; 2][..], &[255; 2][..])
    );
    assert_eq!(ArrayDescriptor::decode(&bytes), Ok(none));
}

#[test]
fn every_changed_bit_is_noticed() {
    let bytes = descriptor().encode();
    for bit in (0..bytes.len() * 8).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(ArrayDescriptor::decode(&damaged).is_err(), "bit {bit}");
    }
    assert!(ArrayDescriptor::decode(&bytes[..4096]).is_err());
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    let mut bytes = descriptor().encode();
    bytes[8] = 2;
    let refused = ArrayDescriptor::decode(&bytes);
    assert!(matches!(
        refused,
        Err(FormatError::Version { found: 2, .. })
    ));
}

#[test]
fn impossible_descriptors_are_refused() {
    type Change = fn(&mut ArrayDescriptor);
    let changes: [Change; 14] = [
        |d| d.members.truncate(2),
        |d| d.stripe_bytes = 0,
        |d| d.stripe_bytes = 5000,
        |d| d.rows = 0,
        |d| d.rows = 1 << 60,
        |d| d.own_index = Some(4),
        |d| d.missing = Some(ArrayMissing { member: 4, ..GONE }),
        |d| {
            d.missing = Some(ArrayMissing {
                rebuilt_rows: 1,
                ..GONE
            })
        },
        |d| d.missing.as_mut().expect("one").rebuilt_rows = 0x1235,
        |d| d.level = ArrayLevel::Raid0,
        |d| d.records_bytes = 0,
        |d| d.records_offset = 4096,
        |d| d.generation = u64::MAX,
        |d| d.members[3].uuid = d.members[1].uuid,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut wrong = descriptor();
        change(&mut wrong);
        assert!(wrong.check().is_err(), "change {index}");
        let decoded = ArrayDescriptor::decode(&wrong.encode());
        assert!(decoded.is_err(), "change {index}");
    }
}

#[test]
fn copies_do_not_overlap_and_half_of_them_lie_at_each_end() {
    let size = (50 << 20) + 12_288;
    assert_eq!(trailer_offset(size), 49 << 20);
    let range = |offset: u64, bytes: usize| offset..offset + bytes as u64;
    let sheets = sheet_offsets(size).map(|offset| range(offset, SHEET_BYTES_MAX));
    let mut all: Vec<_> = sheets.into_iter().collect();
    for slot in 0..SUPERBLOCK_SLOTS {
        all.push(range(superblock_offset(slot, size), SECTOR));
        all.push(range(array_offset(slot, size), ARRAY_BYTES));
    }
    all.sort_by_key(|range| range.start);
    assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
    let is_first = |range: &&std::ops::Range<u64>| range.end <= HEADER_AREA_BYTES;
    let is_last = |range: &&std::ops::Range<u64>| {
        (49 << 20..50 << 20).contains(&range.start) && range.end <= 50 << 20
    };
    assert_eq!(all.iter().filter(is_first).count(), 5);
    assert_eq!(all.iter().filter(is_last).count(), 5);
}

#[test]
fn trailer_area_begins_after_the_content() {
    for end in [1 << 20, (1 << 20) + 4096, (9 << 20) - 4096] {
        let least = bytes_with_trailer(end);
        for more in [0, 4096, 1 << 20, (5 << 20) + 512] {
            assert!(trailer_offset(least + more) >= end);
        }
        assert!(trailer_offset(least - 1) < end);
    }
    assert_eq!([0, 4096, 2 << 20].map(trailer_offset), [0, 0, 1 << 20]);
}
