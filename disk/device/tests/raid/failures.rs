//! Members that fail: what the array works around, what it reports, and what it never returns.

use crate::common::{CLEAN, UNIT, World, bad_sector, bytes, options, pattern, read, without};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::{
    ARRAY_LOST, Missing, Raid0, Raid5, Raid5State, RaidError, Saving, StateSink,
};
use tonearm_device::{Device, StoreEvent};
use tonearm_rt::{Data, IoError, Op};
use tonearm_world::DiskImage;
use tonearm_world::filters::Effect;

pub const EIO: Effect = Effect::Fail(IoError::EIO);

const LEN: usize = 20 * UNIT as usize;

/// An array with the content of seed 1. With `records`, another device takes parity records.
fn filled(members: usize, state: Raid5State, records: bool) -> (World, Raid5, Rc<dyn Device>) {
    let world = World::new(1, members + usize::from(records), 4 << 20);
    let array = world.open(members, UNIT, state, records).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let own = device.clone();
    let written = async move { own.write(0, bytes(LEN, 1)).await };
    world.rt.block_on(written).unwrap();
    (world, array, device)
}

#[test]
fn an_unreadable_place_is_computed_and_rewritten() {
    let (world, array, device) = filled(4, CLEAN, false);
    let plan = world.plans[1].clone();
    world.rt.block_on(async move {
        bad_sector(&plan, UNIT + 4096);
        for _ in 0..2 {
            assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
        }
        assert_eq!(
            (plan.acted(), array.stats().repaired),
            (2, 1),
            "the run, and its part"
        );
        assert_eq!(
            array.state().missing,
            None,
            "a bad place is no failed member"
        );
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
    });
}

/// The array has the content of seed 1, but for 4096 bytes of `seed` at `at`, and the parity is right.
async fn assert_changed(array: &Raid5, at: usize, seed: u64) {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let mut expected = pattern(LEN, 1);
    expected[at..at + 4096].copy_from_slice(&pattern(4096, seed));
    assert!(read(&device, 0, LEN).await[..] == expected[..]);
    assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
}

#[test]
fn a_small_write_works_around_unreadable_old_data_and_parity() {
    for bad in 0..5 {
        let (world, array, device) = filled(5, CLEAN, false);
        let plan = world.plans[bad].clone();
        world.rt.block_on(async move {
            plan.once(|access| access.op == Op::Read, EIO);
            device.write(4096, bytes(4096, 2)).await.unwrap();
            assert_changed(&array, 4096, 2).await;
        });
    }
}

#[test]
fn an_array_without_redundancy_fails_with_any_member() {
    for member in 0..3 {
        let world = World::new(1, 3, 4 << 20);
        let devices = world.devices.clone();
        let array = Raid0::new(&BufPool::new(0), "array", devices, UNIT).unwrap();
        let (device, plan): (Rc<dyn Device>, _) = (Rc::new(array), world.plans[member].clone());
        world.rt.block_on(async move {
            for op in [
                Op::Write,
                Op::WriteDurable,
                Op::Read,
                Op::Flush,
                Op::Punch,
                Op::Zero,
            ] {
                plan.on(move |access| access.op == op, EIO);
                let (data, len) = match op {
                    Op::Flush => (Data::None, 0),
                    Op::Punch | Op::Zero => (Data::None, LEN as u64),
                    _ => (bytes(LEN, 1), 0),
                };
                let (result, _) = device.io(op, 0, len, data).await;
                assert_eq!(result, Err(IoError::EIO), "{op:?} of member {member}");
                plan.clear();
            }
        });
    }
}

/// Which of the overlapping writes remains is not specified, but the parity matches the data.
#[test]
fn writes_under_way_that_overlap_leave_parity_correct() {
    let (world, array, device) = filled(4, CLEAN, false);
    world.rt.block_on(async move {
        let writes: Vec<_> = (0..12)
            .map(|seed| device.write(4096 * (seed % 3), bytes(8192, 10 + seed)))
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
    });
}

