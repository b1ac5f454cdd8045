//! What cleaning costs, beside the formulas of HyLog 2: write amplification of random overwrites.

use crate::common::{Numbers, Shape, Store};
use format::{map_pages, segments_for};
use tonearm_layout::Policy;

/// Overwrites a store ten times at random, 32 MiB a call; gives (utilisation, live share of the cleaned
/// segments, bytes written for each byte).
fn overwrite(blocks: u64, percent: u64, policy: Policy, times: u64) -> (f64, f64, f64) {
    let mut shape = Shape {
        blocks,
        segment_bytes: 256 << 10,
        segments: 0,
        cache_bytes: 4 << 20,
        policy,
    };
    let payload = shape.layout().payload_blocks();
    shape.segments = ((blocks + map_pages(4096, blocks)) * 100).div_ceil(percent * payload);
    assert!(shape.segments + 64 > segments_for(4096, shape.segment_bytes, blocks, 100 - percent));
    let mut store = Store::new(shape);
    let all: Vec<u64> = (0..blocks).collect();
    for part in all.chunks(2048) {
        store.write(part, &[]);
    }
    let mut numbers = Numbers(42);
    let overwrite = |store: &mut Store, numbers: &mut Numbers, times: u64| {
        let mut left = times * blocks;
        while left > 0 {
            let part: Vec<u64> = (0..512).map(|_| numbers.below(blocks)).collect();
            store.write(&part, &[]);
            left = left.saturating_sub(512);
        }
    };
    // A first round brings the store into a steady state.
    overwrite(&mut store, &mut numbers, 2);
    let before = store.home.stats();
    overwrite(&mut store, &mut numbers, times);
    let after = store.home.stats();
    store.compare();
    let written = (after.write_bytes - before.write_bytes) as f64;
    let cleaned = (after.cleaned_segments - before.cleaned_segments) * payload;
    let live = (after.cleaned_blocks - before.cleaned_blocks) as f64 / cleaned as f64;
    let amplification = written / (times * blocks * 4096) as f64;
    (percent as f64 / 100.0, live, amplification)
}

/// u_d = (u_c - 1) / ln u_c (HyLog, 2), solved for u_c.
fn cleaning_utilisation(disk: f64) -> f64 {
    let (mut low, mut high) = (0.001f64, 0.999f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if (middle - 1.0) / middle.ln() < disk {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

#[test]
fn random_overwrites_cost_what_the_formula_says() {
    let mut measured = Vec::new();
    for percent in [80, 90] {
        let (disk, live, amplification) = overwrite(16_000, percent, Policy::Greedy, 10);
        let expected = cleaning_utilisation(disk);
        // Reads and writes for each byte by (4) without positioning; of it the writes are 1/(1-u).
        let formula = 1.0 / (1.0 - expected);
        println!(
            "u_d {disk:.2}: u_c {live:.3} (formula {expected:.3}), written {amplification:.2} times (formula {formula:.2})"
        );
        measured.push((live, expected, amplification, formula));
    }
    // Written more than the formula says: checkpoints rewrite map pages, and in a store this small often.
    for (live, expected, amplification, formula) in measured {
        assert!(
            (live - expected).abs() < 0.15,
            "u_c {live} against {expected}"
        );
        assert!(
            amplification < 2.4 * formula,
            "{amplification} against {formula}"
        );
    }
}
