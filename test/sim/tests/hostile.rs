//! A mount of a file system of hostile origin: each operation ends, with an error at worst.

#[allow(dead_code, reason = "the tests of disk/fs use the rest")]
#[path = "../../../disk/fs/tests/hostile/trees.rs"]
mod trees;

use tonearm_fuse::testing::use_all;

/// Random edits. The fuzz target `trees` finds more.
#[test]
fn a_mount_of_a_changed_tree_leads_to_errors_and_nothing_else() {
    trees::run_random(150, |base, input| base.run_with(input, use_all));
}