#[test]
fn failed_member_is_recorded_before_its_write_completes() {
    for op in [Op::Write, Op::WriteDurable, Op::Flush, Op::Punch] {
        let (world, _, device) = filled(4, CLEAN, false);
        let (plan, kept) = (world.plans[2].clone(), world.kept.clone());
        world.rt.block_on(async move {
            plan.on(move |access| access.op == op, EIO);
            let mut expected = pattern(LEN, 1);
            match op {
                Op::Flush => device.flush().await.unwrap(),
                Op::Punch => {
                    device.punch(0, 6 * UNIT).await.unwrap();
                    expected[..6 * UNIT as usize].fill(0);
                }
                _ => {
                    let written = device.io(op, 0, 0, bytes(LEN, 2)).await;
                    assert_eq!(written.0, Ok(LEN));
                    expected = pattern(LEN, 2);
                }
            }
            let missing = Some(Missing {
                member: 2,
                rebuilt_rows: 0,
            });
            assert_eq!(kept.last().missing, missing, "{op:?}");
            let failed = StoreEvent::MemberFailed {
                member: "disk-2".into(),
                error: IoError::EIO,
            };
            assert_eq!(kept.events(), [failed], "{op:?}: once, at the moment");
            // The failure is permanent, even if the member works again.
            plan.clear();
            let seen = plan.seen();
            assert!(read(&device, 0, LEN).await[..] == expected[..]);
            device.write(UNIT, bytes(LEN, 3)).await.unwrap();
            assert!(read(&device, UNIT, LEN).await[..] == pattern(LEN, 3)[..]);
            assert_eq!(plan.seen(), seen);
        });
    }
}

#[test]
fn a_second_failure_is_one_clear_error_and_never_wrong_data() {
    let (world, array, device) = filled(4, CLEAN, false);
    let (plan, kept) = (world.plans[3].clone(), world.kept.clone());
    world.rt.block_on(async move {
        array.fail(0).await.unwrap();
        assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
        plan.on(|access| access.is_write(), EIO);
        let failed = device.write(0, bytes(LEN, 2)).await;
        assert_eq!(failed, Err(ARRAY_LOST));
        plan.clear();
        let failure = array.failure().unwrap();
        assert!(matches!(failure, RaidError::Lost { .. }));
        let text = failure.to_string();
        assert!(
            text.starts_with("the array has lost disk-3 (Input/output error"),
            "{text}"
        );
        assert!(text.contains("after disk-0"), "{text}");
        for offset in [0, 4 * UNIT] {
            assert_eq!(device.write(offset, bytes(512, 3)).await, Err(ARRAY_LOST));
        }
        assert_eq!(device.flush().await, Err(ARRAY_LOST));
        assert_eq!(array.fail(1).await, Err(failure));
        let events = kept.events();
        let [
            StoreEvent::MemberFailed { member, .. },
            StoreEvent::ArrayLost { why },
        ] = &events[..]
        else {
            panic!("each failure is noted once: {events:?}");
        };
        assert_eq!((member.as_str(), why), ("disk-0", &text));
    });
}

#[test]
fn degraded_read_error_is_limited_to_its_stripe() {
    let (world, array, device) = filled(4, without(0), true);
    let plan = world.plans[1].clone();
    world.rt.block_on(async move {
        plan.on(|access| access.op == Op::Read && access.touches(100), EIO);
        let failed = device.read(0, BufPool::new(0).alloc(512)).await.map(|_| ());
        assert_eq!(failed, Err(IoError::EIO));
        // Data on members that are present, in the same stripe, and all other stripes.
        let unit = UNIT as usize;
        assert!(read(&device, 2 * UNIT, unit).await[..] == pattern(LEN, 1)[2 * unit..3 * unit]);
        let rest = read(&device, 3 * UNIT, LEN - 3 * unit).await;
        assert!(rest[..] == pattern(LEN, 1)[3 * unit..]);
        assert_eq!(array.failure(), None);
    });
}

