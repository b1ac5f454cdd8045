use crate::overwrite::table_cache::{Table, TableCache};
use std::rc::Rc;
use tonearm_format::TableSlot;

const BYTES: usize = 4096;

fn table() -> Rc<Table> {
    Rc::new(Table::new(TableSlot::empty(4096)))
}

#[test]
fn the_least_recently_used_table_is_evicted_first() {
    let mut cache = TableCache::new(3 * BYTES, BYTES);
    for group in 0..3 {
        cache.insert(group, table());
    }
    cache.get(0);
    cache.insert(3, table());
    assert!(cache.contains(0) && !cache.contains(1) && cache.contains(2));
    assert_eq!(cache.bytes(), 3 * BYTES);
}

#[test]
fn a_table_in_use_stays_even_over_the_bound() {
    let mut cache = TableCache::new(BYTES, BYTES);
    let held = table();
    cache.insert(0, held.clone());
    cache.insert(1, table());
    cache.insert(2, table());
    assert!(cache.contains(0) && !cache.contains(1));
    drop(held);
    cache.insert(3, table());
    assert!(!cache.contains(0));
    assert_eq!(cache.bytes(), BYTES);
}

#[test]
fn undurable_table_is_rewritten_with_its_generation() {
    let mut cache = TableCache::new(8 * BYTES, BYTES);
    let table = table();
    cache.insert(5, table.clone());
    assert_eq!(cache.begin_write(5, &table), 1);
    assert_eq!(cache.begin_write(5, &table), 1);
    cache.commit_batch();
    assert_eq!(cache.begin_write(5, &table), 2);
}

#[test]
fn later_batch_keeps_tables_of_a_failed_one_undurable() {
    let mut cache = TableCache::new(8 * BYTES, BYTES);
    let (failed, other) = (table(), table());
    cache.insert(5, failed.clone());
    cache.insert(6, other.clone());
    assert_eq!(cache.begin_write(5, &failed), 1);
    cache.begin_batch();
    assert_eq!(cache.begin_write(6, &other), 1);
    cache.commit_batch();
    assert_eq!(cache.begin_write(5, &failed), 1);
    assert_eq!(cache.begin_write(6, &other), 2);
}

#[test]
fn forgetting_a_huge_range_drops_only_the_cached_tables() {
    let mut cache = TableCache::new(8 * BYTES, BYTES);
    cache.insert(1, table());
    cache.insert(1 << 50, table());
    cache.insert(u64::MAX - 1, table());
    cache.forget(2..u64::MAX - 1);
    assert!(cache.contains(1) && cache.contains(u64::MAX - 1));
    assert_eq!(cache.bytes(), 2 * BYTES);
}
