//! Random writes and trims while the cleaner runs, with occasional reopening.

use crate::common::{BLOCK, GIVEN, Numbers, Shape, Store};
use tonearm_format::Placement;
use tonearm_layout::Home as _;

/// A step of random work: a few blocks and now and then a hole.
fn step(store: &mut Store, numbers: &mut Numbers, within: u64) {
    let mut holes = Vec::new();
    if numbers.below(4) == 0 {
        let first = numbers.below(within);
        holes.push((first, 1 + numbers.below((within - first).min(60))));
    }
    let count = numbers.below(40);
    let blocks: Vec<u64> = (0..count).map(|_| numbers.below(within)).collect();
    store.write(&blocks, &holes);
}

#[test]
fn written_blocks_survive_cleaning_and_power_cuts() {
    for seed in 0..12 {
        let mut numbers = Numbers(seed);
        let mut store = Store::new(Shape {
            given: GIVEN[seed as usize / 6],
            ..Shape::small(900)
        });
        let (mut cleaned, mut checkpoints, mut recovered) = (0, 0, 0);
        for round in 0..400 {
            step(&mut store, &mut numbers, 880);
            if round % 50 == 49 {
                store.compare();
                let stats = store.home.stats();
                cleaned += stats.segments.cleaned_segments;
                checkpoints += stats.segments.checkpoints;
                let is_closed = seed % 2 == 0 && round % 100 == 99;
                if is_closed {
                    store.close();
                }
                // Calls that have returned survive any cut.
                store = store.reopened(1 + round).unwrap();
                let partials = store.home.stats().segments.recovered_partials;
                assert!(!is_closed || partials == 0, "{partials} after a close");
                recovered += partials;
                store.compare();
            }
        }
        assert!(cleaned > 50, "{cleaned} segments cleaned");
        assert!(
            checkpoints > 8 && recovered > 4,
            "{checkpoints} {recovered}"
        );
    }
}

#[test]
fn a_completely_full_store_can_be_overwritten_without_end() {
    let mut store = Store::new(Shape::small(3000));
    store.fill(3000);
    let mut numbers = Numbers(5);
    for _ in 0..300 {
        let blocks: Vec<u64> = (0..60).map(|_| numbers.below(3000)).collect();
        store.write(&blocks, &[]);
    }
    store.compare();
    store.reopened(3).unwrap().compare();
}

#[test]
fn holes_of_any_size_and_a_small_map_cache() {
    let mut shape = Shape::small(254 * 254 + 5000);
    shape.cache_bytes = 8 * 4096;
    let mut store = Store::new(shape);
    let mut numbers = Numbers(8);
    for round in 0..60u64 {
        let blocks: Vec<u64> = (0..100).map(|_| numbers.below(shape.blocks)).collect();
        let first = numbers.below(shape.blocks);
        let count = numbers.below(shape.blocks - first);
        let hole = if round % 10 == 9 {
            vec![(first, count)]
        } else {
            Vec::new()
        };
        store.write(&blocks, &hole);
    }
    assert!(store.home.stats().map_cache_bytes <= 12 * 4096);
    store.compare();
    let mut again = store.reopened(7).unwrap();
    again.compare();
    again.write(&[], &[(0, shape.blocks)]);
    assert_eq!(again.model.len(), 0);
    again.reopened(9).unwrap().compare();
}

#[test]
fn trim_of_an_unwritten_store_touches_no_map_page() {
    let mut shape = Shape::small(10_000);
    shape.blocks = (1 << 40) / 4096;
    let mut store = Store::new(shape);
    store.write(&[], &[(5, shape.blocks - 10)]);
    let stats = store.home.stats();
    assert_eq!((stats.table_loads, stats.table_writes), (0, 0), "{stats:?}");
    assert!(stats.writes < 8, "{stats:?}");
}

/// WOLF: of the blocks of one round, those that are written most often fill the first segment.
#[test]
fn wolf_separates_frequently_written_blocks() {
    let mut store = Store::new(Shape {
        placement: Placement::Wolf,
        ..Shape::small(900)
    });
    let round = store.home.round_bytes_max() / BLOCK;
    let segment = store.shape.layout().payload_blocks() as usize;
    assert!(round >= 2 * segment, "a round of {round} blocks");
    // Hot and cold blocks by turns.
    let hot: Vec<u64> = (0..segment as u64).map(|index| 2 * index).collect();
    for _ in 0..5 {
        store.write(&hot, &[]);
    }
    let all: Vec<u64> = (0..2 * segment as u64).collect();
    store.write(&all, &[]);
    let places = store.places();
    let (hot, cold): (Vec<u64>, Vec<u64>) = all.iter().partition(|block| *block % 2 == 0);
    let last_hot = hot.iter().map(|block| places[block]).max();
    let first_cold = cold.iter().map(|block| places[block]).min();
    assert!(last_hot < first_cold, "{last_hot:?} {first_cold:?}");
    store.compare();
}

/// A block that is overwritten in place has cooled, and one that is appended after that has heated. Both are counted once.
#[test]
fn blocks_that_cool_and_heat_are_counted() {
    let mut store = Store::new(Shape::small(600));
    store.fill(100);
    let blocks: Vec<u64> = (0..200).collect();
    for (given, cooled, heated) in [
        (Some((|_| true) as fn(u64) -> bool), 200, 0),
        (None, 0, 200),
    ] {
        store.close();
        store.shape.given = given;
        store = store.reopened(0).unwrap();
        for _ in 0..2 {
            store.write(&blocks, &[]);
        }
        let stats = store.home.stats();
        assert_eq!(
            (stats.segments.cooled_blocks, stats.segments.heated_blocks),
            (cooled, heated)
        );
        store.compare();
    }
}
