//! File systems of hostile origin: each use ends, with an error at worst.

mod trees;

use trees::{Base, EDIT_BYTES};

/// Random edits. The fuzz target `trees` finds more.
#[test]
fn a_changed_tree_leads_to_errors_and_nothing_else() {
    let base = Base::new();
    let mut state = 1u64;
    // splitmix64
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    base.run(&[]);
    for run in 0..RUNS {
        let edits = 1 + run % 3;
        let bytes = (0..edits * EDIT_BYTES).map(|_| random() as u8);
        let input: Vec<u8> = bytes.collect();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| base.run(&input)));
        assert!(done.is_ok(), "run {run}: {input:?}");
    }
}

const RUNS: usize = 300;
