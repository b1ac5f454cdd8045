//! The state of an array on its devices: a power cut leaves a whole copy on each, and nothing that an earlier store left.

#![allow(clippy::unwrap_used)]

use crate::common::{MEMBERS, drive, opened, params, space, store};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Redundancy;
use tonearm_device::raid::MemberState;
use tonearm_engine::{
    ArrayAccess, ArrayParams, ArrayPlan, CreatePlan, HomeParams, MemberDevice, NewMember,
    create_array, load_descriptor, load_superblock, plan_array,
};
use tonearm_format::{
    ARRAY_BYTES, ArrayLevel, HEADER_AREA_BYTES, SUPERBLOCK_SLOTS, Uuid, array_offset,
};
use tonearm_rt::{Data, IoError, Op, Rt};
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

const UUID: Uuid = [99; 16];

/// The plan of a store over a RAID-5 array.
fn plan(home: HomeParams) -> (CreatePlan, ArrayPlan) {
    let of_array = ArrayParams {
        level: ArrayLevel::Raid5,
        stripe_bytes: 16 << 10,
        uuid: UUID,
    };
    let spaces: Vec<_> = (1..=MEMBERS as u8)
        .map(|index| space(index, false, true))
        .collect();
    let params = params(home);
    plan_array(&params, &of_array, &space(0, true, false), &spaces).unwrap()
}

/// The drives of an empty store over a RAID-5 array: the primary member, then those of the array.
pub fn array(home: HomeParams) -> Vec<DiskImage> {
    let (_, plan) = plan(home);
    let mut disks = vec![DiskImage::new(plan.primary_bytes)];
    disks.resize(1 + MEMBERS, DiskImage::new(plan.member_bytes));
    array_on(&disks, home, true)
}

/// The same on these drives.
fn array_on(disks: &[DiskImage], home: HomeParams, blank: bool) -> Vec<DiskImage> {
    let (of_store, plan) = plan(home);
    let (made, world) = run(disks, async move |rt, drives| {
        let new = |device: &MemberDevice| NewMember {
            device: device.device.clone(),
            blank,
            log_written: false,
        };
        let members: Vec<NewMember> = drives[1..].iter().map(new).collect();
        let (pool, primary) = (BufPool::new(0), new(&drives[0]));
        let made = create_array(&rt, &pool, &plan, primary, &members, |_, _| {}).await?;
        tonearm_engine::create(&rt, &pool, &of_store, &made, |_, _| {}).await
    });
    made.unwrap();
    world.images()
}

/// Does `work` with the drives of `disks`.
fn run<T: 'static>(
    disks: &[DiskImage],
    work: impl AsyncFnOnce(Rt, Vec<MemberDevice>) -> T + 'static,
) -> (T, SimWorld) {
    let world = SimWorld::new(SimOptions::default(), disks.to_vec());
    let result = within(&world, disks, work);
    (result, world)
}

fn within<T: 'static>(
    world: &SimWorld,
    disks: &[DiskImage],
    work: impl AsyncFnOnce(Rt, Vec<MemberDevice>) -> T + 'static,
) -> T {
    let rt = Rt::new(world.driver());
    let sizes = disks.iter().enumerate();
    let drives = sizes.map(|(index, disk)| drive(&rt, index, disk.size));
    let (own, drives) = (rt.clone(), drives.collect());
    let result = rt.block_on(async move { work(own, drives).await });
    rt.shut_down();
    result
}

/// Does `work`, and cuts the power at each step of its I/O.
fn cuts(
    disks: &[DiskImage],
    work: impl AsyncFnOnce(Rt, Vec<MemberDevice>) + 'static,
) -> Vec<Crash> {
    let world = SimWorld::new(SimOptions::default(), disks.to_vec());
    cuts_in(&world, disks, work)
}

fn cuts_in(
    world: &SimWorld,
    disks: &[DiskImage],
    work: impl AsyncFnOnce(Rt, Vec<MemberDevice>) + 'static,
) -> Vec<Crash> {
    let found: Rc<RefCell<Vec<Crash>>> = Rc::default();
    let seen = found.clone();
    world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
    within(world, disks, work);
    world.clear_hook();
    found.borrow_mut().push(world.crash());
    found.take()
}

