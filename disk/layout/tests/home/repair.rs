//! Check and repair.

use crate::common::{Batch, Model, SMALL, Store};
use tonearm_layout::{GroupReport, Home as _, HomeError, RepairOptions, RepairReport, SlotReport};
use tonearm_rt::{IoError, Op};
use tonearm_world::DiskImage;
use tonearm_world::filters::Effect;

const ACCEPT: RepairOptions = RepairOptions { accept_data: true };

fn store_with(generations: u32, change: impl FnOnce(&mut DiskImage)) -> (Store, Model) {
    let store = Store::new(SMALL);
    let mut model = Model::default();
    for version in 1..=generations {
        let batch = Batch::blocks(0..10 + u64::from(version), version);
        store.apply(&batch);
        batch.change(&mut model);
    }
    let mut images = store.world.images();
    change(&mut images[0]);
    (Store::on(SMALL, images, 4), model)
}

fn check(store: &Store, group: u64) -> GroupReport {
    let home = store.home.clone();
    store
        .rt
        .block_on(async move { home.check_group(group).await })
        .unwrap()
}

fn repair(store: &Store, options: RepairOptions) -> RepairReport {
    let home = store.home.clone();
    let report = store
        .rt
        .block_on(async move { home.repair_group(0, options).await })
        .unwrap();
    assert!(store.world.crash().is_settled(), "a repair is durable");
    report
}

fn flip(image: &mut DiskImage, offset: u64) {
    let mut byte = [0];
    image.read(offset, &mut byte);
    image.write(offset, &[byte[0] ^ 4]);
}

fn slot(index: u64) -> u64 {
    SMALL.geometry(0).slot_offset(0, index)
}

#[test]
fn a_sound_group_is_reported_sound_and_repair_leaves_it_alone() {
    let (store, model) = store_with(2, |_| ());
    let report = check(&store, 0);
    assert!(report.is_sound());
    assert_eq!(report.allocated, model.0.len() as u64);
    assert_eq!(report.slots, [SlotReport::Valid(2), SlotReport::Valid(1)]);
    assert_eq!(
        check(&store, 3).slots,
        [SlotReport::Empty, SlotReport::Empty]
    );
    let before = store.home.stats().writes;
    assert_eq!(repair(&store, ACCEPT).slots_rewritten, 0);
    assert_eq!(store.home.stats().writes, before);
}

#[test]
fn a_damaged_slot_is_rewritten_from_the_other() {
    for generations in 0..=4 {
        for damaged in 0..2 {
            let (store, _) = store_with(generations, |image| {
                // Any bytes, also in a slot that was never written.
                image.write(slot(damaged) + 8, b"rot");
            });
            let newest = generations > 0 && u64::from(generations % 2) == damaged;
            assert!(!check(&store, 0).is_sound());
            let report = repair(&store, RepairOptions::default());
            assert_eq!((report.slots_rewritten, report.unverified), (1, 0));
            let after = check(&store, 0);
            let is_damaged = |slot: &SlotReport| matches!(slot, SlotReport::Damaged(_));
            assert!(!after.slots.iter().any(is_damaged), "{after:?}");
            // The entries that only the newest table had are lost.
            assert_eq!(
                after.is_sound(),
                !newest,
                "{generations} {damaged} {after:?}"
            );
            assert_eq!(report.remaining.len(), after.bad.len());
        }
    }
}

#[test]
fn a_table_without_valid_slot_is_rebuilt_unverified() {
    let (store, model) = store_with(3, |image| {
        flip(image, slot(0) + 50);
        flip(image, slot(1) + 60);
    });
    assert!(check(&store, 0).table_lost);
    store.read(0, 1).unwrap_err();
    let report = repair(&store, RepairOptions::default());
    assert_eq!(report.slots_rewritten, 2);
    assert_eq!(report.unverified, model.0.len() as u64);
    assert!(report.remaining.is_empty() && report.found.table_lost);
    assert!(check(&store, 0).is_sound());
    store.verify(&model, |_| true).unwrap();
    Store::on(SMALL, store.world.images(), 1)
        .verify(&model, |_| true)
        .unwrap();
}

#[test]
fn damaged_block_fails_until_its_content_is_accepted() {
    let offset = SMALL.geometry(0).block_offset(4);
    let (store, mut model) = store_with(3, |image| image.write(offset, &SMALL.content(4, 77)));
    let report = repair(&store, RepairOptions::default());
    assert_eq!(report.remaining.len(), 1);
    assert!(matches!(
        report.remaining[0].error,
        HomeError::Checksum { block: 4, .. }
    ));
    store.read(4, 1).unwrap_err();
    let report = repair(&store, ACCEPT);
    assert_eq!(report.accepted, [4]);
    model.0.insert(4, 77);
    store.verify(&model, |_| true).unwrap();
    store.apply(&Batch::blocks([5], 3));
    assert!(check(&store, 0).is_sound());
}

#[test]
fn an_unreadable_block_is_named_and_the_others_are_checked() {
    let offset = SMALL.geometry(0).block_offset(4);
    let (store, _) = store_with(1, |_| ());
    store.faults.on(
        move |access| access.op == Op::Read && access.touches(offset),
        Effect::Fail(IoError::EIO),
    );
    let report = check(&store, 0);
    assert_eq!(report.allocated, 11);
    assert_eq!(report.bad.len(), 1);
    assert_eq!(report.bad[0].block, 4);
    assert!(matches!(
        report.bad[0].error,
        HomeError::Device { errno: 5, .. }
    ));
}
