//! Devices that fail, and media that return wrong bytes.

use crate::common::{Batch, Dice, Model, SMALL, Shape, Store, crash_states, random_batch};
use tonearm_layout::{Home as _, HomeError, Piece};
use tonearm_rt::{IoError, Op};
use tonearm_world::DiskImage;
use tonearm_world::filters::Effect;

const ROOM_GONE: [Effect; 2] = [
    Effect::Fail(IoError::ENOSPC),
    Effect::FailAfter(IoError::ENOSPC),
];

/// Every operation of a call fails once. Then the call, or first another one, is made, with power cuts at every moment.
#[test]
fn a_call_that_fails_anywhere_can_be_repeated_and_cut() {
    let mut failures = 0;
    for seed in 0..12u64 {
        let shape = Shape {
            cache_bytes: [0, SMALL.cache_bytes][seed as usize % 2],
            ..SMALL
        };
        for number in 0.. {
            let mut dice = Dice::new(seed + 100);
            let store = Store::on(shape, shape.images(), seed);
            let mut before = Model::default();
            for version in 1..=2 {
                let batch = random_batch(&shape, &mut dice, version);
                store.apply(&batch);
                batch.change(&mut before);
            }
            let failing = random_batch(&shape, &mut dice, 3);
            let start = store.faults.seen();
            let effect = ROOM_GONE[number as usize % 2];
            let nth = start + number;
            store.faults.on(
                move |access| access.number == nth && access.op != Op::Read,
                effect,
            );
            match store.try_apply(&failing) {
                Ok(()) if store.faults.seen() <= nth => break,
                Ok(()) => continue,
                // Which data a failed flush has lost is unknown, so it is not reported as lack of space.
                Err(HomeError::Device { op: Op::Flush, .. } | HomeError::NoSpace { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            failures += 1;
            store.faults.clear();
            if seed % 3 == 1 {
                // Reads in between load the tables again.
                store.status(0, shape.size_blocks());
            }
            let mut calls = vec![failing.clone()];
            if seed % 3 != 0 {
                let first = failing.blocks.keys().next().copied().unwrap_or(0);
                let near = [first ^ 1, first ^ 6].map(|block| block.min(shape.size_blocks() - 1));
                calls.insert(0, Batch::blocks(near, 4));
            }
            repeat_and_cut(&store, &before, &calls, &failing, seed * 1000 + number);
        }
    }
    assert!(failures > 100, "{failures} failures");
}

fn repeat_and_cut(store: &Store, before: &Model, calls: &[Batch], failing: &Batch, seed: u64) {
    let mut after = before.clone();
    let states = crash_states(&store.world, || {
        for call in calls {
            store.apply(call);
        }
    });
    let in_log = |block: u64| failing.touches(block) || calls.iter().any(|c| c.touches(block));
    for (index, crash) in states.iter().enumerate() {
        let reopened = Store::on(store.shape, crash.images(seed + index as u64), seed);
        reopened
            .verify(before, |block| !in_log(block))
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    for call in calls {
        call.change(&mut after);
    }
    store.verify(&after, |_| true).unwrap();
    Store::on(store.shape, store.world.crash().images(seed), seed)
        .verify(&after, |_| true)
        .unwrap();
}

#[test]
fn a_full_disk_is_distinguished_from_a_broken_one() {
    let store = Store::new(SMALL);
    store.faults.set_room(Some(3 * 4096));
    let batch = Batch::blocks((0..100).step_by(2), 1);
    let error = store.try_apply(&batch).unwrap_err();
    assert!(matches!(error, HomeError::NoSpace { op: Op::Write, .. }));
    assert!(
        error
            .to_string()
            .starts_with("no space left for the store: write on left.tn at byte ")
    );
    store.faults.set_room(None);
    store.apply(&batch);
    let mut model = Model::default();
    batch.change(&mut model);
    store.verify(&model, |_| true).unwrap();
    // A failed flush is a failure with any error number.
    for (cause, says) in [
        (IoError::ENOSPC, "No space left on device (os error 28)"),
        (IoError { errno: 122 }, "Disk quota exceeded (os error 122)"),
        (IoError::EIO, "Input/output error (os error 5)"),
    ] {
        store.faults.clear();
        store
            .faults
            .on(|access| access.op == Op::Flush, Effect::Fail(cause));
        let error = store.try_apply(&batch).unwrap_err();
        let expected = format!("flush failed on left.tn at byte 0: {says}");
        assert_eq!(error.to_string(), expected);
    }
}

/// Opens a store with some blocks, after `change` of the first member's image.
fn rotten(batches: &[Batch], change: impl FnOnce(&mut DiskImage)) -> Store {
    let store = Store::new(SMALL);
    for batch in batches {
        store.apply(batch);
    }
    let mut images = store.world.images();
    change(&mut images[0]);
    Store::on(SMALL, images, 9)
}

fn flip(image: &mut DiskImage, offset: u64) {
    let mut byte = [0];
    image.read(offset, &mut byte);
    image.write(offset, &[byte[0] ^ 4]);
}

#[test]
fn a_damaged_block_is_an_error_with_its_address() {
    let offset = SMALL.geometry(0).block_offset(7);
    let store = rotten(&[Batch::blocks(0..20, 1)], |image| flip(image, offset + 99));
    let error = store.read(0, 20).unwrap_err();
    let HomeError::Checksum {
        block,
        ref member,
        offset: at,
        expected,
        found,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((block, member.as_str(), at), (7, "left.tn", offset));
    assert_eq!(
        error.to_string(),
        format!(
            "block 7 is damaged: checksum {found:08x} where {expected:08x} is expected, on left.tn at byte {offset}"
        )
    );
    assert_eq!(expected, tonearm_base::crc32c(&SMALL.content(7, 1)));
    assert_eq!(store.home.stats().checksum_errors, 1);
    store.read(0, 7).unwrap();
    store.read(8, 12).unwrap();
}

#[test]
fn a_block_in_the_place_of_another_or_an_old_one_is_noticed() {
    let geometry = SMALL.geometry(0);
    let store = rotten(&[Batch::blocks(0..20, 1), Batch::blocks([4], 2)], |image| {
        image.write(geometry.block_offset(3), &SMALL.content(2, 1));
        image.write(geometry.block_offset(4), &SMALL.content(4, 1));
    });
    for block in [3, 4] {
        let error = store.read(block, 1).unwrap_err();
        assert!(matches!(error, HomeError::Checksum { block: at, .. } if at == block));
    }
}

#[test]
fn a_read_error_names_its_place() {
    let store = Store::new(SMALL);
    store.apply(&Batch::blocks(0..4, 1));
    let offset = SMALL.geometry(0).block_offset(2);
    store.faults.on(
        move |access| access.op == Op::Read && access.touches(offset),
        Effect::Fail(IoError::EIO),
    );
    assert_eq!(
        store.read(2, 1).unwrap_err().to_string(),
        format!("read failed on left.tn at byte {offset}: Input/output error (os error 5)")
    );
}

#[test]
fn a_damaged_newest_table_never_turns_new_blocks_into_zeroes() {
    let geometry = SMALL.geometry(0);
    // Generation 1 is in slot 1, generation 2 in slot 0.
    let one = [Batch::blocks(0..4, 1)];
    let two = [Batch::blocks(0..4, 1), Batch::blocks([3, 10], 2)];
    for (batches, slot, lost) in [(&one[..], 1, 0..4), (&two[..], 0, 10..11)] {
        let store = rotten(batches, |image| {
            flip(image, geometry.slot_offset(0, slot) + 40)
        });
        for block in lost.clone() {
            let error = store.read(block, 1).unwrap_err();
            assert!(matches!(error, HomeError::Checksum { .. }), "{error}");
            assert!(error.to_string().contains("lost with its group's table"));
        }
        // Also after the group was written again.
        store.apply(&Batch::blocks([50], 3));
        let reopened = Store::on(SMALL, store.world.images(), 1);
        for block in lost {
            reopened.read(block, 1).unwrap_err();
        }
        assert_eq!(reopened.read(50, 1).unwrap(), SMALL.content(50, 3));
    }
}

#[test]
fn a_misdirected_table_slot_is_not_taken_for_a_table() {
    let geometry = SMALL.geometry(0);
    let group = SMALL.group_blocks();
    let batches = [
        Batch::blocks((0..4).chain(group..group + 9), 1),
        Batch::blocks((0..4).chain(group..group + 9), 2),
    ];
    let store = rotten(&batches, |image| {
        let mut slot = vec![0; 4096];
        image.read(geometry.slot_offset(1, 0), &mut slot);
        image.write(geometry.slot_offset(0, 0), &slot);
    });
    // Only the older table is left. Its entries do not match the blocks, so reads give errors.
    let error = store.read(0, 1).unwrap_err();
    assert!(
        matches!(error, HomeError::Checksum { block: 0, .. }),
        "{error}"
    );
    assert_eq!(store.home.stats().overwrite.table_fallbacks, 1);
    store.read(group, 9).unwrap();
}

#[test]
fn group_without_a_valid_table_fails_reads_until_written() {
    let geometry = SMALL.geometry(0);
    let batches = [Batch::blocks(0..4, 1), Batch::blocks(0..4, 2)];
    let store = rotten(&batches, |image| {
        flip(image, geometry.slot_offset(0, 0));
        flip(image, geometry.slot_offset(0, 1) + 5);
    });
    let error = store.read(500, 1).unwrap_err();
    assert_eq!(
        error,
        HomeError::Table {
            group: 0,
            member: "left.tn".into(),
            offset: geometry.slot_offset(0, 0)
        }
    );
    assert!(
        error
            .to_string()
            .contains("group 0 is damaged in both copies, on left.tn at byte 1048576")
    );
    assert_eq!(store.status(0, 8), [(8, true)]);
    store.apply(&Batch::blocks([2], 3));
    assert_eq!(store.home.stats().tables_lost, 1);
    let reopened = Store::on(SMALL, store.world.images(), 1);
    assert_eq!(reopened.read(2, 1).unwrap(), SMALL.content(2, 3));
    for block in [1, 500] {
        let error = reopened.read(block, 1).unwrap_err();
        assert!(matches!(error, HomeError::Checksum { .. }), "{error}");
    }
    let group = SMALL.group_blocks();
    assert!(matches!(
        reopened.pieces(group, 1).unwrap()[..],
        [Piece::Zero(4096)]
    ));
}

/// A read of several runs of blocks, with holes between and over both members. Each request to the drives fails once, before or
/// after it has been carried out.
#[test]
fn a_read_of_which_any_run_fails_is_an_error() {
    let group = SMALL.group_blocks();
    let blocks = [
        0..3,
        5..6,
        9..12,
        group..group + 2,
        2 * group + 1..2 * group + 4,
    ];
    let store = Store::new(SMALL);
    store.apply(&Batch::blocks(blocks.into_iter().flatten(), 1));
    let (count, whole) = (2 * group + 8, store.read(0, 2 * group + 8).unwrap());
    for effect in [Effect::Fail(IoError::EIO), Effect::FailAfter(IoError::EIO)] {
        for number in 0.. {
            let nth = store.faults.seen() + number;
            store.faults.on(
                move |access| access.number == nth && access.op == Op::Read,
                effect,
            );
            let found = store.read(0, count);
            let seen = store.faults.seen();
            store.faults.clear();
            if seen <= nth {
                assert!(number > 4, "{number} runs");
                assert!(found.unwrap() == whole);
                break;
            }
            assert!(found.is_err(), "run {number}");
        }
    }
}
