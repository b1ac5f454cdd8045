//! Reads beside the writer: while it changes the block map, reads wait for pages of it from the medium.

use crate::common::{Shape, Store};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_layout::{Home, HomeBlock, Reader, ZeroRange};
use tonearm_rt::{IoError, Op};
use tonearm_world::{SimOptions, SimWorld};

/// Blocks below a leaf of the block map.
const LEAF: u64 = 254;
/// A block of the second leaf.
const BLOCK: u64 = 300;

/// Stores with two leaves of the block map and a page above, in new processes, which have no page in memory. Of those blocks
/// the store has `blocks`. Each has a number of microseconds for [`read_during`].
fn stores(blocks: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, Store)> {
    let mut made = Store::new(Shape::small(2 * LEAF));
    let blocks: Vec<u64> = blocks.collect();
    for part in blocks.chunks(100) {
        made.write(part, &[]);
    }
    made.close();
    (0..200).map(move |seed| {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, made.world.images());
        (5 * (seed % 100), made.in_world(world).expect("it opens"))
    })
}

/// Some clients read [`BLOCK`] at once, `after` microseconds after the writer's begin. Each needs the pages that the writer needs.
fn read_during(store: &Store, after: u64, zeroes: Vec<ZeroRange>, blocks: Vec<HomeBlock>) {
    let (rt, home) = (store.rt.clone(), store.home.clone());
    store.rt.block_on(async move {
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let (rt2, home) = (rt.clone(), home.clone());
                rt.spawn(async move {
                    rt2.sleep(Nanos::from_micros(after)).await;
                    home.read(BLOCK, 1, Reader::Client).await.map(|_| ())
                })
            })
            .collect();
        home.write_back(zeroes, blocks).await.expect("written");
        for reader in readers {
            reader.await.expect("read");
        }
    });
}

#[test]
fn read_during_the_first_write_to_a_leaf_finds_its_page() {
    for (after, mut store) in stores(0..LEAF) {
        let block = store.new_version(BLOCK);
        read_during(&store, after, Vec::new(), vec![block]);
        store.compare();
    }
}

#[test]
fn read_during_a_range_trim_caches_no_stale_page() {
    for (after, mut store) in stores(0..2 * LEAF) {
        store.model.retain(|block, _| *block < LEAF);
        let leaf = ZeroRange {
            first: LEAF,
            count: LEAF,
            keep_space: false,
        };
        read_during(&store, after, vec![leaf], Vec::new());
        store.compare();
    }
}

#[test]
fn read_during_a_full_trim_caches_no_stale_page() {
    for (after, mut store) in stores(0..2 * LEAF) {
        store.model.clear();
        let all = ZeroRange {
            first: 0,
            count: 2 * LEAF,
            keep_space: false,
        };
        read_during(&store, after, vec![all], Vec::new());
        store.compare();
    }
}

/// Neighbours lie apart, so that a read of them is many runs. Each request to the drive fails once.
#[test]
fn a_read_of_which_any_run_fails_is_an_error() {
    let mut store = Store::new(Shape::small(2 * LEAF));
    for part in 0..3 {
        let blocks: Vec<u64> = (0..60).filter(|block| block % 3 == part).collect();
        store.write(&blocks, &[]);
    }
    let whole = store.read(0, 24).expect("read");
    for nth in 1.. {
        let (mut reads, seen) = (0, Rc::new(Cell::new(0)));
        let noted = seen.clone();
        store.world.set_fault(move |request| {
            reads += u64::from(request.op == Op::Read);
            noted.set(reads);
            (request.op == Op::Read && reads == nth).then_some(IoError::EIO)
        });
        let found = store.read(0, 24);
        store.world.clear_fault();
        if seen.get() < nth {
            assert!(nth > 20, "{nth} runs");
            assert!(found.expect("read") == whole);
            break;
        }
        assert!(found.is_err(), "run {nth} has failed");
    }
}