#[test]
fn several_bad_sectors_of_a_stripe_are_reconstructed() {
    let (world, array, device) = filled(4, CLEAN, false);
    let plans = world.plans.clone();
    world.rt.block_on(async move {
        for (member, plan) in plans[..4].iter().enumerate() {
            bad_sector(plan, 4096 * member as u64 + 100);
        }
        for column in 0..3 {
            let from = column * UNIT as usize;
            let found = read(&device, from as u64, UNIT as usize).await;
            assert!(found[..] == pattern(LEN, 1)[from..from + UNIT as usize]);
        }
        let stats = array.stats();
        assert_eq!((stats.given_up, stats.repaired), (0, 3));
        // The parity's sector is found when the parity is compared.
        assert_eq!(array.resync(|_, _| {}).await, Ok(1));
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
    });
}

/// Stripe 0 has its columns on members 0, 1 and 2. Without member 0, an unreadable sector of member 1 is lost, with the
/// bytes of column 0 in the same place. That is an error of reads, and never one of writes.
#[test]
fn a_sector_that_is_lost_fails_no_write() {
    for (missing, bad, written) in [
        (Some(0), &[1][..], 1),
        (Some(0), &[1], 0),
        (Some(0), &[3], 1),
        (Some(0), &[3], 2),
        (None, &[0, 1], 0),
        (None, &[0, 1], 2),
        (None, &[1, 3], 1),
    ] {
        let state = missing.map_or(CLEAN, without);
        let (world, array, device) = filled(4, state, true);
        let (plans, kept) = (world.plans.clone(), world.kept.clone());
        world.rt.block_on(async move {
            bad.iter()
                .for_each(|member| bad_sector(&plans[*member], 100));
            let place = written * UNIT;
            device.write(place, bytes(8192, 2)).await.unwrap();
            assert_eq!(read(&device, place, 8192).await[..], pattern(8192, 2)[..]);
            assert_eq!(array.failure(), None);
            let lost = kept.events().into_iter();
            let lost = lost.filter(|event| matches!(event, StoreEvent::SectorsLost { .. }));
            assert_eq!(lost.count() as u64, array.stats().given_up);
            // Only what shares its place in the unit is lost, and not where nothing had to be given up.
            let mut expected = pattern(LEN, 1);
            expected[place as usize..][..8192].copy_from_slice(&pattern(8192, 2));
            let unit = UNIT as usize;
            for column in 0..3 {
                let range = column * unit + 4096..(column + 1) * unit;
                let found = read(&device, range.start as u64, range.len()).await;
                assert!(found[..] == expected[range], "{missing:?} {bad:?} {column}");
            }
            let rest = read(&device, 3 * UNIT, LEN - 3 * unit).await;
            assert!(rest[..] == expected[3 * unit..]);
            if missing.is_none() {
                device.write(place, bytes(8192, 3)).await.unwrap();
                array.resync(|_, _| {}).await.unwrap();
                assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
            }
        });
    }
}

/// A member that reads nothing has failed as a whole. What it holds is not given up, because it may come back.
#[test]
fn unreadable_member_gives_up_no_sectors() {
    for missing in [Some(0), None] {
        let state = missing.map_or(CLEAN, without);
        let (world, array, device) = filled(4, state, true);
        let plans = world.plans.clone();
        world.rt.block_on(async move {
            plans[1].on(|access| access.op == Op::Read, EIO);
            bad_sector(&plans[2], 100);
            let failed = device.write(UNIT, bytes(4096, 2)).await;
            assert_eq!(failed, Err(IoError::EIO), "without {missing:?}");
            assert_eq!(array.stats().given_up, 0);
            plans.iter().for_each(|plan| plan.clear());
            assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
        });
    }
}

