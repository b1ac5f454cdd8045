use crate::*;
use proptest::prelude::*;
use tonearm_base::{Lsn, RecordSeq};

fn superblock() -> Superblock {
    Superblock {
        layout: Layout::Overwrite,
        array: None,
        store: [7; 16],
        generation: 3,
        epoch: 2,
        state: State::Open,
        block_size: 4096,
        member_index: 1,
        log_member: 0,
        log_sector_bytes: SECTOR as u16,
        head: HeadKind::Sequential,
        physical_tracks: false,
        incomplete: false,
        track_bytes: 1 << 20,
        log_offset: HEADER_AREA_BYTES,
        log_tracks: 64,
        log: LogState {
            log_start_sector: 5,
            log_start_seq: 9,
            log_end_seq: 12,
            log_end_epoch: 1,
            ..LogState::default()
        },
        size_blocks: 1000,
        created_unix_s: 1_700_000_000,
        trailer_offset: 49 << 20,
        members: vec![
            MemberEntry {
                uuid: [1; 16],
                roles: Roles {
                    log: true,
                    data: false,
                },
                data_offset: 0,
                groups: 0,
                path: String::new(),
            },
            MemberEntry {
                uuid: [2; 16],
                roles: Roles {
                    log: false,
                    data: true,
                },
                data_offset: HEADER_AREA_BYTES,
                groups: 1,
                path: "data.tn".into(),
            },
        ],
    }
}

fn header(entries: Vec<Entry>) -> RecordHeader {
    RecordHeader {
        store: [7; 16],
        epoch: 4,
        seq: RecordSeq(100),
        prev_sector: 30,
        prev_epoch: 3,
        log_start_sector: 10,
        log_start_seq: RecordSeq(90),
        durable_seq: RecordSeq(98),
        first_lsn: Lsn(1000),
        continues: true,
        payload_sectors: entries
            .iter()
            .filter(|e| matches!(e.kind, EntryKind::Data { .. }))
            .count() as u32,
        entries,
    }
}

#[test]
fn a_superblock_is_read_back_unchanged() {
    let original = superblock();
    assert_eq!(Superblock::decode(&original.encode()), Ok(original));
}

