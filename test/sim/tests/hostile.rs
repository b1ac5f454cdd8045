//! A mount of a file system of hostile origin: each operation ends, with an error at worst.

#[allow(dead_code, reason = "the tests of disk/fs use the rest")]
#[path = "../../../disk/fs/tests/hostile/trees.rs"]
mod trees;

use tonearm_fuse::testing::use_all;

/// Random edits. The fuzz target `trees` finds more.
#[test]
fn mount_of_a_corrupted_tree_only_causes_errors() {
    trees::run_random(150, |base, input| base.run_with(input, use_all));
}
