//! Where blocks come to lie that are overwritten in place, beside those that are appended.

use crate::common::{Cold, Numbers, Shape, Store};
use tonearm_base::Nanos;
use tonearm_format::{Placement, segments_for};
use tonearm_layout::Home as _;

/// Every tenth block is appended.
const HOT: u64 = 10;
/// Seeds of a test with random choices. With seed 7 the home took itself for full.
const SEEDS: [u64; 3] = [1, 7, 8];

fn shape(blocks: u64) -> Shape {
    Shape {
        segment_bytes: 128 << 10,
        segments: segments_for(4096, 128 << 10, blocks, 10),
        cache_bytes: 4 << 20,
        given: Some(|block| !block.is_multiple_of(HOT)),
        ..Shape::small(blocks)
    }
}

fn filled(blocks: u64) -> Store {
    let mut store = Store::new(shape(blocks));
    store.fill(256);
    store
}

/// At first every segment has hot and cold blocks. The hot ones leave holes there. The cleaner gathers the cold blocks,
/// so that the free space comes to the hot ones.
#[test]
fn cleaner_separates_overwritten_from_appended_blocks() {
    let blocks = 4000;
    let mut cleaned = 0;
    for seed in [1, 2, 11] {
        let mut store = filled(blocks);
        let mut numbers = Numbers(seed);
        for _ in 0..600 {
            let one = |index| match index % 5 {
                0 => numbers.below(blocks),
                _ => numbers.below(blocks / HOT) * HOT,
            };
            let part: Vec<u64> = (0..50).map(one).collect();
            store.write(&part, &[]);
        }
        store.compare();
        let segment = u64::from(store.shape.segment_bytes);
        // Cold and hot blocks of each segment.
        let mut counts = vec![[0_u64; 2]; store.shape.segments as usize];
        for (block, place) in store.places() {
            let at = (place - store.shape.first_segment()) / segment;
            counts[at as usize][usize::from(block % HOT == 0)] += 1;
        }
        // Blocks that lie among more blocks of the other kind: at first all that are appended.
        let apart: u64 = counts.iter().map(|[cold, hot]| *cold.min(hot)).sum();
        assert!(apart <= 20, "seed {seed}: {apart} of {blocks} blocks");
        cleaned += store.home.stats().segments.cleaned_blocks;
    }
    // Without the order of the copies it is 27,000.
    assert!(cleaned < 26_000, "{cleaned} blocks");
}

/// E follows the load also where all blocks are appended. Each interval overwrites some only to measure the time: first
/// neighbours on the device, then blocks that lie far from each other.
#[test]
fn each_interval_measures_neighbours_and_then_others() {
    let blocks = 8000;
    for placement in [Placement::Hylog, Placement::Wolf] {
        let mut store = Store::new(Shape {
            segments: segments_for(4096, 128 << 10, blocks, 60),
            given: None,
            placement,
            ..shape(blocks)
        });
        store.fill(256);
        for interval in 0..4 {
            let rt = store.rt.clone();
            let pause = async move { rt.sleep(Nanos::from_secs(1200)).await };
            store.rt.block_on(pause);
            // The call that ends the interval.
            store.write(&[0], &[]);
            for kind in ["neighbours", "others"] {
                let most = store.home.sample_max();
                if placement == Placement::Wolf {
                    assert_eq!(most, 0, "WOLF overwrites nothing");
                    continue;
                }
                assert!(most >= 1000, "{most} blocks");
                let ready: Vec<u64> = (0..blocks).step_by(8).collect();
                let home = store.home.clone();
                let all = ready.clone();
                let sample = store.rt.block_on(async move { home.sample(all).await });
                assert!(sample.iter().all(|block| ready.contains(block)));
                let places = store.places();
                let mut ranks: Vec<u64> = ready.iter().map(|block| places[block]).collect();
                ranks.sort_unstable();
                let rank = |block: &u64| ranks.binary_search(&places[block]).unwrap();
                let mut ranks: Vec<usize> = sample.iter().map(rank).collect();
                ranks.sort_unstable();
                let joined = ranks
                    .windows(2)
                    .filter(|pair| pair[1] == pair[0] + 1)
                    .count();
                let before = store.home.stats().segments.overwritten_blocks;
                store.write(&sample, &[]);
                let measured = store.home.stats().segments.overwritten_blocks - before;
                let about = format!("interval {interval}, {kind}: {measured}, {joined} joined");
                // Until appended blocks were measured, a sample has some of them, too.
                assert!((32..=sample.len() as u64).contains(&measured), "{about}");
                match (interval, kind) {
                    (0, _) => {}
                    (_, "neighbours") => assert_eq!(joined as u64, measured - 4, "{about}"),
                    _ => assert_eq!(joined, 0, "{about}"),
                }
            }
            assert_eq!(store.home.sample_max(), 0, "once in an interval");
            let before = store.home.stats().segments.overwritten_blocks;
            store.write(&(0..200).collect::<Vec<_>>(), &[]);
            assert_eq!(store.home.stats().segments.overwritten_blocks, before);
        }
        store.compare();
    }
}

