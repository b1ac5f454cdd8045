//! Rebuilds of the map from the summaries alone, and damage that ends in errors.

use crate::common::{BLOCK, GIVEN, Numbers, Shape, Store};
use tonearm_base::Nanos;
use tonearm_format::{HEADER_AREA_BYTES, segments_for};
use tonearm_layout::{Home as _, HomeError, ParityHome as _, SlotReport};
use tonearm_rt::{Data, Op};
use tonearm_world::{Fault, FaultKind, Place, SimOptions, SimWorld};

/// A store with a history of writes, trims and cleaning.
fn with_history(seed: u64) -> Store {
    let mut numbers = Numbers(seed);
    let mut store = Store::new(Shape {
        given: GIVEN[seed as usize / 8],
        ..Shape::small(900)
    });
    for round in 0..300u64 {
        let blocks: Vec<u64> = (0..numbers.below(30)).map(|_| numbers.below(880)).collect();
        let first = numbers.below(880);
        let count = 1 + numbers.below(880 - first).min(80);
        let holes = if round % 3 == 0 {
            vec![(first, count)]
        } else {
            Vec::new()
        };
        store.write(&blocks, &holes);
    }
    assert!(store.home.stats().segments.cleaned_segments > 40);
    store
}

fn destroy_checkpoints(store: &Store) {
    let slots = store.shape.layout().checkpoint_bytes();
    store.destroy(HEADER_AREA_BYTES, slots as usize);
}

/// Byte offset of the map page of `block`.
fn page_of(store: &Store, block: u64) -> u64 {
    let (home, group) = (store.home.clone(), block / store.home.shape().group_blocks);
    let report = store
        .rt
        .block_on(async move { home.check_group(group).await });
    report.unwrap().offset
}

/// Write-back waits during either call. Without an array nothing is repaired, so the group is examined once.
#[test]
fn repairing_without_an_array_reads_no_more_than_a_check() {
    let store = with_history(4);
    // The cache has the page, so that its blocks are still read.
    store.destroy(page_of(&store, 300), BLOCK);
    let reads = |repairs: bool| {
        let (home, before) = (store.home.clone(), store.world.ios());
        let report = store.rt.block_on(async move {
            if repairs {
                home.scrub_group(1).await.unwrap()
            } else {
                home.check_group(1).await.unwrap()
            }
        });
        assert!(matches!(report.slots[0], SlotReport::Damaged(_)) && report.allocated > 100);
        assert_eq!(report.repaired, 0);
        store.world.ios() - before
    };
    let (checked, repaired) = (reads(false), reads(true));
    // The pages from the root on.
    assert!(repaired <= checked + 3, "{repaired} and {checked} reads");
}

#[test]
fn rebuild_restores_all_blocks_without_map_or_checkpoint() {
    for seed in 0..16 {
        let store = with_history(seed);
        store.close();
        for block in [0, 300, 700] {
            store.destroy(page_of(&store, block), BLOCK);
        }
        destroy_checkpoints(&store);
        match store.reopened(0) {
            Err(HomeError::Checkpoint { .. }) => {}
            other => panic!("{:?}", other.err()),
        }
        // In windows of one leaf, and at once.
        let report = store.rebuild(if seed % 2 == 0 { BLOCK } else { 1 << 20 });
        assert_eq!(
            (report.blocks, report.damaged),
            (store.model.len() as u64, 0)
        );
        let mut again = store.reopened(0).unwrap();
        again.compare();
        again.write(&[1, 2, 3], &[(100, 50)]);
        let reopened = again.reopened(4).unwrap();
        reopened.compare();
    }
}

/// The notes come to lie in segments that have no live block.
#[test]
fn rebuild_finds_blocks_overwritten_in_place() {
    let mut store = Store::new(Shape {
        given: Some(|_| true),
        ..Shape::small(900)
    });
    store.fill(900);
    let mut numbers = Numbers(3);
    for _ in 0..600 {
        let part: Vec<u64> = (0..20).map(|_| numbers.below(900)).collect();
        store.write(&part, &[]);
    }
    store.close();
    destroy_checkpoints(&store);
    let report = store.rebuild(1 << 20);
    assert_eq!((report.blocks, report.damaged), (900, 0));
    store.reopened(0).unwrap().compare();
}

/// Segments keep old copies of a few trimmed blocks, while the cleaner carries their tombstones from segment to segment. An opening after
/// a cut finds the carried tombstones in the chain alone. The segments where they lie may lose all their blocks then, and must not be
/// used again all the same, or a rebuild takes the old copies for the newest.
#[test]
fn recovered_tombstones_are_kept_until_a_rebuild() {
    let (mut recovered, mut cleaned) = (0, 0);
    for seed in 0..6 {
        let mut numbers = Numbers(70 + seed);
        let spare = 10 + 15 * (seed % 3);
        let mut store = Store::new(Shape {
            segments: segments_for(4096, 64 << 10, 900, spare),
            ..Shape::small(900)
        });
        // What is trimmed lies in leaves 0 and 1 of the map, what is overwritten in the others.
        store.fill(50);
        store.write(&[], &[(252, 4)]);
        let hot = Vec::from_iter(510..900);
        for round in 0..80u64 {
            let holes = match round % 4 {
                // One block of each leaf.
                0 => vec![(numbers.below(254), 1), (254 + numbers.below(254), 1)],
                _ => Vec::new(),
            };
            let some: Vec<u64> = (0..20).map(|_| 510 + numbers.below(390)).collect();
            store.write(&some, &holes);
            if round % 4 == 3 {
                let mut again = store.reopened(1 + round).unwrap();
                recovered += again.home.stats().segments.recovered_partials;
                for _ in 0..4 {
                    again.write(&hot, &[]);
                }
                again.compare();
                again.close();
                again.write(&hot, &[]);
                again.close();
                destroy_checkpoints(&again);
                again.rebuild(64 << 10);
                again.reopened(0).unwrap().compare();
            }
        }
        cleaned += store.home.stats().segments.cleaned_segments;
    }
    assert!(
        recovered > 300 && cleaned > 100,
        "{recovered} partials recovered, {cleaned} segments cleaned"
    );
}

