//! File systems of hostile origin: each use ends, with an error at worst.

mod trees;

/// Random edits. The fuzz target `trees` finds more.
#[test]
fn corrupted_tree_only_causes_errors() {
    trees::run_random(150, |base, input| base.run(input));
}