#[test]
fn every_flipped_bit_of_a_superblock_is_noticed() {
    let sector = superblock().encode();
    for bit in 0..sector.len() * 8 {
        let mut bad = sector;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn another_version_is_reported() {
    let mut sector = superblock().encode();
    sector[8] = 9;
    let error = Superblock::decode(&sector).unwrap_err();
    assert_eq!(
        error.to_string(),
        "superblock has format version 9, this program reads version 8 alone"
    );
}

#[test]
fn a_superblock_that_contradicts_itself_is_refused() {
    type Spoil = fn(&mut Superblock);
    let spoils: [Spoil; 8] = [
        |s| s.block_size = 5000,
        |s| s.member_index = 2,
        |s| s.track_bytes = 4096,
        |s| s.log_tracks = 1 << 60,
        |s| s.log.log_start_sector = 1 << 40,
        |s| s.log.log_start_seq = 14,
        |s| s.size_blocks = 1017,
        |s| s.members[1].groups = u64::MAX / 2,
    ];
    for (index, spoil) in spoils.iter().enumerate() {
        let mut bad = superblock();
        spoil(&mut bad);
        assert!(Superblock::decode(&bad.encode()).is_err(), "case {index}");
    }
}

#[test]
fn a_volume_entry_comes_back_and_zeroes_are_a_free_one() {
    let entry = VolumeEntry {
        uuid: [3; 16],
        name: "größe".into(),
        size_bytes: 12345,
        kind: VolumeKind::Tree,
        read_only: true,
        created_unix_s: 5,
        extents: vec![
            Extent {
                start: 256,
                count: 4
            };
            EXTENTS_MAX
        ],
    };
    assert_eq!(VolumeEntry::decode(&entry.encode()), Ok(Some(entry)));
    assert_eq!(VolumeEntry::decode(&[0; SECTOR]), Ok(None));
}

#[test]
fn a_volume_with_an_impossible_extent_is_refused() {
    let entry = |start, count| VolumeEntry {
        uuid: [3; 16],
        name: "v".into(),
        size_bytes: 1,
        kind: VolumeKind::Plain,
        read_only: false,
        created_unix_s: 5,
        extents: vec![Extent { start, count }],
    };
    for (start, count, is_possible) in [
        (256, 1, true),
        (u64::MAX - 5, 5, true),
        (u64::MAX - 5, 6, false),
        (u64::MAX, u64::MAX, false),
        (256, 0, false),
    ] {
        let decoded = VolumeEntry::decode(&entry(start, count).encode());
        assert_eq!(decoded.is_ok(), is_possible, "{count} from {start}");
    }
}

#[test]
fn contradictory_record_header_is_refused() {
    const MOST: u64 = 1 << 62;
    type Spoil = fn(&mut RecordHeader);
    let spoils: [(Spoil, bool); 9] = [
        (|h| h.durable_seq = RecordSeq(99), true),
        // Its own durability was not known when it was written.
        (|h| h.durable_seq = RecordSeq(100), false),
        (|h| h.log_start_seq = RecordSeq(100), true),
        (|h| h.log_start_seq = RecordSeq(101), false),
        (|h| h.first_lsn = Lsn(MOST), true),
        (|h| h.first_lsn = Lsn(MOST + 1), false),
        (|h| h.seq = RecordSeq(MOST), true),
        (|h| h.seq = RecordSeq(MOST + 1), false),
        (
            |h| (h.seq, h.log_start_seq, h.durable_seq) = Default::default(),
            false,
        ),
    ];
    for (index, (spoil, is_possible)) in spoils.into_iter().enumerate() {
        let (mut spoilt, mut sector) = (header(vec![]), vec![0; SECTOR]);
        spoil(&mut spoilt);
        spoilt.encode(&[], &mut sector);
        let decoded = RecordHeader::decode(&sector);
        assert_eq!(decoded.is_ok(), is_possible, "case {index}");
    }
}

/// A store whose log is on two drives with heads.
fn with_heads() -> Superblock {
    let mut superblock = superblock();
    superblock.head = HeadKind::Online;
    superblock.physical_tracks = true;
    superblock.log_sector_bytes = 512;
    superblock.track_bytes = 85 * 512;
    superblock.members[0].data_offset = HEADER_AREA_BYTES + (2 << 20);
    superblock.members.push(MemberEntry {
        uuid: [3; 16],
        path: "log2".into(),
        data_offset: HEADER_AREA_BYTES + (1 << 20),
        ..superblock.members[0].clone()
    });
    superblock
}

/// A store of the segments layout.
fn with_segments() -> Superblock {
    let mut superblock = superblock();
    superblock.layout = Layout::Segments {
        segment_bytes: 1 << 20,
        placement: Placement::Append,
    };
    superblock.members[1].groups = 40;
    superblock
}

#[test]
fn the_segments_layout_is_in_the_superblock() {
    let superblock = with_segments();
    assert_eq!(
        Superblock::decode(&superblock.encode()),
        Ok(superblock.clone())
    );
    for placement in Placement::ALL {
        let segment_bytes = 7680 << 10;
        let layout = Layout::Segments {
            segment_bytes,
            placement,
        };
        let placed = Superblock {
            layout,
            ..superblock.clone()
        };
        assert_eq!(Superblock::decode(&placed.encode()).unwrap().layout, layout);
    }
    let layout = superblock.segments().unwrap();
    assert_eq!((layout.segments, layout.segment_blocks()), (40, 256));
    let end = superblock.members[1].data_offset + layout.checkpoint_bytes() + (40 << 20);
    assert_eq!(superblock.data_end(1), end);
    for segment_bytes in [0, 4096, 65536 + 512, 128 << 20] {
        let mut bad = superblock.clone();
        bad.layout = Layout::Segments {
            segment_bytes,
            placement: Placement::Append,
        };
        assert!(
            Superblock::decode(&bad.encode()).is_err(),
            "{segment_bytes}"
        );
    }
}

/// A store whose home blocks are on an array.
fn with_array(level: ArrayLevel) -> Superblock {
    Superblock {
        array: Some(level),
        ..superblock()
    }
}

#[test]
fn superblock_names_the_level_of_its_array() {
    for (level, code) in [(ArrayLevel::Raid0, 1), (ArrayLevel::Raid5, 5)] {
        let superblock = with_array(level);
        let encoded = superblock.encode();
        assert_eq!(encoded[248..250], [code, 0]);
        assert_eq!(Superblock::decode(&encoded), Ok(superblock));
    }
}

#[test]
fn superblock_names_the_place_of_the_trailer_area() {
    let encoded = superblock().encode();
    assert_eq!(encoded[168..176], (49u64 << 20).to_le_bytes());
    assert_eq!(superblock().member_bytes(0), (65 << 20) + (1 << 20));
    let end = superblock().data_end(1);
    assert!(superblock().member_bytes(1) >= end + HEADER_AREA_BYTES);
}

#[test]
fn array_is_the_only_data_member() {
    let changes: [fn(&mut Superblock); 3] = [
        |s| s.members[0].roles.data = true,
        |s| s.members.push(s.members[1].clone()),
        |s| s.members[1].roles.data = false,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut wrong = with_array(ArrayLevel::Raid5);
        wrong.members[0].data_offset = HEADER_AREA_BYTES + (64 << 20);
        wrong.members[0].groups = 1;
        change(&mut wrong);
        assert!(wrong.check().is_err(), "change {index}");
    }
    let mut unknown = with_array(ArrayLevel::Raid5).encode();
    unknown[248] = 6;
    unknown[12..16].fill(0);
    let crc = tonearm_base::crc32c(&unknown);
    unknown[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(Superblock::decode(&unknown).is_err());
}

#[test]
fn a_superblock_with_heads_comes_back() {
    let encoded = with_heads().encode();
    let found = Superblock::decode(&encoded).unwrap();
    assert_eq!(found, with_heads());
    assert_eq!(found.log_members().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(found.log_range(1), 0..0);
    assert_eq!(
        found.log_range(2),
        HEADER_AREA_BYTES..HEADER_AREA_BYTES + (1 << 20)
    );
}

#[test]
fn impossible_heads_are_refused() {
    let changes: [fn(&mut Superblock); 6] = [
        |s| s.log_sector_bytes = 768,
        |s| s.log_sector_bytes = 256,
        |s| s.track_bytes = 10 * 512,
        |s| s.members[2].data_offset = 512,
        |s| s.members[2].roles.data = true,
        |s| s.log_member = 2,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut superblock = with_heads();
        change(&mut superblock);
        let found = Superblock::decode(&superblock.encode());
        assert!(
            matches!(found, Err(FormatError::Inconsistent { .. })),
            "{index}: {found:?}"
        );
    }
}

#[test]
fn a_header_of_a_smaller_sector_comes_back() {
    for bytes in [512, 1024, 2048] {
        let header = header(vec![Entry {
            block: 5,
            kind: EntryKind::Data { crc: 9 },
            last: true,
        }]);
        let displaced: Vec<u8> = (0..header.payload_sectors).map(|i| i as u8).collect();
        let mut sector = vec![0; bytes];
        header.encode(&displaced, &mut sector);
        assert_eq!(RecordHeader::decode(&sector), Ok((header, displaced)));
    }
}

#[test]
fn record_of_another_version_is_refused() {
    let kinds = [
        EntryKind::Data { crc: 1 },
        EntryKind::Trim { count: 3 },
        EntryKind::Zero { count: 3 },
        EntryKind::Patch { at: 8, value: 0 },
        EntryKind::Move { from: 0, crc: 7 },
        EntryKind::Indirect { place: 0, crc: 7 },
    ];
    for kind in kinds {
        let last = true;
        let header = header(vec![Entry {
            block: 5,
            kind,
            last,
        }]);
        let displaced = vec![7; header.payload_sectors as usize];
        let mut sector = vec![0; SECTOR];
        header.encode(&displaced, &mut sector);
        assert_eq!(RecordHeader::decode(&sector), Ok((header, displaced)));
        for version in [0, 1, FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
            sector[8..12].copy_from_slice(&version.to_le_bytes());
            sector[12..16].fill(0);
            let crc = tonearm_base::crc32c(&sector);
            sector[12..16].copy_from_slice(&crc.to_le_bytes());
            let refused = RecordHeader::decode(&sector);
            let is_named = matches!(refused, Err(FormatError::Version { .. }));
            assert!(is_named, "{kind:?}: {refused:?}");
        }
    }
}

fn run(block: u64, at: u32, words: u32) -> Vec<Entry> {
    let patch = |word| Entry {
        block,
        kind: EntryKind::Patch {
            at: at + 8 * word,
            value: u64::from(at + word) << 32 | block,
        },
        last: word + 1 == words,
    };
    (0..words).map(patch).collect()
}

#[test]
fn patches_of_adjacent_words_are_a_run() {
    // Words, and the slots that they take.
    for (words, slots) in [(1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (7, 4), (300, 101)] {
        let header = header(run(7, 80, words));
        let counted = header
            .entries
            .iter()
            .fold(Slots::default(), |slots, entry| slots.with(entry));
        assert_eq!(counted.count(), slots);
        assert_eq!(run_slots(words as usize), slots);
        let mut sector = vec![0; SECTOR];
        header.encode(&[], &mut sector);
        assert_eq!(sector[96..100], u32::to_le_bytes(slots as u32));
        assert_eq!(RecordHeader::decode(&sector), Ok((header, vec![])));
    }
}

#[test]
fn a_run_ends_with_its_commit_its_block_and_a_gap() {
    let mut two = [run(7, 80, 4), run(7, 112, 4)].concat();
    let slots = |entries: &[Entry]| {
        let all = entries
            .iter()
            .fold(Slots::default(), |slots, entry| slots.with(entry));
        all.count()
    };
    // The last word of the first commit is before the first one of the second.
    assert_eq!(slots(&two), 6);
    two[3].last = false;
    assert_eq!(slots(&two), run_slots(8));
    two[4].block = 8;
    assert_eq!(slots(&two), 3 + 1 + 2);
    let gap = [run(7, 80, 3), run(7, 112, 3)].concat();
    assert_eq!(slots(&gap), 4);
}

#[test]
fn a_run_that_is_longer_than_its_slots_is_refused() {
    let mut sector = vec![0; SECTOR];
    header(run(7, 80, 9)).encode(&[], &mut sector);
    let seal = |sector: &mut [u8]| {
        sector[12..16].fill(0);
        let crc = tonearm_base::crc32c(sector);
        sector[12..16].copy_from_slice(&crc.to_le_bytes());
    };
    let count = RECORD_FIXED_BYTES + 8;
    // Words of a run that has 9; two make no run.
    for (words, is_right) in [
        (9u64, true),
        (10, false),
        (2, false),
        (0, false),
        (u64::MAX, false),
        (1 << 32, false),
    ] {
        sector[count..count + 8].copy_from_slice(&words.to_le_bytes());
        seal(&mut sector);
        assert_eq!(RecordHeader::decode(&sector).is_ok(), is_right, "{words}");
    }
    sector[count..count + 8].copy_from_slice(&9u64.to_le_bytes());
    for (at, is_right) in [
        (84u32, false),
        (u32::MAX - 63, false),
        (u32::MAX - 7, false),
        (88, true),
    ] {
        sector[count + 8..count + 12].copy_from_slice(&at.to_le_bytes());
        seal(&mut sector);
        assert_eq!(RecordHeader::decode(&sector).is_ok(), is_right, "{at}");
    }
}

#[test]
fn a_patch_begins_at_a_word() {
    let kind = EntryKind::Patch { at: 4, value: 1 };
    let header = header(vec![Entry {
        block: 5,
        kind,
        last: true,
    }]);
    let mut sector = vec![0; SECTOR];
    header.encode(&[], &mut sector);
    let found = RecordHeader::decode(&sector);
    assert!(
        matches!(found, Err(FormatError::Inconsistent { .. })),
        "{found:?}"
    );
}

#[test]
fn a_table_slot_belongs_to_one_group() {
    let mut slot = TableSlot::empty(4096);
    slot.generation = 8;
    slot.entries[1015] = entry_of_crc(0);
    let mut block = vec![0; 4096];
    slot.encode(77, &mut block);
    assert_eq!(TableSlot::decode(77, &block), Ok(Some(slot)));
    assert!(TableSlot::decode(78, &block).is_err());
    block[4000] ^= 1;
    assert_eq!(
        TableSlot::decode(77, &block),
        Err(FormatError::Checksum("checksum table"))
    );
    assert_eq!(TableSlot::decode(77, &[0; 4096]), Ok(None));
}

#[test]
fn an_escaped_header_is_not_taken_for_a_header() {
    let mut inner = vec![0; SECTOR];
    header(vec![]).encode(&[], &mut inner);
    let (mut escaped, mut displaced) = (vec![0; SECTOR], [0]);
    escape_payload(&inner, &mut escaped, &mut displaced);
    assert!(RecordHeader::looks_like_one(&inner) && !RecordHeader::looks_like_one(&escaped));
    unescape_payload(&mut escaped, &displaced);
    assert_eq!(escaped, inner);
}

proptest! {
    #[test]
    fn a_record_header_is_read_back_unchanged(
        raw in prop::collection::vec((0u64..1 << 40, 0u32..7, any::<u32>(), any::<bool>()), 0..150),
    ) {
        let mut entries: Vec<Entry> = raw
            .into_iter()
            .flat_map(|(block, kind, crc, last)| {
                if kind == 6 {
                    let mut patches = run(block, crc & 0xfff8, 1 + crc % 30);
                    patches.iter_mut().for_each(|patch| patch.last &= last);
                    return patches;
                }
                let count = u64::from(crc) + 1;
                let kind = match kind {
                    0 => EntryKind::Data { crc },
                    1 => EntryKind::Trim { count },
                    2 => EntryKind::Zero { count },
                    3 => EntryKind::Patch { at: crc & 0xfff8, value: count },
                    4 => EntryKind::Move { from: count, crc },
                    _ => EntryKind::Indirect { place: count, crc },
                };
                vec![Entry { block, kind, last }]
            })
            .collect();
        let fits = |entries: &[Entry]| {
            let slots = entries.iter().fold(Slots::default(), |slots, entry| slots.with(entry));
            let data = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Data { .. }));
            record_fits(slots.count(), data.count(), SECTOR)
        };
        while !fits(&entries) {
            entries.pop();
        }
        let header = header(entries);
        let displaced: Vec<u8> = (0..header.payload_sectors).map(|i| i as u8).collect();
        let mut sector = vec![0; SECTOR];
        header.encode(&displaced, &mut sector);
        prop_assert_eq!(RecordHeader::decode(&sector), Ok((header, displaced)));
        sector[3000] ^= 0x10;
        prop_assert!(RecordHeader::decode(&sector).is_err());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(mut bytes in prop::collection::vec(any::<u8>(), SECTOR..SECTOR + 1), kind in 0..6) {
        // With the signatures and checksums in place the fields after them are reached.
        match kind {
            0 => bytes[..12].copy_from_slice(b"TONEARM\0\x01\0\0\0"),
            1 => bytes[..12].copy_from_slice(b"\xffTNREC\r\n\x01\0\0\0"),
            2 => bytes[..12].copy_from_slice(b"TNVOLUME\x01\0\0\0"),
            3 => bytes[..12].copy_from_slice(b"TONEARM\0\x02\0\0\0"),
            4 => bytes[..12].copy_from_slice(b"\xffTNREC\r\n\x02\0\0\0"),
            _ => {}
        }
        bytes[12..16].fill(0);
        let crc = tonearm_base::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let _ = Superblock::decode(&bytes);
        let _ = RecordHeader::decode(&bytes);
        let _ = VolumeEntry::decode(&bytes);
        let _ = TableSlot::decode(0, &bytes);
    }
}
