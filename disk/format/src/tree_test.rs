use crate::{FormatError, Key, TreeFreePage, TreeHeader, TreeNode, max_value};
use proptest::prelude::*;

fn key(at: u64) -> Key {
    Key {
        ino: 7,
        kind: 3,
        at,
    }
}

fn header() -> TreeHeader {
    TreeHeader {
        root: 3,
        levels: 2,
        used: 9,
        free_head: 4,
        free_count: 2,
        items: 100,
        owner: [1, 2, 3, 4, 5, 6, 7, u64::MAX],
    }
}

#[test]
fn a_header_comes_back() {
    let mut page = [0; 4096];
    header().encode(&mut page);
    assert_eq!(TreeHeader::decode(&page, 9), Ok(header()));
    // The bytes of the document.
    assert_eq!(&page[..16], b"TNTREE\0\0\x08\0\0\0\x02\0\0\0");
    assert_eq!((page[16], page[24], page[32], page[40]), (3, 9, 4, 2));
    assert_eq!(
        (page[48], page[64], page[120], page[127]),
        (100, 1, 255, 255)
    );
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let faults: &[fn(&mut TreeHeader)] = &[
        |header| header.levels = 0,
        |header| header.levels = 17,
        |header| header.used = 10,
        |header| header.root = 0,
        |header| header.root = 9,
        |header| header.free_head = 9,
        |header| header.free_head = 0,
        |header| header.free_count = 0,
        |header| header.free_count = 9,
        |header| header.items = u64::MAX,
    ];
    for fault in faults {
        let (mut page, mut header) = ([0; 4096], header());
        fault(&mut header);
        header.encode(&mut page);
        let refused = TreeHeader::decode(&page, 9);
        assert!(
            matches!(refused, Err(FormatError::Inconsistent { .. })),
            "{header:?}"
        );
    }
    let mut page = [0; 4096];
    header().encode(&mut page);
    page[8] = 2;
    let refused = TreeHeader::decode(&page, 9);
    assert!(matches!(refused, Err(FormatError::Version { .. })));
    page[0] = 0;
    let refused = TreeHeader::decode(&page, 9);
    assert!(matches!(refused, Err(FormatError::Signature(_))));
}

#[test]
fn a_free_page_comes_back_and_a_node_is_none() {
    let mut page = [255; 4096];
    TreeFreePage { next: 5 }.encode(&mut page);
    assert_eq!(TreeFreePage::decode(&page), Ok(TreeFreePage { next: 5 }));
    assert!(TreeNode::open(&page[..]).is_err());
    TreeNode::format(&mut page[..], 0);
    assert!(TreeFreePage::decode(&page).is_err());
}

#[test]
fn a_node_has_the_bytes_of_the_document() {
    let mut page = [0; 4096];
    let mut node = TreeNode::format(&mut page[..], 0);
    assert_eq!(node.insert(0, key(0x21), b"second"), Ok(true));
    assert_eq!(node.insert(0, key(0x11), b"first"), Ok(true));
    assert_eq!(&page[..16], b"TNND\0\0\x02\0\xf9\x01\0\0\0\0\0\0");
    // Items of 24 and 32 bytes, from the end down.
    assert_eq!(&page[16..20], &[0xf9, 0x01, 0xfc, 0x01]);
    let first = b"\x07\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\x03\x05\0first";
    assert_eq!(&page[0x1f9 * 8..0x1fc * 8], first);
}

#[test]
fn four_of_the_largest_items_fill_a_page() {
    for page_len in [4096, 8192, 65536] {
        let value = vec![1; max_value(page_len)];
        let mut page = vec![0; page_len];
        let mut node = TreeNode::format(&mut page[..], 0);
        for at in 0..4 {
            assert_eq!(node.insert(at as usize, key(at), &value), Ok(true));
        }
        assert_eq!(node.insert(4, key(4), &value), Ok(false));
        assert_eq!(node.check(), Ok(()));
    }
}

#[test]
fn item_of_equal_size_reuses_a_hole_in_place() {
    let mut page = vec![0; 4096];
    let mut node = TreeNode::format(&mut page[..], 0);
    let mut count = 0;
    while node
        .insert(count, key(count as u64 + 1), &[1; 120])
        .unwrap()
    {
        count += 1;
    }
    node.remove(count / 2).unwrap();
    let before = page.clone();
    let mut node = TreeNode::open(&mut page[..]).unwrap();
    assert_eq!(node.insert(0, key(0), &[2; 120]), Ok(true));
    assert_eq!(node.check(), Ok(()));
    let words = before.chunks(8).zip(page.chunks(8));
    // The item, all slots, one word of the header for each of the two changes.
    assert!(words.filter(|(old, new)| old != new).count() <= 18 + 7 + 2);
}

proptest! {
    #[test]
    fn a_node_is_a_sorted_vector(
        operations in prop::collection::vec((any::<u8>(), 0usize..400, any::<bool>()), 1..300),
    ) {
        let mut page = vec![0; 4096];
        let mut node = TreeNode::format(&mut page[..], 0);
        let mut model: Vec<(Key, Vec<u8>)> = Vec::new();
        for (at, len, remove) in operations {
            let key = key(at.into());
            let found = model.binary_search_by_key(&key, |item| item.0);
            prop_assert_eq!(node.search(key), Ok(found));
            let value = vec![at; len];
            match found {
                Ok(index) if remove => {
                    node.remove(index).unwrap();
                    model.remove(index);
                }
                Ok(index) => {
                    if node.replace(index, &value).unwrap() {
                        model[index].1 = value;
                    }
                }
                Err(index) => {
                    let room = node.room() - node.used();
                    let fits = room >= (19 + len).next_multiple_of(8) + 2;
                    prop_assert_eq!(node.insert(index, key, &value), Ok(fits));
                    if fits {
                        model.insert(index, (key, value));
                    }
                }
            }
            prop_assert_eq!(node.check(), Ok(()));
            prop_assert_eq!(node.count(), model.len());
            for (index, (key, value)) in model.iter().enumerate() {
                prop_assert_eq!(node.item(index), Ok((*key, &value[..])));
            }
        }
    }

    #[test]
    fn damaged_nodes_are_refused_or_used_without_a_panic(
        level in 0u32..2,
        lens in prop::collection::vec(0usize..300, 1..40),
        damage in prop::collection::vec((any::<bool>(), 0usize..4096, any::<u8>()), 1..6),
        index: prop::sample::Index,
    ) {
        let mut page = vec![0; 4096];
        let mut node = TreeNode::format(&mut page[..], level);
        for (at, len) in lens.iter().enumerate() {
            let len = if level == 0 { *len } else { 8 };
            let at_end = node.count();
            node.insert(at_end, key(at as u64), &vec![7; len]).unwrap();
        }
        for (in_header, at, byte) in damage {
            page[if in_header { at % 100 } else { at }] ^= byte;
        }
        for operation in 0..7 {
            let mut page = page.clone();
            let Ok(mut node) = TreeNode::open(&mut page[..]) else {
                continue;
            };
            let index = index.index(node.count() + 1);
            let sound = node.check().is_ok();
            let failed = match operation {
                0 => node.insert(index, key(3), &[1; 200]).is_err(),
                1 => node.insert(index, key(3), &[1; 20]).is_err(),
                2 if index < node.count() => node.remove(index).is_err(),
                3 if index < node.count() => node.replace(index, &[1; 30]).is_err(),
                4 => node.middle(index, 20).is_err(),
                5 => node.truncate(index).is_err(),
                _ => node.search(key(3)).is_err(),
            };
            prop_assert!(!(sound && failed && node.count() > 0));
        }
    }
}
