//! How many operations on members each operation on an array takes.

use crate::common::{CLEAN, UNIT, World, bytes, pattern, read, without};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_device::raid::{Raid0, Raid5, Raid5State};
use tonearm_rt::{Data, Op};

/// Reads and writes of members that `work` makes.
fn cost(
    world: &World,
    array: &Raid5,
    work: impl AsyncFnOnce(Rc<dyn Device>) + 'static,
) -> (u64, u64) {
    let members = array.stripes().members;
    let before = world.ios(members);
    let device: Rc<dyn Device> = Rc::new(array.clone());
    world.rt.block_on(async move { work(device).await });
    let after = world.ios(members);
    (after.0 - before.0, after.1 - before.1)
}

fn array(members: usize, state: Raid5State) -> (World, Raid5) {
    let world = World::new(1, members + 1, 4 << 20);
    let array = world.open(members, UNIT, state, true).unwrap();
    (world, array)
}

async fn write(device: Rc<dyn Device>, offset: u64, len: u64) {
    let written = device.write(offset, bytes(len as usize, offset)).await;
    written.unwrap();
}

#[test]
fn a_small_write_is_two_reads_and_two_writes() {
    for members in [4, 5, 8] {
        let (world, array) = array(members, CLEAN);
        for offset in [0, 4096, UNIT * 3 + 512] {
            let ios = cost(&world, &array, async move |d| write(d, offset, 4096).await);
            assert_eq!(ios, (2, 2), "{members} members");
        }
        let durable = cost(&world, &array, async |d| {
            d.write_durable(0, bytes(512, 1)).await.unwrap();
        });
        assert_eq!(durable, (2, 2));
    }
    // With three members it reads one other data unit; to read the old data and parity would take two.
    let (world, array) = array(3, CLEAN);
    let ios = cost(&world, &array, async |d| write(d, 0, 4096).await);
    assert_eq!(ios, (1, 2));
}

#[test]
fn a_whole_stripe_is_written_without_reading() {
    for members in [3, 4, 6] {
        let (world, array) = array(members, CLEAN);
        let row = array.stripes().row_bytes();
        let ios = cost(&world, &array, async move |d| write(d, row, row).await);
        assert_eq!(ios, (0, members as u64));
        // Adjacent stripe units of one member are one operation.
        let ios = cost(&world, &array, async move |d| write(d, 0, 16 * row).await);
        assert_eq!(ios, (0, members as u64));
        // Whole stripes whose parts arrive together need no reads either.
        let parts = array.stripes().columns() as u64;
        let ios = cost(&world, &array, async move |d| {
            let parts: Vec<_> = (0..parts)
                .map(|part| d.write(part * UNIT, bytes(UNIT as usize, part)))
                .collect();
            for part in parts {
                part.await.unwrap();
            }
        });
        assert_eq!(ios, (0, members as u64));
        assert!(array.stats().coalesced > 0);
    }
}

#[test]
fn most_of_a_stripe_is_written_by_reading_the_rest() {
    let (world, array) = array(6, CLEAN);
    // A write of four of five units reads one unit instead of five.
    let ios = cost(&world, &array, async |d| write(d, 0, 4 * UNIT).await);
    assert_eq!(ios, (1, 5));
    // The end of one unit and the start of the next share no parity.
    let ios = cost(&world, &array, async |d| write(d, UNIT - 512, 1024).await);
    assert_eq!(ios, (4, 4));
}

#[test]
fn adjacent_reads_merge_and_small_reads_use_one_member() {
    let (world, array) = array(4, CLEAN);
    let row = array.stripes().row_bytes();
    let ios = cost(&world, &array, async move |d| write(d, 0, 8 * row).await);
    assert_eq!(ios, (0, 4));
    let ios = cost(&world, &array, async |d| drop(read(&d, 4096, 4096).await));
    assert_eq!(ios, (1, 0));
    // Each member has two parity units in eight stripes, so three runs at most.
    let (reads, writes) = cost(&world, &array, async move |d| {
        let found = read(&d, 0, 8 * row as usize).await;
        assert!(found[..] == pattern(8 * row as usize, 0)[..]);
    });
    assert!((4..=12).contains(&reads) && writes == 0, "{reads} reads");
}

#[test]
fn a_degraded_write_costs_no_more_operations_on_members() {
    // Stripe 0 of four members: data on 0, 1 and 2, parity on 3.
    for (missing, expected) in [(3, (0, 1)), (2, (2, 2)), (0, (2, 1))] {
        let (world, array) = array(4, without(missing));
        let ios = cost(&world, &array, async |d| write(d, 0, 4096).await);
        assert_eq!(ios, expected, "without member {missing}");
        // A record is needed only when a unit is neither read nor written.
        assert_eq!(array.stats().records, u64::from(missing == 2));
        assert_eq!(array.stats().unprotected, 0);
    }
}

#[test]
fn a_punch_of_whole_stripes_is_one_operation_for_each_member() {
    let (world, array) = array(4, CLEAN);
    let row = array.stripes().row_bytes();
    let (size, rows) = (array.size_bytes(), array.stripes().rows);
    let ios = cost(&world, &array, async move |d| {
        write(d.clone(), 0, 2 * row).await;
        d.punch(0, size).await.unwrap();
        assert!(
            read(&d, 0, row as usize)
                .await
                .iter()
                .all(|byte| *byte == 0)
        );
    });
    assert_eq!(ios.1, 4);
    for device in &world.counted[..4] {
        assert_eq!(device.count(Op::Punch).bytes, rows * UNIT);
    }
    // A part of a stripe: the data is punched and the parity is written.
    let ios = cost(&world, &array, async |d| d.punch(4096, 4096).await.unwrap());
    assert_eq!(ios, (2, 1));
}

#[test]
fn a_flush_flushes_each_member_once() {
    let (world, array) = array(4, CLEAN);
    cost(&world, &array, async |d| d.flush().await.unwrap());
    for device in &world.counted[..4] {
        assert_eq!(device.count(Op::Flush).started, 1);
    }
}

#[test]
fn raid0_splits_and_joins() {
    let world = World::new(1, 3, 4 << 20);
    let array = Raid0::new(&BufPool::new(0), "array", world.devices.clone(), UNIT).unwrap();
    let array: Rc<dyn Device> = Rc::new(array);
    let device = array.clone();
    world.rt.block_on(async move {
        let len = 12 * UNIT as usize;
        device.write(0, bytes(len, 5)).await.unwrap();
        assert!(read(&device, 0, len).await[..] == pattern(len, 5)[..]);
    });
    assert_eq!(
        world.ios(3),
        (3, 3),
        "four units of each member are one operation"
    );
    assert_eq!(array.size_bytes(), 12 << 20);
    let (result, _) =
        world
            .rt
            .block_on(array.io(Op::Write, UNIT - 512, 0, Data::whole(pattern(1024, 6))));
    assert_eq!(result, Ok(1024));
    assert_eq!(world.ios(3), (3, 5));
}
