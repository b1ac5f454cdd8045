use super::super::options::{Index, TpccOptions};
use super::super::space::Space;
use super::super::work::Work;
use super::{Loader, Tree};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Pages of 1 KiB, so that a few hundred entries make three levels.
fn options() -> TpccOptions {
    TpccOptions {
        page_bytes: 1024,
        entry_overhead_bytes: 128,
        ..TpccOptions::default()
    }
}

/// A tree with a leaf at each thousand.
fn load(keys: &BTreeSet<u64>) -> (Tree, Space) {
    let mut space = Space::new(4);
    let mut loader = Loader::new(&options(), Index::Orders);
    let mut before = None;
    for key in keys {
        if before.is_some_and(|before| before / 1000 != key / 1000) {
            loader.end_run();
        }
        loader.push(*key);
        before = Some(*key);
    }
    (loader.finish(&mut space), space)
}

fn reads(work: &Work) -> usize {
    work.accesses.iter().filter(|access| !access.write).count()
}

#[test]
fn search_reads_one_page_per_level() {
    let (mut tree, _) = load(&(0..200).collect());
    assert!(tree.levels() >= 3, "{} levels", tree.levels());
    for key in 0..200 {
        let (mut one, mut other) = (Work::new(0), Work::new(0));
        tree.find(key, &mut one);
        assert_eq!(reads(&one), tree.levels() as usize);
        tree.scan(key, key, &mut other);
        assert_eq!(one.accesses, other.accesses);
    }
}

#[test]
fn ascending_keys_fill_leaves_wholly() {
    let (mut tree, mut space) = load(&[0, 1_000].into());
    let mut work = Work::new(0);
    let before = tree.pages();
    for key in 1..=600 {
        tree.insert(key, &mut space, &mut work);
    }
    tree.check().unwrap();
    let per_page = u64::from(options().entries_per_page(Index::Orders));
    let leaves = 600 / per_page;
    let grown = tree.pages() - before;
    assert!(grown >= leaves, "{grown} pages for {leaves} leaves");
    // Inner pages come on top. The leaf with key 1000 stays the last one, so they are split in the middle, and half
    // full.
    let inner = leaves / (per_page / 2 - 1);
    assert!(
        grown <= leaves + inner + 4,
        "{grown} pages for {leaves} leaves"
    );
}

#[test]
fn a_scan_reads_every_leaf_of_its_range() {
    let (mut tree, _) = load(&(0..200).collect());
    let mut work = Work::new(0);
    tree.scan(0, 199, &mut work);
    let per_leaf = options().entries_loaded_per_page(Index::Orders);
    let leaves = 200u32.div_ceil(per_leaf) as usize;
    assert_eq!(reads(&work), tree.levels() as usize - 1 + leaves);
}

#[test]
fn a_removed_greatest_key_may_come_back_into_a_full_leaf() {
    let per_leaf = u64::from(options().entries_per_page(Index::Orders));
    let (mut tree, mut space) = load(&[0].into());
    let mut work = Work::new(0);
    for key in [1_000].into_iter().chain(1..per_leaf - 1) {
        tree.insert(key, &mut space, &mut work);
    }
    assert_eq!(tree.levels(), 1);
    tree.remove(1_000, &mut work);
    tree.insert(per_leaf, &mut space, &mut work);
    tree.insert(1_000, &mut space, &mut work);
    tree.check().unwrap();
    assert_eq!(tree.levels(), 2);
}

#[test]
fn a_leaf_takes_over_the_keys_of_a_removed_leaf_before_it() {
    let (mut tree, mut space) = load(&[0, 500, 1_000, 2_000].into());
    let mut work = Work::new(0);
    tree.remove(0, &mut work);
    tree.remove(500, &mut work);
    // They lie below the least key of the leaf of 1,000, which splits.
    for key in 501..520 {
        tree.insert(key, &mut space, &mut work);
        tree.check().unwrap();
    }
}

proptest! {
    #[test]
    fn any_order_of_insertions_and_removals_keeps_the_tree_whole(
        loaded in proptest::collection::btree_set(0u64..5_000, 1..200),
        steps in proptest::collection::vec((any::<bool>(), 0u64..5_000), 1..600),
    ) {
        let (mut tree, mut space) = load(&loaded);
        tree.check().unwrap();
        let mut keys = loaded;
        let mut work = Work::new(0);
        for (insert, near) in steps {
            work.clear();
            if insert {
                if keys.insert(near) {
                    tree.insert(near, &mut space, &mut work);
                }
            } else if let Some(key) = keys.range(near..).next().copied() {
                keys.remove(&key);
                tree.remove(key, &mut work);
            }
            tree.check().map_err(TestCaseError::fail)?;
            prop_assert_eq!(tree.entries(), keys.len() as u64);
            let end = space.end();
            prop_assert!(work.accesses.iter().all(|access| access.page < end));
        }
    }
}