/// The drives of an array that was in use and not closed: it does not open without one of its members.
fn in_use() -> Vec<DiskImage> {
    let (used, world) = run(&array(HomeParams::Overwrite), async |rt, drives| {
        let array = opened(&rt, &drives, None, ArrayAccess::Write)
            .await
            .unwrap();
        let data = BufPool::new(0).copy_of(&[1; 4096]);
        array.member().device.write(0, Data::whole(data)).await
    });
    used.unwrap();
    world.images()
}

/// A cut save has left the newest copies in one pair of slots of some devices, and nothing in the other pair. The next save begins
/// with the other pair, on the primary member and on each of the others: a cut of it destroys no only copy.
#[test]
fn a_save_that_is_cut_destroys_no_only_copy_of_a_device() {
    let whole = in_use();
    for on in [0..1, 1..2, 3..4, 0..1 + MEMBERS] {
        for first in [0, SUPERBLOCK_SLOTS / 2] {
            let mut disks = whole.clone();
            for disk in &mut disks[on.clone()] {
                for slot in first..first + SUPERBLOCK_SLOTS / 2 {
                    disk.write(array_offset(slot, disk.size), &[0xa5; ARRAY_BYTES]);
                }
            }
            let crashes = cuts(&disks, async |rt, drives| {
                opened(&rt, &drives, None, ArrayAccess::Write)
                    .await
                    .unwrap();
            });
            for (cut, crash) in crashes.iter().enumerate() {
                for image in 0..6 {
                    let left = crash.images((cut * 8 + image) as u64);
                    let (states, _) = run(&left, async |rt, drives| {
                        for device in &drives {
                            let pool = BufPool::new(0);
                            let copy = load_descriptor(&pool, device).await.unwrap();
                            assert!(copy.is_some(), "no copy on {}", device.path);
                        }
                        let array = opened(&rt, &drives, None, ArrayAccess::Write);
                        let status = array.await.unwrap().status().unwrap();
                        let states = status.members.into_iter().map(|member| member.state);
                        states.collect::<Vec<_>>()
                    });
                    let case = format!("{on:?}, slots from {first}, cut {cut}, image {image}");
                    assert_eq!(states, [MemberState::InUse; MEMBERS], "{case}");
                }
            }
        }
    }
}

/// A drive that was the member of another store takes the place of a missing member. Whatever the power leaves on it: with the
/// descriptor of the array on it, it is no member of the other store any more.
#[test]
fn replacement_never_reverts_to_its_earlier_store() {
    let mut disks = array(HomeParams::Overwrite);
    let earlier = store(HomeParams::Overwrite).remove(1);
    let size = disks[1].size;
    assert!(earlier.size >= size);
    disks.push(earlier);
    let ((), world) = run(&disks, async |rt, drives| {
        let pool = BufPool::new(0);
        assert!(load_superblock(&pool, &drives[MEMBERS + 1]).await.is_ok());
        let array = opened(&rt, &drives[..=MEMBERS], Some(2), ArrayAccess::Write);
        array.await.unwrap().close().await.unwrap();
    });
    let disks = world.images();
    let crashes = cuts(&disks, async |rt, drives| {
        let array = opened(&rt, &drives[..=MEMBERS], Some(2), ArrayAccess::Write);
        let array = array.await.unwrap();
        let spare = &drives[MEMBERS + 1];
        let (device, path) = (spare.device.clone(), spare.path.clone());
        array.replace(device, path, [77; 16]).await.unwrap();
    });
    let (mut taken, mut earlier) = (0, 0);
    for (cut, crash) in crashes.iter().enumerate() {
        for image in 0..6 {
            let left = crash.images((cut * 8 + image) as u64);
            let ((is_member, has_earlier), _) = run(&left, async |_, drives| {
                let (pool, spare) = (BufPool::new(0), &drives[MEMBERS + 1]);
                let own = load_descriptor(&pool, spare).await.unwrap();
                let is_member = own.is_some_and(|own| own.array == UUID);
                (is_member, load_superblock(&pool, spare).await.is_ok())
            });
            assert!(!(is_member && has_earlier), "cut {cut}, image {image}");
            taken += u64::from(is_member);
            earlier += u64::from(has_earlier);
        }
    }
    assert!(taken > 10 && earlier > 10, "{taken} and {earlier} images");
}