/// The records lie on the log's drive and are rarely read: a bad sector is found at an opening, which needs none of them
/// as long as all members are there.
#[test]
fn unreadable_parity_record_fails_only_degraded_recovery() {
    let dirty = |state| Raid5State {
        clean: false,
        ..state
    };
    let slot = UNIT + 4096;
    for place in [3 * slot, 3 * slot + 4096 + 100] {
        for state in [CLEAN, dirty(CLEAN), without(0)] {
            let world = World::new(1, 5, 4 << 20);
            bad_sector(&world.plans[4], place);
            let array = world.open(4, UNIT, state, true).unwrap();
            let device: Rc<dyn Device> = Rc::new(array);
            world.rt.block_on(async move {
                device.write(0, bytes(LEN, 1)).await.unwrap();
                assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
            });
        }
        let world = World::new(1, 5, 4 << 20);
        bad_sector(&world.plans[4], place);
        let refused = world.open(4, UNIT, dirty(without(0)), true).err().unwrap();
        let text = refused.to_string();
        let begin = format!("the parity record on disk-4 at byte {} cannot be", 3 * slot);
        assert!(text.starts_with(&begin), "{text}");
    }
}

#[test]
fn write_refused_by_a_full_member_leaves_correct_parity() {
    for victim in 0..4 {
        let (world, array, device) = filled(4, CLEAN, false);
        let plan = world.plans[victim].clone();
        world.rt.block_on(async move {
            plan.set_room(Some(0));
            let first = device.write(0, bytes(UNIT as usize, 2)).await;
            let whole = device.write(0, bytes(3 * UNIT as usize, 3)).await;
            plan.set_room(None);
            assert_eq!(whole, Err(IoError::ENOSPC));
            assert_eq!(array.state().missing, None, "no failure of the member");
            assert!(first.is_ok() || first == Err(IoError::ENOSPC));
            device.write(UNIT, bytes(4096, 4)).await.unwrap();
            assert_eq!(
                array.check_parity(|_, _| {}).await,
                Ok(0),
                "member {victim}"
            );
            assert!(read(&device, UNIT, 4096).await[..] == pattern(4096, 4)[..]);
        });
    }
}

/// A write of several whole stripes, which a member refuses: all of them are torn, not only the first.
#[test]
fn each_stripe_of_a_refused_write_is_corrected() {
    for victim in 0..4 {
        let (world, array, device) = filled(4, CLEAN, false);
        let plan = world.plans[victim].clone();
        world.rt.block_on(async move {
            plan.set_room(Some(0));
            let row = array.stripes().row_bytes();
            let refused = device.write(0, bytes(3 * row as usize, 3)).await;
            assert_eq!(refused, Err(IoError::ENOSPC));
            plan.set_room(None);
            for stripe in [2, 1, 0] {
                let place = stripe * row + UNIT;
                device.write(place, bytes(512, 4)).await.unwrap();
            }
            let wrong = array.check_parity(|_, _| {}).await;
            assert_eq!(wrong, Ok(0), "member {victim}");
        });
    }
}

pub const EDQUOT: IoError = IoError { errno: 122 };

#[test]
fn a_full_member_stays_in_use_however_often_it_refuses() {
    for (victim, error) in (0..4).flat_map(|v| [IoError::ENOSPC, EDQUOT].map(|error| (v, error))) {
        let (world, array, device) = filled(4, CLEAN, false);
        let plan = world.plans[victim].clone();
        world.rt.block_on(async move {
            plan.on(|access| access.is_write(), Effect::Fail(error));
            // Stripe 0 has column 0 on member 0 and the parity on member 3. From the second write on it is torn.
            for _ in 0..3 {
                let written = device.write(0, bytes(4096, 2)).await;
                let concerned = victim == 0 || victim == 3;
                assert_eq!(written, if concerned { Err(error) } else { Ok(()) });
                assert_eq!(array.state().missing, None, "no failure of the member");
            }
            plan.clear();
            device.write(0, bytes(4096, 3)).await.unwrap();
            assert_changed(&array, 0, 3).await;
        });
    }
}

