//! A home with fewer segments than its blocks need: writes give an error when it is full, and the home stays usable.

use crate::common::{Numbers, Shape, Store};
use tonearm_format::segments_for;
use tonearm_layout::HomeError;

#[test]
fn full_data_area_can_be_read_overwritten_and_trimmed() {
    for seed in 0..4 {
        let blocks = 1200;
        let mut store = Store::new(Shape {
            segments: 60 + seed,
            ..Shape::small(blocks)
        });
        let mut numbers = Numbers(seed);
        let chunk = 10 + 10 * seed;
        let mut stored = 0;
        let refused = loop {
            assert!(stored < blocks, "60 segments hold 840 blocks at most");
            let part: Vec<u64> = (stored..stored + chunk).collect();
            match store.try_write(&part, &[]) {
                Ok(()) => stored += chunk,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, HomeError::Full { .. }), "{refused}");
        let promised = (1..blocks).rfind(|blocks| {
            segments_for(4096, store.shape.segment_bytes, *blocks, 5) <= store.shape.segments
        });
        println!(
            "{stored} blocks in {} segments, promised {promised:?}",
            store.shape.segments
        );
        assert!(stored + chunk > promised.unwrap());
        // Blocks of the refused call may have been written or not.
        let unknown = stored..stored + chunk;
        store.compare_but(|block| unknown.contains(&block));
        // The same call is refused again, without harm.
        let part: Vec<u64> = unknown.clone().collect();
        for _ in 0..3 {
            assert!(store.try_write(&part, &[]).is_err());
        }
        store.compare_but(|block| unknown.contains(&block));
        // A trim makes space ...
        store.write(&[], &[(0, 30), (stored, blocks - stored)]);
        store.compare();
        // ... in which blocks can be overwritten without end.
        for round in 0..300u64 {
            let part: Vec<u64> = (0..8).map(|_| 30 + numbers.below(stored - 30)).collect();
            store.write(&part, &[]);
            if round % 100 == 50 {
                store = store.reopened(1 + round).unwrap();
            }
        }
        store.compare();
        // Other blocks can take the trimmed space.
        store.write(&[], &[(100, 300)]);
        let others: Vec<u64> = (stored..stored + 250).collect();
        for part in others.chunks(25) {
            store.write(part, &[]);
        }
        store.compare();
        store.reopened(7).unwrap().compare();
    }
}