/// What an earlier store has left at the end of a member, or of the primary one, is found neither with the copies at the front nor
/// without them.
#[test]
fn new_array_clears_the_end_of_each_device() {
    let (_, plan) = plan(HomeParams::Overwrite);
    let earlier = store(HomeParams::Overwrite).remove(1);
    assert!(earlier.size > plan.primary_bytes.max(plan.member_bytes));
    let disks = vec![earlier; 1 + MEMBERS];
    let found = |disks: &[DiskImage]| {
        let (found, _) = run(disks, async |_, drives| {
            let (mut found, pool) = (Vec::new(), BufPool::new(0));
            for drive in &drives {
                let superblock = load_superblock(&pool, drive).await;
                found.push(superblock.map(|found| found.superblock.member_index).ok());
            }
            found
        });
        found
    };
    assert_eq!(found(&disks), [Some(1); 1 + MEMBERS]);
    let mut made = array_on(&disks, HomeParams::Overwrite, false);
    let is_new = [Some(0), None, None, None];
    assert_eq!(found(&made), is_new);
    made.iter_mut()
        .for_each(|disk| disk.zero(0, HEADER_AREA_BYTES));
    assert_eq!(found(&made), is_new);
}

/// A member refuses a part of a save, in its first pair of slots or in its second one. It keeps a whole copy of the state before, or
/// has the new one, and the array opens with it when it works again.
#[test]
fn a_member_that_fails_in_a_save_keeps_a_whole_copy() {
    let disks = in_use();
    for fails_from in 0..4 {
        let world = SimWorld::new(SimOptions::default(), disks.clone());
        let mut writes = 0;
        world.set_fault(move |request| {
            let hits = request.device.0 == 2 && request.op == Op::WriteDurable;
            writes += u64::from(hits);
            (hits && writes > fails_from).then_some(IoError::EIO)
        });
        let refused = within(&world, &disks, async |rt, drives| {
            opened(&rt, &drives, None, ArrayAccess::Write)
                .await
                .is_err()
        });
        assert!(refused, "an array in use does not open without a member");
        let crash = world.crash();
        for seed in 0..12 {
            let (states, _) = run(&crash.images(seed), async |rt, drives| {
                let copy = load_descriptor(&BufPool::new(0), &drives[2]).await.unwrap();
                assert!(copy.is_some(), "no copy is left");
                let array = opened(&rt, &drives, None, ArrayAccess::Write).await;
                let status = array.unwrap().status().unwrap();
                let states = status.members.into_iter().map(|member| member.state);
                states.collect::<Vec<_>>()
            });
            assert_eq!(
                states,
                [MemberState::InUse; MEMBERS],
                "from write {fails_from}"
            );
        }
    }
}

/// An array without one member changes its state, and another member refuses a part of the save. Every write tries the save
/// again. It begins with the pair of slots that the save before may have torn.
#[test]
fn member_that_fails_in_save_after_save_keeps_a_whole_copy() {
    let disks = array(HomeParams::Overwrite);
    for (seed, fails_from) in (0..10).flat_map(|seed| (0..4).map(move |from| (seed, from))) {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, disks.clone());
        let refuses = Rc::new(Cell::new(false));
        let (mut writes, refusing) = (0, refuses.clone());
        world.set_fault(move |request| {
            let hits = refusing.get() && request.device.0 == 2 && request.op == Op::WriteDurable;
            writes += u64::from(hits);
            (hits && writes > fails_from).then_some(IoError::EIO)
        });
        let crashes = cuts_in(&world, &disks, async move |rt, drives| {
            let array = opened(&rt, &drives, Some(1), ArrayAccess::Write).await;
            let array = array.unwrap().member().device;
            refuses.set(true);
            for _ in 0..3 {
                let data = Data::whole(BufPool::new(0).copy_of(&[2; 4096]));
                let written = array.write(0, data).await;
                assert!(written.is_err(), "the state cannot be saved");
            }
        });
        for (cut, crash) in crashes.iter().enumerate() {
            for image in 0..6 {
                let left = crash.images((cut * 8 + image) as u64);
                let ((copy, refused), _) = run(&left, async |rt, drives| {
                    let copy = load_descriptor(&BufPool::new(0), &drives[2]).await;
                    let array = opened(&rt, &drives, None, ArrayAccess::Write).await;
                    (copy.unwrap(), array.err().map(|error| error.to_string()))
                });
                let case =
                    format!("fails from write {fails_from}, seed {seed}, cut {cut}, image {image}");
                assert!(copy.is_some(), "no copy is left: {case}");
                assert_eq!(refused, None, "{case}");
            }
        }
    }
}