/// Where all blocks are cold, a sample is a whole round. Its notes take many segments of a store that has few free ones.
#[test]
fn whole_round_sample_fits_a_nearly_full_store() {
    let blocks = 8_000;
    let mut store = Store::new(Shape {
        segment_bytes: 64 << 10,
        segments: segments_for(4096, 64 << 10, blocks, 2),
        given: None,
        placement: Placement::Hylog,
        ..shape(blocks)
    });
    store.fill(1024);
    let all: Vec<u64> = (0..blocks).collect();
    let mut numbers = Numbers(7);
    let mut overwritten = 0;
    for _ in 0..12 {
        for _ in 0..40 {
            let part: Vec<u64> = (0..150).map(|_| numbers.below(blocks)).collect();
            store.write(&part, &[]);
        }
        let rt = store.rt.clone();
        let pause = async move { rt.sleep(Nanos::from_secs(1200)).await };
        store.rt.block_on(pause);
        store.write(&[0], &[]);
        while store.home.sample_max() > 0 {
            let (home, ready) = (store.home.clone(), all.clone());
            let sample = store.rt.block_on(async move { home.sample(ready).await });
            let before = store.home.stats().segments.overwritten_blocks;
            store.write(&sample, &[]);
            let count = store.home.stats().segments.overwritten_blocks - before;
            overwritten = overwritten.max(count);
        }
    }
    assert_eq!(overwritten, blocks, "no sample was a whole round");
    store.compare();
}

/// The cold blocks of one call are overwritten together, and their notes take one partial.
#[test]
fn a_call_overwrites_its_cold_blocks_in_one_sweep() {
    let mut store = filled(1000);
    let cold: Vec<u64> = (0..300).filter(|block| block % HOT != 0).collect();
    let before = store.home.stats();
    store.write(&cold, &[]);
    let after = store.home.stats();
    assert_eq!(
        after.segments.overwritten_blocks - before.segments.overwritten_blocks,
        cold.len() as u64
    );
    // Nine blocks lie side by side.
    let writes = after.writes - before.writes;
    assert!(writes <= 34, "{writes} device writes");
    store.compare();
}

/// The notes of overwritten blocks also take space, so the cleaner runs along with them. When it did not, each of the few
/// segments that were kept free was used up, and then one call cleaned up to 27.
#[test]
fn no_call_cleans_much_where_all_blocks_are_overwritten() {
    let blocks = 16_000;
    let mut store = Store::new(Shape {
        segments: segments_for(4096, 128 << 10, blocks, 4),
        given: Some(|_| true),
        ..shape(blocks)
    });
    store.fill(256);
    let (mut numbers, mut most) = (Numbers(7), 0);
    let before = store.home.stats();
    for _ in 0..400 {
        let part: Vec<u64> = (0..100).map(|_| numbers.below(blocks)).collect();
        let from = store.home.stats().segments.cleaned_segments;
        store.write(&part, &[]);
        most = most.max(store.home.stats().segments.cleaned_segments - from);
    }
    let after = store.home.stats();
    let cleaned = after.segments.cleaned_segments - before.segments.cleaned_segments;
    println!(
        "{cleaned} segments in 400 calls, at most {most} in one of {}",
        store.shape.segments
    );
    assert!(cleaned > 100, "{cleaned}");
    assert!(most <= 10, "{most}");
}

/// A store in which ever other blocks are overwritten in place has many notes. The cleaner cannot carry a part of the
/// notes of a segment. It took the store for full when they ended in the middle of one.
#[test]
fn notes_never_fill_a_store() {
    let blocks = 8_000;
    for seed in SEEDS {
        let mut store = Store::new(Shape {
            segments: segments_for(4096, 128 << 10, blocks, 2),
            ..shape(blocks)
        });
        store.fill(1024);
        let mut numbers = Numbers(seed);
        let kinds: [Cold; 4] = [
            |_| true,
            |block| block % 3 != 0,
            |block| block % 3 == 0,
            |block| block % 10 == 0,
        ];
        for round in 0..8 {
            store.shape.given = Some(kinds[numbers.below(4) as usize]);
            store = store.reopened(0).unwrap();
            for _ in 0..60 {
                let part: Vec<u64> = (0..150).map(|_| numbers.below(blocks)).collect();
                if let Err(error) = store.try_write(&part, &[]) {
                    panic!("seed {seed}, round {round}: {error}");
                }
            }
        }
        store.compare();
    }
}