/// A refused write to a degraded stripe has a parity record, which restores the missing unit: at once, after a crash, and
/// when there is space again.
#[test]
fn a_full_member_of_a_degraded_array_loses_nothing() {
    for victim in 1..4 {
        let (world, array, device) = filled(4, without(0), true);
        let plan = world.plans[victim].clone();
        let own = array.clone();
        world.rt.block_on(async move {
            device.flush().await.unwrap();
            plan.set_room(Some(0));
            for round in 0..3 {
                let written = device.write(UNIT, bytes(4096, 2)).await;
                let full = Err(IoError::ENOSPC);
                assert_eq!(written, if victim == 2 { Ok(()) } else { full });
                // The unit of the missing member. It cannot be computed while the parity itself is refused.
                let found = device.read(0, BufPool::new(0).alloc(UNIT as usize)).await;
                match found {
                    Ok(found) => assert!(found[..] == pattern(LEN, 1)[..UNIT as usize]),
                    Err(error) => assert_eq!((error, victim), (IoError::ENOSPC, 3), "{round}"),
                }
                assert_eq!(own.failure(), None);
            }
        });
        let mut expected = pattern(LEN, 1);
        // The process ends here, and the member is still full.
        let after = World::of(2, world.world.crash().images(3));
        after.plans[victim].set_room(Some(0));
        let reopened = after.open(4, UNIT, world.kept.last(), true).unwrap();
        for (place, array) in [(&world, array), (&after, reopened)] {
            let device: Rc<dyn Device> = Rc::new(array.clone());
            let plan = place.plans[victim].clone();
            expected[UNIT as usize..][..4096].copy_from_slice(&pattern(4096, 5));
            let expected = expected[..].to_vec();
            place.rt.block_on(async move {
                plan.set_room(None);
                device.write(UNIT, bytes(4096, 5)).await.unwrap();
                assert!(
                    read(&device, 0, LEN).await[..] == expected[..],
                    "member {victim}"
                );
                assert_eq!(array.failure(), None);
            });
        }
    }
}

/// The next opening of a store that was closed in order trusts all parity.
#[test]
fn the_end_of_an_array_corrects_what_a_refused_write_has_torn() {
    for state in [CLEAN, without(0)] {
        let (world, array, device) = filled(4, state, true);
        let (plan, kept) = (world.plans[3].clone(), world.kept.clone());
        world.rt.block_on(async move {
            plan.set_room(Some(0));
            let refused = device.write(UNIT, bytes(4096, 2)).await;
            assert_eq!(refused, Err(IoError::ENOSPC));
            let closed = array.close().await;
            assert!(matches!(closed, Err(RaidError::Array { .. })), "{closed:?}");
            assert!(!kept.last().clean);
            plan.set_room(None);
            array.close().await.unwrap();
            assert!(kept.last().clean);
        });
        let state = world.kept.last();
        let array = world.open(4, UNIT, state, true).unwrap();
        let device: Rc<dyn Device> = Rc::new(array.clone());
        world.rt.block_on(async move {
            assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
            if array.state().missing.is_none() {
                array.fail(0).await.unwrap();
            }
            let found = read(&device, 0, UNIT as usize).await;
            assert!(found[..] == pattern(LEN, 1)[..UNIT as usize]);
        });
    }
}

#[test]
fn refused_writes_leave_parity_records_for_others() {
    let mut images = vec![DiskImage::new(4 << 20); 4];
    images.push(DiskImage::new(4 * (UNIT + 4096)));
    let world = World::of(1, images);
    let array = world.open(4, UNIT, without(0), true).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let plan = world.plans[3].clone();
    world.rt.block_on(async move {
        device.write(0, bytes(LEN, 1)).await.unwrap();
        plan.set_room(Some(0));
        let row = array.stripes().row_bytes();
        // Column 1 of stripes whose parity is on member 3: as many as there are records, and more.
        for stripe in 0..8 {
            let written = device.write(4 * stripe * row + UNIT, bytes(512, 2)).await;
            assert_eq!(written, Err(IoError::ENOSPC), "stripe {}", 4 * stripe);
        }
        plan.set_room(None);
        for stripe in 0..8 {
            let place = 4 * stripe * row + UNIT;
            device.write(place, bytes(512, 3)).await.unwrap();
            assert!(read(&device, place, 512).await[..] == pattern(512, 3)[..]);
        }
        assert!(read(&device, 0, UNIT as usize).await[..] == pattern(LEN, 1)[..UNIT as usize]);
        assert_eq!(array.failure(), None);
    });
}

