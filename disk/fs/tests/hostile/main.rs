//! File systems of hostile origin: each use ends, with an error at worst.

mod trees;

/// Random edits. The fuzz target `trees` finds more.
#[test]
fn a_changed_tree_leads_to_errors_and_nothing_else() {
    trees::run_random(150, |base, input| base.run(input));
}
