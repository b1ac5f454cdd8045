//! The count of sectors that queued commits take, against what the packer makes of them.

use super::fixture::{BLOCK, write};
use crate::LogGeometry;
use crate::pack::{Change, Frame, Queue, Word};
use proptest::prelude::*;
use tonearm_base::{BufPool, Lsn, RecordSeq};

fn change() -> impl Strategy<Value = Change> {
    let words = prop::collection::btree_set(0..(BLOCK as u32 / 8), 1..80);
    let parts = (0..4u8, 0..9u64, 1..30u64, words);
    parts.prop_map(|(kind, first, count, words)| match kind {
        0 => write(&BufPool::new(0), first, count, 1),
        1 => Change::Trim { first, count },
        2 => Change::Patch {
            block: first,
            words: words
                .into_iter()
                .map(|at| Word {
                    at: 8 * at,
                    value: 7,
                })
                .collect(),
        },
        _ => Change::Move {
            to: first,
            from: 100,
            crcs: vec![3; 3 * count as usize],
        },
    })
}

proptest! {
    #[test]
    fn count_of_queued_sectors_is_what_is_packed(
        commits in prop::collection::vec(prop::collection::vec(change(), 1..4), 1..8),
        small in any::<bool>(),
        first_room in 10..200usize,
    ) {
        let sector = if small { 512 } else { 4096 };
        let geometry = LogGeometry { sector, ..LogGeometry::even([5; 16], 1 << 20, 8, 4000, BLOCK) };
        let mut queue = Queue::default();
        for (lsn, changes) in (1..).zip(commits) {
            queue.push(&geometry, Lsn(lsn), u64::MAX, changes, u64::MAX);
        }
        // The first write takes a part, so that the second one begins within a commit.
        let mut seq = RecordSeq(1);
        for room in [first_room, 20_000] {
            if queue.is_empty() {
                break;
            }
            let counted = queue.sectors(&geometry, u64::MAX);
            prop_assert_eq!(queue.sectors(&geometry, 7), counted.min(7));
            let frame = Frame {
                epoch: 1,
                next_seq: seq,
                prev_sector: 0,
                prev_epoch: 1,
                log_start: None,
                durable_seq: RecordSeq(0),
            };
            let mut out = vec![0; room * sector];
            let (records, sectors, _) = queue.pack(&geometry, frame, 0, &mut out);
            seq = RecordSeq(seq.0 + records.len() as u64);
            if queue.is_empty() {
                prop_assert_eq!(sectors as u64, counted);
            } else {
                prop_assert!(counted > room as u64 - geometry.block_sectors());
            }
        }
        prop_assert!(queue.is_empty());
    }
}