#[test]
fn a_rebuild_takes_no_older_copy_for_a_damaged_block() {
    let mut store = with_history(3);
    store.write(&[10], &[]);
    let newest = store.read(10, 1).unwrap();
    // Finds the newest copy on the medium.
    let device = store.device();
    let size = device.size_bytes();
    let pool = store.pool.clone();
    let found = store.rt.block_on(async move {
        let mut found = None;
        for offset in (0..size).step_by(BLOCK) {
            let bytes = device.read(offset, pool.alloc(BLOCK)).await.unwrap();
            if bytes[..] == newest[..] {
                found = Some(offset);
            }
        }
        found
    });
    store.destroy(found.expect("it lies somewhere"), 512);
    store.close();
    destroy_checkpoints(&store);
    assert_eq!(store.rebuild(1 << 20).damaged, 1);
    let again = store.reopened(0).unwrap();
    assert!(matches!(
        again.read(10, 1),
        Err(HomeError::Checksum { block: 10, .. })
    ));
    assert!(again.read(11, 200).is_ok());
}

#[test]
fn a_map_page_with_a_flipped_bit_is_damaged() {
    let store = with_history(4);
    store.close();
    let offset = page_of(&store, 300);
    let (device, pool) = (store.device(), store.pool.clone());
    store.rt.block_on(async move {
        let mut page = device.read(offset, pool.alloc(BLOCK)).await.unwrap();
        // In the middle of the entries.
        page[2000] ^= 4;
        device.write(offset, Data::whole(page)).await.unwrap();
    });
    let damaged = store.reopened(0).unwrap();
    let found = damaged.read(300, 1);
    assert!(matches!(found, Err(HomeError::MapPage { offset: at, .. }) if at == offset));
    assert!(damaged.read(0, 254).is_ok() && damaged.read(508, 254).is_ok());
}

/// The segment may have held anything: if it counted as the end of the chain, old content would be returned.
#[test]
fn a_segment_of_the_chain_that_cannot_be_read_is_an_error() {
    let store = with_history(5);
    let (layout, mut refused) = (store.shape.layout(), 0);
    for segment in 0..layout.segments {
        let world = SimWorld::new(SimOptions::default(), store.world.images());
        let first = HEADER_AREA_BYTES + layout.checkpoint_bytes();
        let first = first + segment * u64::from(layout.segment_bytes);
        for block in 0..layout.segment_blocks() {
            world.strike(Fault {
                drive: 0,
                after: 0,
                kind: FaultKind::LatentError,
                place: Place::At(first + block * BLOCK as u64),
                span: Nanos(0),
                times: 1,
            });
        }
        let again = match store.in_world(world) {
            Err(HomeError::Device { op: Op::Read, .. }) => {
                refused += 1;
                continue;
            }
            again => again.unwrap(),
        };
        // Blocks that can be read have the right content.
        for block in 0..store.shape.blocks {
            if let Ok(found) = again.read(block, 1) {
                let version = store.model.get(&block);
                let expected =
                    version.map_or(vec![0; BLOCK], |version| Store::content(block, *version));
                assert!(found == expected, "block {block} without segment {segment}");
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn damaged_map_page_is_reported_and_rebuild_repairs_it() {
    let store = with_history(4);
    store.close();
    let offset = page_of(&store, 300);
    store.destroy(offset, BLOCK);
    let mut damaged = store.reopened(0).unwrap();
    match damaged.read(300, 1) {
        Err(HomeError::MapPage {
            offset: at,
            first,
            end,
            ..
        }) => {
            assert_eq!((at, first, end), (offset, 254, 508));
        }
        other => panic!("{other:?}"),
    }
    assert!(damaged.read(0, 254).is_ok() && damaged.read(508, 254).is_ok());
    let home = damaged.home.clone();
    let report = damaged
        .rt
        .block_on(async move { home.check_group(1).await.unwrap() });
    assert!(report.table_lost && !report.is_sound());
    // An adjacent block can be written; lost blocks stay errors and never read as zeroes.
    damaged.write(&[301], &[]);
    assert!(damaged.read(301, 1).is_ok());
    let lost = (254..508).filter(|block| *block != 301 && damaged.read(*block, 1).is_err());
    assert_eq!(lost.count(), 253);
    damaged.close();
    damaged.rebuild(1 << 20);
    damaged.reopened(0).unwrap().compare();
}
