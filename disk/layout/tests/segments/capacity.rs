//! A store never becomes full below its capacity: with the segments of `segments_for` all of its blocks can be written,
//! and overwritten without end.

use crate::common::{Numbers, Shape, Store};
use tonearm_format::{Placement, segments_for};
use tonearm_layout::{Home as _, Plugging, Policy};

/// A store of `blocks` blocks with the smallest spare share that is allowed.
fn tight(blocks: u64, segment_bytes: u32, cache_bytes: usize, policy: Policy) -> Store {
    Store::new(Shape {
        blocks,
        segment_bytes,
        segments: segments_for(4096, segment_bytes, blocks, 5),
        cache_bytes,
        policy,
        plugging: Plugging::Never,
        placement: Placement::Append,
        given: None,
    })
}

/// How blocks are chosen for a call.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    Uniform,
    /// Nine of ten writes go to a tenth of the store.
    Hot,
    /// Every 254th block and so on: each block has another leaf of the map, and all leaves are alike.
    Strided,
    /// In turn, a leaf at a time, so that each segment has a few pages of the map among its data.
    InTurn,
}

impl Pattern {
    const ALL: [Self; 4] = [Self::Uniform, Self::Hot, Self::Strided, Self::InTurn];

    fn blocks(self, numbers: &mut Numbers, round: u64, size: u64, count: u64) -> Vec<u64> {
        let one = |index: u64, numbers: &mut Numbers| match self {
            Self::Uniform => numbers.below(size),
            Self::Hot if numbers.below(10) > 0 => numbers.below(size / 10),
            Self::Hot => numbers.below(size),
            Self::Strided => (round + index * 254) % size,
            Self::InTurn => (round * count + index) % size,
        };
        (0..count).map(|index| one(index, numbers)).collect()
    }
}

/// Fills the store and overwrites it `times` times. Returns the blocks written for each block of the caller.
fn overwrite(store: &mut Store, pattern: Pattern, times: u64, call: u64, seed: u64) -> f64 {
    let size = store.shape.blocks;
    let mut numbers = Numbers(seed);
    store.fill(1 + numbers.below(200) as usize);
    let before = store.home.stats();
    let (mut left, mut round) = (times * size, 0);
    while left > 0 {
        let count = 1 + numbers.below(call);
        let blocks = pattern.blocks(&mut numbers, round, size, count);
        store.write(&blocks, &[]);
        left = left.saturating_sub(count);
        round += 1;
    }
    let after = store.home.stats();
    let written = (after.segments.written_blocks - before.segments.written_blocks) as f64;
    (after.write_bytes - before.write_bytes) as f64 / 4096.0 / written
}

#[test]
fn full_store_can_be_overwritten_indefinitely() {
    // Stores of a few segments and more, each with a cache of four pages and with one of all pages.
    let shapes = [
        (300, 64 << 10),
        (1500, 64 << 10),
        (6000, 64 << 10),
        (3000, 128 << 10),
        (3000, 256 << 10),
        (5000, 1 << 20),
        (5000, 4 << 20),
    ];
    for (index, (blocks, segment_bytes)) in shapes.into_iter().enumerate() {
        for (turn, cache_bytes) in [4 * 4096, 1 << 20].into_iter().enumerate() {
            // Half of the patterns for each; every pattern runs with both caches.
            for pattern in Pattern::ALL.into_iter().skip((index + turn) % 2).step_by(2) {
                let policy = [Policy::Greedy, Policy::CostAge][turn];
                let mut store = tight(blocks, segment_bytes, cache_bytes, policy);
                let call = [30, 60, 500][index % 3];
                let cost = overwrite(&mut store, pattern, 2, call, index as u64);
                println!(
                    "{blocks} blocks, {} segments of {} KiB, cache {} pages, {pattern:?}, calls of {call}: written \
                     {cost:.1} times",
                    store.shape.segments,
                    segment_bytes >> 10,
                    cache_bytes / 4096
                );
                store.compare();
                store = store.reopened(7).unwrap();
                store.write(&[1, blocks / 2], &[]);
                store.compare();
            }
        }
    }
}

/// Every other block is a hole of its own, so there are as many tombstones as possible and no two blocks are adjacent.
#[test]
fn tombstones_take_no_space_from_blocks() {
    for (blocks, segment_bytes) in [(4000, 64 << 10), (6000, 256 << 10)] {
        let mut store = tight(blocks, segment_bytes, 64 << 10, Policy::Greedy);
        let mut numbers = Numbers(1);
        let all: Vec<u64> = (0..blocks).collect();
        for round in 0..3 {
            for part in all.chunks(100) {
                store.write(part, &[]);
            }
            for part in all.chunks(200) {
                let holes = part.iter().step_by(2);
                let holes: Vec<(u64, u64)> = holes.map(|block| (block + round % 2, 1)).collect();
                store.write(&[], &holes);
            }
            for _ in 0..150 {
                let some: Vec<u64> = (0..20)
                    .map(|_| numbers.below(blocks / 2) * 2 + 1 - round % 2)
                    .collect();
                store.write(&some, &[]);
            }
            store.compare();
            store = store.reopened(round + 1).unwrap();
        }
        for part in all.chunks(100) {
            store.write(part, &[]);
        }
        store.compare();
    }
}

/// A store may be opened with a smaller map cache than it was written with.
#[test]
fn store_opens_and_recovers_with_a_smaller_map_cache() {
    let mut recovered = 0;
    for seed in 0..6 {
        let blocks = 254 * 20;
        let mut store = tight(blocks, 64 << 10, 4 << 20, Policy::CostAge);
        overwrite(&mut store, Pattern::Uniform, 1, 60, seed);
        // Many changed pages of the map are only in the chain.
        let mut small = store.reopened(1 + seed).unwrap();
        recovered += small.home.stats().segments.recovered_partials;
        if seed % 2 == 0 {
            small = store;
            small.close();
        }
        for cache_pages in [8, 4, 64, 4] {
            small.shape.cache_bytes = cache_pages * 4096;
            small = small.reopened(seed).unwrap();
            small.compare();
            let mut numbers = Numbers(seed);
            for _ in 0..40 {
                let some: Vec<u64> = (0..60).map(|_| numbers.below(blocks)).collect();
                small.write(&some, &[]);
            }
            assert!(small.home.stats().map_cache_bytes <= 40 * 4096 + cache_pages * 4096);
        }
        small.compare();
    }
    assert!(recovered > 100, "{recovered} partials recovered");
}
