use crate::*;
use proptest::prelude::*;

fn summary(entries: Vec<SummaryEntry>) -> Summary {
    Summary {
        store: [7; 16],
        epoch: 3,
        seq: 99,
        place: 256,
        next: 300,
        partial: 2,
        entries,
    }
}

fn entries(count: u64) -> Vec<SummaryEntry> {
    let kinds = |n: u64| match n % 5 {
        0 => SummaryKind::Data { block: n, crc: 5 },
        1 => SummaryKind::Page {
            level: 2,
            index: n,
            crc: u32::MAX,
        },
        2 => SummaryKind::Hole {
            first: n,
            count: 1 << 40,
        },
        3 => SummaryKind::Indirect { block: n, crc: 9 },
        _ => SummaryKind::Overwritten {
            block: NUMBER_MAX - n,
            place: (NUMBER_MAX >> 1) + n,
            crc: 0x8000_0001,
        },
    };
    let entry = |n| SummaryEntry {
        version: NUMBER_MAX - n,
        kind: kinds(n),
    };
    (0..count).map(entry).collect()
}

#[test]
fn a_summary_comes_back_and_every_flipped_bit_is_noticed() {
    let summary = summary(entries(400));
    let blocks = summary_blocks(4096, 400);
    assert_eq!(blocks, 3);
    let mut bytes = vec![0; 4096 * blocks as usize];
    summary.encode(&mut bytes);
    assert_eq!(Summary::decode(4096, &bytes), Ok(summary));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Summary::decode(4096, &bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(Summary::decode(4096, &bytes[..8192]).is_err());
}

#[test]
fn a_tombstone_of_an_impossible_range_is_refused() {
    for (first, count, is_possible) in [
        (5, 1 << 40, true),
        (5, u64::MAX - 5, true),
        (5, u64::MAX - 4, false),
    ] {
        let kind = SummaryKind::Hole { first, count };
        let mut bytes = vec![0; 4096];
        summary(vec![SummaryEntry { version: 1, kind }]).encode(&mut bytes);
        assert_eq!(
            Summary::decode(4096, &bytes).is_ok(),
            is_possible,
            "{count}"
        );
    }
}

#[test]
fn places_in_a_partial_leave_out_entries_without_a_block() {
    let summary = summary(entries(8));
    let placed: Vec<u64> = summary.placed(4096).map(|(place, _)| place).collect();
    assert_eq!(placed, [257, 258, 259, 260, 261]);
    assert_eq!(summary.blocks(4096), 7);
}

#[test]
fn a_map_page_decodes_only_as_itself() {
    let mut page = MapPage::filled(4096, 1, 9, MapEntry::hole(4));
    let entry = MapEntry {
        place: NUMBER_MAX - 1,
        version: 12,
        crc: 77,
    };
    page.set(253, entry);
    assert_eq!(map_entries(4096), 254);
    let found = MapPage::decode(1, 9, page.bytes()).unwrap();
    assert_eq!((found.get(253), found.get(0)), (entry, MapEntry::hole(4)));
    assert!(MapPage::decode(0, 9, page.bytes()).is_err());
    assert!(MapPage::decode(1, 8, page.bytes()).is_err());
    assert!(MapPage::decode(1, 9, &[0; 4096]).is_err());
}

#[test]
fn a_checkpoint_and_a_segment_come_back() {
    let checkpoint = HomeCheckpoint {
        store: [1; 16],
        generation: 2,
        epoch: 3,
        seq: 4,
        head: 5,
        partial: 6,
        levels: 7,
        root: MapEntry {
            place: 8,
            version: 9,
            crc: 10,
        },
        segments: 11,
        table_crc: 12,
    };
    assert_eq!(HomeCheckpoint::decode(&checkpoint.encode()), Ok(checkpoint));
    let entry = SegmentEntry {
        live: 16383,
        has_holes: true,
        has_notes: true,
        has_indirect: true,
        first: NUMBER_MAX,
        age: 1,
    };
    assert_eq!(SegmentEntry::decode(&entry.encode()), entry);
}

#[test]
fn segment_of_1_mib_holds_252_blocks() {
    let layout = SegmentLayout {
        block_size: 4096,
        segment_bytes: 1 << 20,
        segments: 1 << 20,
    };
    assert_eq!(layout.payload_blocks(), 252);
    assert_eq!(layout.slot_bytes(), 4096 + (16 << 20));
    assert_eq!((map_levels(4096, 254), map_levels(4096, 255)), (1, 2));
    assert_eq!(map_pages(4096, 254 * 254 + 1), 255 + 2 + 1);
}

proptest! {
    #[test]
    fn decoders_take_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 4096), magic in 0..3) {
        let magics: [&[u8]; 3] = [b"TASEGSUM\x01\0\0\0", b"TACHKPNT\x01\0\0\0", b"TAMAP\x01\0\0"];
        let magic = magics[magic as usize];
        bytes[..magic.len()].copy_from_slice(magic);
        let _ = Summary::decode(4096, &bytes);
        let _ = HomeCheckpoint::decode(&bytes);
        let _ = MapPage::decode(0, 0, &bytes);
    }
}
