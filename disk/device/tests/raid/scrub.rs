//! Rotten content: what a member returns without an error, and is wrong.

use crate::common::{CLEAN, UNIT, World, bad_sector, bytes, pattern, read, without};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::Raid5;
use tonearm_device::{Device, Known, Redundancy, RepairOutcome};
use tonearm_rt::{Data, Op};
use tonearm_world::filters::Access;

const PIECE: u64 = 4096;
const ROWS: u64 = 8;

/// An array of four members of which every piece is written. Stripe 0 has its parity on member 3, stripe 1 on member 2.
async fn filled(array: &Raid5) -> Rc<dyn Device> {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    for piece in 0..device.size_bytes() / PIECE {
        let written = device.write(piece * PIECE, bytes(PIECE as usize, piece));
        written.await.unwrap();
    }
    device.flush().await.unwrap();
    device
}

fn world() -> (Rc<World>, Raid5) {
    let world = World::new(1, 4, ROWS * UNIT);
    let array = world.open(4, UNIT, CLEAN, false).unwrap();
    (Rc::new(world), array)
}

/// A place over pieces.
fn known(range: Range<u64>) -> Known {
    let pieces = range.start / PIECE..range.end / PIECE;
    let content = pieces.flat_map(|piece| pattern(PIECE as usize, piece).to_vec());
    let content: Vec<u8> = content.collect();
    Known {
        range,
        is_right: Box::new(move |bytes| bytes == content),
    }
}

fn pieces(range: &Range<u64>) -> Vec<Known> {
    let starts = (range.start..range.end).step_by(PIECE as usize);
    starts.map(|start| known(start..start + PIECE)).collect()
}

async fn flip(world: &World, member: usize, at: u64, mask: u8) {
    let (device, sector) = (&world.devices[member], at / 512 * 512);
    let mut buf = device
        .read(sector, BufPool::new(0).alloc(512))
        .await
        .unwrap();
    buf[(at - sector) as usize] ^= mask;
    device.write(sector, Data::whole(buf)).await.unwrap();
}

async fn assert_right(array: &Raid5, device: &Rc<dyn Device>) {
    for piece in 0..device.size_bytes() / PIECE {
        let found = read(device, piece * PIECE, PIECE as usize).await;
        assert!(found[..] == pattern(PIECE as usize, piece)[..], "{piece}");
    }
    assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
    let all = array.compare(0..device.size_bytes()).await;
    assert_eq!(all, Ok(Vec::new()));
}

#[test]
fn corrupt_unit_is_repaired_by_one_write() {
    let (world, array) = world();
    let own = world.clone();
    world.rt.block_on(async move {
        let device = filled(&array).await;
        let row_bytes = array.stripes().row_bytes();
        for (row, member) in (0..ROWS).flat_map(|row| (0..4).map(move |member| (row, member))) {
            flip(&own, member, row * UNIT + 999 * row, 0x10).await;
            let stripe = row * row_bytes..(row + 1) * row_bytes;
            let found = array.compare(0..device.size_bytes()).await;
            assert_eq!(found, Ok(vec![stripe.clone()]));
            let before = own.ios(4).1;
            let repaired = array.repair(pieces(&stripe), stripe).await;
            let is_parity = array.stripes().parity_member(row) == member;
            let expected = RepairOutcome {
                places: u64::from(!is_parity),
                wrong: 0,
                stripes: u64::from(is_parity),
            };
            assert_eq!(repaired, Ok(expected), "stripe {row}, member {member}");
            assert_eq!(own.ios(4).1 - before, 1);
            assert_right(&array, &device).await;
        }
    });
}

/// While wrong parity is made right, some reads of a member fail. Its units are right, and stay as they are: nothing that is
/// computed from the wrong parity is written.
#[test]
fn wrong_parity_is_not_used_for_unreadable_units() {
    for (repairs, first, count) in (1..8).flat_map(|first| {
        let counts = (1..4).flat_map(move |count| [(true, first, count), (false, first, count)]);
        counts.collect::<Vec<_>>()
    }) {
        let (world, array) = world();
        let own = world.clone();
        world.rt.block_on(async move {
            let device = filled(&array).await;
            let stripe = 0..array.stripes().row_bytes();
            flip(&own, 3, 500, 0x10).await;
            let reads = Cell::new(0);
            let fails = move |access: &Access| {
                reads.set(reads.get() + u64::from(access.op == Op::Read));
                access.op == Op::Read && (first..first + count).contains(&reads.get())
            };
            own.plans[1].on(fails, crate::failures::EIO);
            if repairs {
                array.repair(pieces(&stripe), stripe).await.unwrap();
            } else {
                array.resync(|_, _| {}).await.unwrap();
            }
            own.plans[1].clear();
            for piece in 0..device.size_bytes() / PIECE {
                let found = read(&device, piece * PIECE, PIECE as usize).await;
                assert!(
                    found[..] == pattern(PIECE as usize, piece)[..],
                    "{count} reads from the {first}. on, repairs: {repairs}, piece {piece}"
                );
            }
        });
    }
}