/// Requests that share an update of a degraded stripe, but no bytes of its parity, have a parity record each. If all are refused,
/// the missing unit needs all of these records.
#[test]
fn each_record_of_a_refused_update_is_applied() {
    const RECORDS: u64 = 4;
    let mut images = vec![DiskImage::new(4 << 20); 4];
    images.push(DiskImage::new(RECORDS * (UNIT + 4096)));
    let world = World::of(1, images);
    let array = world.open(4, UNIT, without(0), true).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let (plan, rt) = (world.plans[3].clone(), world.rt.clone());
    world.rt.block_on(async move {
        device.write(0, bytes(LEN, 1)).await.unwrap();
        // Column 1 of stripe 0, each time at other places. The parity is on member 3, which is full. More rounds than there are
        // records.
        for round in 0..2 * RECORDS {
            plan.set_room(Some(0));
            let writes: Vec<_> = [512 * round, 8192 + 512 * round]
                .map(|at| {
                    let (own, data) = (device.clone(), bytes(512, round));
                    rt.spawn(async move { own.write(UNIT + at, data).await })
                })
                .into();
            for write in writes {
                assert_eq!(write.await, Err(IoError::ENOSPC), "round {round}");
            }
            plan.set_room(None);
            let found = read(&device, 0, UNIT as usize).await;
            let right = found[..] == pattern(LEN, 1)[..UNIT as usize];
            assert!(right, "the missing unit in round {round}");
        }
        for at in [4096, 8192 + 4096] {
            device.write(UNIT + at, bytes(512, 9)).await.unwrap();
        }
        assert_eq!(array.stats().coalesced, 2 * RECORDS);
        assert_eq!(array.failure(), None);
    });
}

#[test]
fn bad_sector_on_a_full_member_is_reconstructed() {
    let (world, array, device) = filled(4, CLEAN, false);
    let plan = world.plans[1].clone();
    world.rt.block_on(async move {
        plan.on(|access| access.op == Op::Read && access.touches(100), EIO);
        plan.set_room(Some(0));
        assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
        assert_eq!((array.state().missing, array.stats().repaired), (None, 0));
    });
}

#[test]
fn a_state_that_cannot_be_saved_fails_the_write() {
    struct Broken;
    impl StateSink for Broken {
        fn save(&self, _: Raid5State, _: &[bool]) -> Saving {
            Box::pin(std::future::ready(Err(IoError::ENOSPC)))
        }
    }
    let world = World::new(1, 3, 4 << 20);
    let given = world.members(3);
    let (rt, pool) = (world.rt.clone(), BufPool::new(0));
    world.rt.block_on(async move {
        let sink = Rc::new(Broken);
        let array = Raid5::open(&rt, &pool, given, options(UNIT, None), CLEAN, sink);
        let device: Rc<dyn Device> = Rc::new(array.await.unwrap());
        let failed = device.write(0, bytes(512, 1)).await;
        assert_eq!(
            failed,
            Err(IoError::ENOSPC),
            "the array is not known to be in use"
        );
        assert_eq!(read(&device, 0, 512).await[..], [0; 512]);
    });
}

#[test]
fn a_failed_record_fails_the_write_before_anything_is_changed() {
    let (world, array, device) = filled(4, without(2), true);
    let plan = world.plans[4].clone();
    world.rt.block_on(async move {
        plan.on(|access| access.is_write(), EIO);
        assert_eq!(device.write(0, bytes(4096, 2)).await, Err(IoError::EIO));
        assert!(read(&device, 0, LEN).await[..] == pattern(LEN, 1)[..]);
        plan.clear();
        device.write(0, bytes(4096, 3)).await.unwrap();
        assert!(read(&device, 0, 4096).await[..] == pattern(4096, 3)[..]);
        assert_eq!(array.failure(), None);
    });
}
