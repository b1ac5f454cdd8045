use crate::archive::ARCHIVE_LIST_MAX;
use crate::*;
use proptest::prelude::*;
use tonearm_base::{Lsn, crc32c};

fn header() -> ArchiveHeader {
    ArchiveHeader {
        kind: ArchiveKind::Range,
        store: [3; 16],
        number: 7,
        epoch: 2,
        first: 10,
        last: 20,
        inexact_from: 12,
        exact_from: 15,
        unix_ms: 1_700_000_000_000,
        raw_bytes: 100,
        stored_bytes: 50,
        payload_crc: 1,
        digest: 2,
        previous_crc: 3,
        base: 4,
        encrypted: true,
        spares_table: false,
        level: 2,
    }
}

#[test]
fn a_header_comes_back_and_each_changed_byte_is_noticed() {
    let bytes = header().encode();
    assert_eq!(ArchiveHeader::decode(&bytes), Ok(header()));
    for (encrypted, spares_table) in [(false, true), (true, true), (false, false)] {
        let header = ArchiveHeader {
            encrypted,
            spares_table,
            ..header()
        };
        assert_eq!(ArchiveHeader::decode(&header.encode()), Ok(header));
    }
    for at in 0..bytes.len() {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert!(ArchiveHeader::decode(&changed).is_err(), "byte {at}");
    }
    assert!(ArchiveHeader::decode(&bytes[..127]).is_err());
    let empty = ArchiveHeader {
        first: 21,
        ..header()
    };
    assert!(ArchiveHeader::decode(&empty.encode()).is_err());
    let merged = ArchiveHeader {
        kind: ArchiveKind::Merged,
        ..header()
    };
    assert_eq!(ArchiveHeader::decode(&merged.encode()), Ok(merged));
    assert_eq!((merged.numbers(), merged.end_crc()), ((4, 7), 2));
    let of_nothing = ArchiveHeader { base: 8, ..merged };
    assert!(ArchiveHeader::decode(&of_nothing.encode()).is_err());
}

#[test]
fn entries_come_back_and_a_payload_that_is_cut_off_is_refused() {
    let mut writer = ArchiveWriter::default();
    let data = vec![9; 4096];
    writer.data(5, crc32c(&data), &data);
    writer.zero(6, 3, false);
    writer.commit(Lsn(10));
    let first = writer.last_digest();
    writer.zero(9, 1, true);
    writer.patch(5, &[(8, 77), (4088, 78)]);
    writer.commit(Lsn(11));
    writer.time(1234);
    assert_ne!(first, writer.last_digest());
    let bytes = writer.into_bytes();
    let mut reader = ArchiveReader::new(&bytes, 4096);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next() {
        entries.push(entry.unwrap());
    }
    let ArchiveEntry::Patch { words, .. } = &entries[4] else {
        panic!("{entries:?}");
    };
    let words: Vec<_> = words.iter().collect();
    assert_eq!(
        words,
        [(8, 77u64.to_le_bytes()), (4088, 78u64.to_le_bytes())]
    );
    let zero = |first, count, keep_space| ArchiveEntry::Zero {
        first,
        count,
        keep_space,
    };
    assert_eq!(entries[1], zero(6, 3, false));
    assert_eq!(entries[3], zero(9, 1, true));
    assert_eq!(entries[2], ArchiveEntry::Commit(Lsn(10)));
    assert_eq!(entries[6], ArchiveEntry::Time { unix_ms: 1234 });
    for cut in 1..bytes.len() {
        let mut reader = ArchiveReader::new(&bytes[..cut], 4096);
        let mut count = 0;
        while let Some(Ok(_)) = reader.next() {
            count += 1;
        }
        assert!(count < 7, "{cut}");
    }
}

proptest! {
    #[test]
    fn any_payload_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let mut reader = ArchiveReader::new(&bytes, 4096);
        while let Some(Ok(_)) = reader.next() {}
        let _ = ArchiveOpening::decode(&bytes);
        let _ = ArchiveBase::decode(&bytes);
        let _ = ArchiveHeader::decode(&bytes);
    }
}

#[test]
fn lists_that_are_too_long_or_out_of_order_are_refused() {
    for kind in [ArchiveKind::Opening, ArchiveKind::Base, ArchiveKind::Mark] {
        let list = ArchiveHeader {
            kind,
            inexact_from: 0,
            raw_bytes: ARCHIVE_LIST_MAX,
            ..header()
        };
        assert_eq!(ArchiveHeader::decode(&list.encode()), Ok(list));
        let long = ArchiveHeader {
            raw_bytes: ARCHIVE_LIST_MAX + 1,
            ..list
        };
        assert!(ArchiveHeader::decode(&long.encode()).is_err());
    }
    for (ends, is_right) in [
        (&[20, 60, 77][..], true),
        (&[20, 20, 77], false),
        (&[60, 20, 77], false),
        (&[0, 77], false),
        (&[20, 78], false),
    ] {
        let part = |end_block: &u64| ArchivePart {
            end_block: *end_block,
            crc: 1,
        };
        let base = ArchiveBase {
            block_size: 8192,
            size_blocks: 77,
            folder: 9,
            parts: ends.iter().map(part).collect(),
        };
        assert_eq!(
            ArchiveBase::decode(&base.encode()).is_ok(),
            is_right,
            "{ends:?}"
        );
    }
}

#[test]
fn openings_and_bases_come_back() {
    let opening = ArchiveOpening {
        block_size: 4096,
        size_blocks: 1000,
        creator: "host".into(),
    };
    assert_eq!(ArchiveOpening::decode(&opening.encode()), Ok(opening));
    let base = ArchiveBase {
        block_size: 8192,
        size_blocks: 77,
        folder: 9,
        parts: (1..4)
            .map(|part| ArchivePart {
                end_block: 20 * u64::from(part),
                crc: part,
            })
            .collect(),
    };
    assert_eq!(ArchiveBase::decode(&base.encode()), Ok(base));
}

#[test]
fn base_keeps_nothing_from_a_later_object_on() {
    let base = ArchiveHeader {
        kind: ArchiveKind::Base,
        inexact_from: 7,
        ..header()
    };
    assert_eq!(ArchiveHeader::decode(&base.encode()), Ok(base));
    assert_eq!(base.kept_from(), 7);
    let later = ArchiveHeader {
        inexact_from: 8,
        ..base
    };
    assert!(ArchiveHeader::decode(&later.encode()).is_err());
    let silent = ArchiveHeader {
        inexact_from: 0,
        ..base
    };
    assert_eq!((silent.kept_from(), header().kept_from()), (1, 1));
}

#[test]
fn digest_of_a_history_has_all_of_its_commits() {
    let history = |commits: &[u32]| {
        commits[1..]
            .iter()
            .fold(commits[0], |before, own| chain_digest(before, *own))
    };
    assert_eq!(history(&[1, 2, 3]), history(&[1, 2, 3]));
    for other in [[9, 2, 3], [1, 9, 3], [1, 2, 9], [2, 1, 3]] {
        assert_ne!(history(&[1, 2, 3]), history(&other));
    }
}
