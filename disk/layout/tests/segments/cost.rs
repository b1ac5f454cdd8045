//! The cost of cleaning, compared with the formulas of HyLog 2: write amplification of random overwrites.

use crate::common::{Numbers, Shape, Store};
use tonearm_format::{Placement, map_pages};
use tonearm_layout::{Home as _, HomeStats, Plugging, Policy};

/// The cost of random overwrites of a store.
struct Cost {
    /// Live share of the segments that were cleaned.
    cleaned_live: f64,
    /// Blocks written for each block of the caller, by kind.
    blocks: f64,
    cleaned: f64,
    pages: f64,
    summaries: f64,
    slots: f64,
}

/// Overwrites a store of `blocks` blocks, `percent` of its segments, `times` times at random, 2 MiB a call.
fn overwrite(blocks: u64, percent: u64, times: u64) -> Cost {
    let mut shape = Shape {
        blocks,
        segment_bytes: 128 << 10,
        segments: 0,
        cache_bytes: 4 << 20,
        policy: Policy::Greedy,
        plugging: Plugging::Never,
        placement: Placement::Append,
        given: None,
    };
    let payload = shape.layout().payload_blocks();
    // The segments kept for the cleaner and checkpoints are within the free share.
    shape.segments = ((blocks + map_pages(4096, blocks)) * 100).div_ceil(percent * payload);
    let mut store = Store::new(shape);
    store.fill(2048);
    let mut numbers = Numbers(42);
    let mut overwrite = |store: &mut Store, times: u64| {
        let mut left = times * blocks;
        while left > 0 {
            let part: Vec<u64> = (0..512).map(|_| numbers.below(blocks)).collect();
            store.write(&part, &[]);
            left = left.saturating_sub(512);
        }
    };
    // A first round brings the store into a steady state.
    overwrite(&mut store, 1);
    let before = store.home.stats();
    overwrite(&mut store, times);
    let after = store.home.stats();
    store.compare();
    let counted = |count: fn(&HomeStats) -> u64| (count(&after) - count(&before)) as f64;
    let written = counted(|stats| stats.segments.written_blocks);
    let cleaned = counted(|stats| stats.segments.cleaned_blocks);
    Cost {
        cleaned_live: cleaned / counted(|stats| stats.segments.cleaned_segments) / payload as f64,
        blocks: counted(|stats| stats.write_bytes / 4096) / written,
        cleaned: cleaned / written,
        pages: counted(|stats| stats.table_writes) / written,
        summaries: counted(|stats| stats.segments.summary_blocks) / written,
        slots: counted(|stats| stats.segments.checkpoint_bytes / 4096) / written,
    }
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
fn random_overwrites_have_the_cost_of_the_formula() {
    for percent in [80, 90] {
        let cost = overwrite(32_000, percent, 3);
        let expected = cleaning_utilisation(percent as f64 / 100.0);
        // Reads and writes for each byte by (4) without positioning; the writes among them are 1/(1-u).
        let formula = 1.0 / (1.0 - expected);
        println!(
            "u_d 0.{percent}: u_c {:.3} (formula {expected:.3}), written {:.2} times (formula {formula:.2}): cleaned {:.2}, \
             map pages {:.2}, summaries {:.2}, checkpoints {:.2}",
            cost.cleaned_live, cost.blocks, cost.cleaned, cost.pages, cost.summaries, cost.slots
        );
        let parts = 1.0 + cost.cleaned + cost.pages + cost.summaries + cost.slots;
        assert!(
            (parts / cost.blocks - 1.0).abs() < 0.01,
            "{parts} are all of {}",
            cost.blocks
        );
        assert!(
            (cost.cleaned_live - expected).abs() < 0.06,
            "u_c {} against {expected}",
            cost.cleaned_live
        );
        assert!(
            cost.blocks < 1.3 * formula,
            "{} against {formula}",
            cost.blocks
        );
    }
}