/// Nothing is written: neither content that is not right, nor the parity of a stripe with content that is wrong.
#[test]
fn two_corrupt_units_are_left_unchanged() {
    for (other, mask) in [(1, 0x20), (3, 0x20), (3, 0x10)] {
        let (world, array) = world();
        let own = world.clone();
        world.rt.block_on(async move {
            let device = filled(&array).await;
            let stripe = 0..array.stripes().row_bytes();
            flip(&own, 0, 500, 0x10).await;
            flip(&own, other, 500, mask).await;
            // The same bit of one data unit and of the parity: they agree.
            let agree = (other, mask) == (3, 0x10);
            let found = array.compare(0..device.size_bytes()).await.unwrap();
            assert_eq!(found.is_empty(), agree);
            let before = own.ios(4).1;
            let repaired = array.repair(pieces(&stripe), stripe.clone()).await.unwrap();
            let wrong = if other == 3 { 1 } else { 2 };
            assert_eq!(
                (repaired.places, repaired.wrong, repaired.stripes),
                (0, wrong, 0)
            );
            assert_eq!(own.ios(4).1, before);
            // Written anew, the stripe is whole again.
            flip(&own, 0, 500, 0x10).await;
            let repaired = array.repair(pieces(&stripe), stripe).await.unwrap();
            assert_eq!(repaired.places + repaired.stripes, 1);
            assert_right(&array, &device).await;
        });
    }
}

#[test]
fn piece_spanning_two_members_is_repaired() {
    // Two pieces on either side of the border between member 0 and member 1, and of that between stripes 0 and 1.
    let (world, array) = world();
    let own = world.clone();
    world.rt.block_on(async move {
        let device = filled(&array).await;
        let row_bytes = array.stripes().row_bytes();
        let second_row = (UNIT, array.stripes().member(1, 0));
        for (border, before, after) in [(UNIT, 0, (0, 1)), (row_bytes, 2, second_row)] {
            for rotten in 1..4 {
                if rotten & 1 != 0 {
                    flip(&own, before, UNIT - 7, 4).await;
                }
                if rotten & 2 != 0 {
                    flip(&own, after.1, after.0 + 7, 4).await;
                }
                let place = known(border - PIECE..border + PIECE);
                let repaired = array.repair(vec![place], 0..0).await.unwrap();
                assert_eq!(
                    (repaired.places, repaired.wrong),
                    (1, 0),
                    "{border}, {rotten}"
                );
                assert_right(&array, &device).await;
            }
        }
    });
}

#[test]
fn unreadable_units_are_written_again() {
    for member in 0..4 {
        let (world, array) = world();
        let own = world.clone();
        world.rt.block_on(async move {
            let device = filled(&array).await;
            let stripe = 0..array.stripes().row_bytes();
            bad_sector(&own.plans[member], 4096);
            let found = array.compare(0..device.size_bytes()).await;
            assert_eq!(found, Ok(vec![stripe.clone()]));
            let repaired = array.repair(pieces(&stripe), stripe).await.unwrap();
            assert_eq!((repaired.places + repaired.stripes, repaired.wrong), (1, 0));
            assert_right(&array, &device).await;
        });
    }
}

#[test]
fn without_a_member_nothing_is_compared_or_repaired() {
    let (world, array) = world();
    world.rt.block_on(async move {
        filled(&array).await;
        array.close().await.unwrap();
    });
    let array = world.open(4, UNIT, without(3), false).unwrap();
    let own = world.clone();
    world.rt.block_on(async move {
        let stripe = 0..array.stripes().row_bytes();
        flip(&own, 0, 500, 0x10).await;
        let before = own.ios(4).1;
        assert_eq!(array.compare(0..array.size_bytes()).await, Ok(Vec::new()));
        let repaired = array.repair(pieces(&stripe), stripe).await;
        assert_eq!(repaired, Ok(RepairOutcome::default()));
        assert_eq!(own.ios(4).1, before);
    });
}
