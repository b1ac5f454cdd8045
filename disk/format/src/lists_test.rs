use crate::{BlockRecord, LIST_ID_LIMIT, ListRecord, Zones};
use proptest::prelude::*;

#[test]
fn records_come_back_and_zeroes_are_free() {
    assert_eq!(BlockRecord::decode([0; 2]), Ok(None));
    assert_eq!(ListRecord::decode([0; 2]), Ok(None));
    assert_eq!(BlockRecord::encode(None), [0; 2]);
    let most = LIST_ID_LIMIT - 1;
    let block = BlockRecord {
        next: most,
        prev: 0,
        list: most,
    };
    assert_eq!(
        BlockRecord::decode(BlockRecord::encode(Some(block))),
        Ok(Some(block))
    );
    let empty = ListRecord::default();
    assert_eq!(
        ListRecord::decode(ListRecord::encode(Some(empty))),
        Ok(Some(empty))
    );
    // The bytes of the document.
    let block = BlockRecord {
        next: 3,
        prev: 2,
        list: 0x01_0000_0005,
    };
    let words = [3 | 5 << 40, 2 | 0x100 << 40 | 1 << 56];
    assert_eq!(BlockRecord::encode(Some(block)), words);
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    let used = 1 << 56;
    // On no list; the neighbours may be there or not.
    for (next, prev) in [(0, 0), (3, 0), (0, 3), (3, 4)] {
        assert!(BlockRecord::decode([next, prev | used]).is_err());
    }
    // Ends without blocks, and blocks without one of the ends.
    let count = 5 << 40;
    for words in [
        [3, 0],
        [0, 3],
        [3, 3],
        [count, 0],
        [count | 3, 0],
        [count, 3],
    ] {
        assert!(
            ListRecord::decode([words[0], words[1] | used]).is_err(),
            "{words:?}"
        );
    }
    let sound = ListRecord {
        first: 3,
        last: 3,
        count: 5,
    };
    assert_eq!(ListRecord::decode([count | 3, 3 | used]), Ok(Some(sound)));
    for state in [0, 2, 255] {
        assert!(ListRecord::decode([count | 3, 3 | state << 56]).is_err());
        assert!(BlockRecord::decode([count | 3, 3 | state << 56]).is_err());
    }
}

#[test]
fn each_block_is_a_page_or_has_a_record_of_its_own() {
    for block_size in [4096, 65536] {
        let zones = Zones::new(block_size);
        let mut seen = std::collections::BTreeSet::new();
        for block in 0..3 * zones.blocks() {
            let zone = zones.zone_of_block(block);
            match zones.block_record(block) {
                None => assert!([zones.list_page(zone), zones.block_page(zone)].contains(&block)),
                Some(place) => {
                    assert!(place.page < block && place.at < block_size && seen.insert(place));
                    let slot = u64::from(place.at / 16);
                    assert_eq!(zones.block(zone, slot), block);
                }
            }
        }
        assert_eq!(zones.list_record(0), None);
        for list in 1..=2 * zones.records() {
            let place = zones.list_record(list).unwrap();
            let zone = zones.zone_of_list(list);
            assert!(place.page == zones.list_page(zone) && seen.insert(place));
            assert_eq!(zones.list(zone, u64::from(place.at / 16)), list);
        }
    }
}

proptest! {
    #[test]
    fn any_words_are_a_record_or_refused(words: [u64; 2]) {
        if let Ok(record) = BlockRecord::decode(words) {
            prop_assert_eq!(BlockRecord::encode(record), words);
        }
        if let Ok(record) = ListRecord::decode(words) {
            prop_assert_eq!(ListRecord::encode(record), words);
        }
    }

    #[test]
    fn used_words_are_a_record_or_refused(a: u64, b in 0u64..1 << 56) {
        let words = [a, b | 1 << 56];
        if let Ok(record) = BlockRecord::decode(words) {
            prop_assert_eq!(BlockRecord::encode(record), words);
        }
        if let Ok(record) = ListRecord::decode(words) {
            prop_assert_eq!(ListRecord::encode(record), words);
        }
    }
}
