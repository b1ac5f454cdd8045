//! Rebuilds: under load, at a limited rate, from a watermark on, and onto replacements that do not fit or fail.

use crate::common::{CLEAN, Random, UNIT, World, bad_sector, bytes, options, pattern, read};
use crate::failures::EIO;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::raid::{
    MemberState, Missing, Raid5, Raid5State, RaidError, RebuildRate, Saving, StateSink,
};
use tonearm_device::{Device, DeviceIo, Filter};
use tonearm_rt::{Data, IoError, Op, Rt};
use tonearm_world::DiskImage;
use tonearm_world::filters::Effect;

const MEMBER: u64 = 160 << 20;

/// A degraded array with some content, and a replacement after its members.
fn degraded(members: usize, member_bytes: u64) -> (World, Raid5) {
    let world = World::new(7, members + 1, member_bytes);
    let array = world.open(members, UNIT, CLEAN, false).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let failing = array.clone();
    world.rt.block_on(async move {
        fill(&device).await;
        failing.fail(1).await.unwrap();
    });
    (world, array)
}

async fn fill(device: &Rc<dyn Device>) {
    for place in 0..device.size_bytes() / (4 << 20) {
        let content = bytes(1 << 20, place);
        device.write(place * (4 << 20), content).await.unwrap();
    }
}

async fn assert_content(array: &Raid5) {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    for place in 0..device.size_bytes() / (4 << 20) {
        let found = read(&device, place * (4 << 20), 1 << 20).await;
        assert!(found[..] == pattern(1 << 20, place)[..], "place {place}");
    }
}

async fn rebuild_all(array: &Raid5) -> Result<(), RaidError> {
    array.rebuild(&RebuildRate::default(), |_, _| {}).await
}

/// A rebuild restores all content and leaves the parity right.
async fn assert_rebuilds(array: &Raid5) {
    rebuild_all(array).await.unwrap();
    assert_eq!(array.state().missing, None);
    assert_content(array).await;
    assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
}

#[test]
fn clients_continue_during_a_rebuild_and_its_rate_can_be_set() {
    let (world, array) = degraded(4, 32 << 20);
    array.replace(world.devices[4].clone()).unwrap();
    let rt = world.rt.clone();
    rt.clone().block_on(async move {
        let (rate, rebuilding) = (RebuildRate::new(64 << 20), array.clone());
        let own = rate.clone();
        let at = Rc::new(Cell::new(0));
        let (seen, clock) = (at.clone(), rt.clone());
        let rebuild = rt.spawn(async move {
            let begun = clock.now();
            let done = rebuilding.rebuild(&own, |done, _| seen.set(done)).await;
            done.map(|()| clock.now().since(begun))
        });
        let device: Rc<dyn Device> = Rc::new(array.clone());
        let (mut rng, mut operations, mut slowest) = (Random(3), 0, Nanos(0));
        while array.state().missing.is_some() {
            // A place that the initial content does not cover, on either side of the watermark.
            let place = rng.below(device.size_bytes() / (4 << 20));
            let offset = place * (4 << 20) + (2 << 20) + rng.below(256) * 4096;
            let begun = rt.now();
            let content = rng.next();
            device.write(offset, bytes(4096, content)).await.unwrap();
            assert!(read(&device, offset, 4096).await[..] == pattern(4096, content)[..]);
            slowest = slowest.max(rt.now().since(begun));
            operations += 1;
            if operations == 100 {
                assert!(
                    at.get() > 0 && at.get() < array.stripes().rows / 2,
                    "{}",
                    at.get()
                );
                rate.set(0);
            }
        }
        let took = rebuild.await.unwrap();
        // At 64 MiB/s, 32 MiB would take half a second.
        assert!(took < Nanos::from_millis(400), "{took:?}");
        assert!(operations > 100, "{operations}");
        assert!(slowest < Nanos::from_millis(20), "{slowest:?}");
        assert_content(&array).await;
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
    });
}

#[test]
fn a_rebuild_continues_at_the_saved_watermark() {
    let (world, array) = degraded(3, MEMBER);
    array.replace(world.devices[3].clone()).unwrap();
    let rebuilding = array.clone();
    let rt = world.rt.clone();
    world.rt.block_on(async move {
        let rate = RebuildRate::new(1 << 30);
        let rebuild = rt.spawn(async move { rebuilding.rebuild(&rate, |_, _| {}).await });
        while array.state().missing.unwrap().rebuilt_rows < (140 << 20) / UNIT {
            rt.sleep(Nanos::from_millis(1)).await;
        }
        drop(rebuild);
    });
    // The process ends here. The rebuild makes 64 MiB at a time durable and then saves its watermark.
    let kept = world.kept.last();
    let saved = Missing {
        member: 1,
        rebuilt_rows: (128 << 20) / UNIT,
    };
    assert_eq!((kept.missing, kept.clean), (Some(saved), false));
    let after = World::of(8, world.world.crash().images(3));
    let replaced = [0, 3, 2]
        .map(|index| Some(after.devices[index].clone()))
        .to_vec();
    let array = after
        .open_given(replaced, UNIT, kept, false, false)
        .unwrap();
    let replacement = after.counted[3].clone();
    after.rt.block_on(async move {
        assert_content(&array).await;
        let restored = || [Op::Write, Op::Punch].map(|op| replacement.count(op).bytes);
        let before: u64 = restored().iter().sum();
        rebuild_all(&array).await.unwrap();
        assert_eq!(
            restored().iter().sum::<u64>() - before,
            32 << 20,
            "only the rest"
        );
        assert_content(&array).await;
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
        assert_eq!(array.state().missing, None);
    });
}

#[test]
fn a_replacement_that_does_not_fit_is_refused() {
    let world = World::of(1, {
        let mut images = vec![DiskImage::new(4 << 20); 3];
        images.push(DiskImage::new((4 << 20) - 512));
        images
    });
    let array = world.open(3, UNIT, CLEAN, false).unwrap();
    let refused = |device: usize, why| {
        let refused = array.replace(world.devices[device].clone());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    };
    refused(3, "no member is missing");
    let failing = array.clone();
    let failed = async move { failing.fail(0).await };
    world.rt.block_on(failed).unwrap();
    refused(3, "4193792 bytes of the 4194304");
    array.replace(world.devices[0].clone()).unwrap();
    refused(0, "another replacement");
}

#[test]
fn a_replacement_that_fails_is_replaced_again() {
    let (world, array) = degraded(4, 16 << 20);
    array.replace(world.devices[4].clone()).unwrap();
    let plan = world.plans[4].clone();
    plan.on(
        |access| access.op != Op::Read && access.touches(9 << 20),
        EIO,
    );
    let (spare, kept) = (world.devices[1].clone(), world.kept.clone());
    world.rt.block_on(async move {
        let failed = rebuild_all(&array).await;
        assert!(
            matches!(failed, Err(RaidError::RebuildFailed { .. })),
            "{failed:?}"
        );
        assert_eq!(array.failure(), None);
        assert_content(&array).await;
        assert_eq!(kept.last().missing.unwrap().rebuilt_rows, 0);
        array.replace(spare).unwrap();
        assert_rebuilds(&array).await;
        assert_eq!(
            kept.last(),
            Raid5State {
                clean: false,
                missing: None
            }
        );
        array.close().await.unwrap();
        assert_eq!(kept.last(), CLEAN);
    });
}

#[test]
fn rebuild_punches_zeroes_and_erases_old_content() {
    for can_punch in [true, false] {
        let (world, array) = degraded(4, 16 << 20);
        let (spare, counted) = (world.devices[4].clone(), world.counted[4].clone());
        if !can_punch {
            let refuses = Effect::Fail(tonearm_rt::IoError::EOPNOTSUPP);
            world.plans[4].on(|access| access.op == Op::Punch, refuses);
        }
        world.rt.block_on(async move {
            for place in 0..16 {
                let old = bytes(1 << 20, 1000 + place);
                spare.write(place << 20, old).await.unwrap();
            }
            let before = counted.count(Op::Write).bytes;
            array.replace(spare).unwrap();
            assert_rebuilds(&array).await;
            // A quarter of the array has content.
            let written = counted.count(Op::Write).bytes - before;
            let expected = if can_punch {
                1 << 20..6 << 20
            } else {
                16 << 20..(16 << 20) + 1
            };
            assert!(expected.contains(&written), "{written}");
        });
    }
}

#[test]
fn rebuild_continues_after_a_full_replacement() {
    let (world, array) = degraded(4, 16 << 20);
    array.replace(world.devices[4].clone()).unwrap();
    let (plan, kept) = (world.plans[4].clone(), world.kept.clone());
    plan.set_room(Some(2 << 20));
    world.rt.block_on(async move {
        let refused = rebuild_all(&array).await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.starts_with("rebuild: disk-4 refused a write"),
            "{text}"
        );
        let saved = kept.last().missing.unwrap();
        assert!(
            ((2 << 20) / UNIT..array.stripes().rows).contains(&saved.rebuilt_rows),
            "{saved:?}"
        );
        assert_content(&array).await;
        plan.clear();
        assert_rebuilds(&array).await;
    });
}

#[test]
fn a_second_unreadable_place_stops_the_rebuild_and_is_named() {
    let (world, array) = degraded(4, 16 << 20);
    array.replace(world.devices[4].clone()).unwrap();
    let plan = world.plans[2].clone();
    let bad = 5 * UNIT + 100;
    plan.on(
        move |access| access.op == Op::Read && access.touches(bad),
        EIO,
    );
    world.rt.block_on(async move {
        let failed = rebuild_all(&array).await.unwrap_err();
        let text = failed.to_string();
        assert!(
            text.starts_with("stripe 5 cannot be reconstructed: disk-2 at byte"),
            "{text}"
        );
        assert_eq!(array.state().missing.unwrap().rebuilt_rows, 5);
        assert_eq!(array.failure(), None);
        // It becomes readable again, for example after its cable was replaced.
        plan.clear();
        rebuild_all(&array).await.unwrap();
        assert_content(&array).await;
    });
}

#[test]
fn a_rebuild_may_skip_what_cannot_be_read_and_names_it() {
    let (world, array) = degraded(4, 16 << 20);
    array.replace(world.devices[4].clone()).unwrap();
    // The parity of stripe 5, from which column 2 on the missing member 1 would be computed.
    bad_sector(&world.plans[2], 5 * UNIT + 100);
    let (rt, kept) = (world.rt.clone(), world.kept.clone());
    rt.block_on(async move {
        let rate = RebuildRate::default();
        let failed = array.rebuild(&rate, |_, _| {}).await;
        assert!(matches!(failed, Err(RaidError::Unreadable { .. })));
        assert_eq!(
            kept.last().missing.unwrap().rebuilt_rows,
            5,
            "the restored stripes are saved"
        );
        let rate = rate.skip_unreadable();
        let failure = array.rebuild(&rate, |_, _| {}).await.unwrap_err();
        let text = failure.to_string();
        let place = format!("stripe 5, disk-2 at byte {};", 5 * UNIT);
        assert!(
            matches!(failure, RaidError::RebuiltInPart { count: 1, .. }),
            "{text}"
        );
        assert!(text.contains(&place), "{text}");
        assert_eq!(kept.last().missing, None);
        assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
        let device: Rc<dyn Device> = Rc::new(array.clone());
        let lost = (5 * 3 + 2) * UNIT as usize;
        let mut found = read(&device, 0, 1 << 20).await;
        let expected = pattern(1 << 20, 0);
        assert!(found[lost..lost + 4096] != expected[lost..lost + 4096]);
        found[lost..lost + 4096].copy_from_slice(&expected[lost..lost + 4096]);
        assert!(found[..] == expected[..]);
        // Any member may fail now.
        array.fail(0).await.unwrap();
        let mut found = read(&device, 0, 1 << 20).await;
        found[lost..lost + 4096].copy_from_slice(&expected[lost..lost + 4096]);
        assert!(found[..] == expected[..]);
    });
}

#[test]
fn a_new_content_above_the_watermark_is_not_lost() {
    let (world, array) = degraded(3, 8 << 20);
    array.replace(world.devices[3].clone()).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    world.rt.block_on(async move {
        let end = device.size_bytes() - (1 << 20);
        device.write(end, bytes(1 << 20, 77)).await.unwrap();
        rebuild_all(&array).await.unwrap();
        array.fail(0).await.unwrap();
        let found = device
            .read(end, BufPool::new(0).alloc(1 << 20))
            .await
            .unwrap();
        assert!(found[..] == pattern(1 << 20, 77)[..]);
    });
}

/// A drive that, from a moment on, answers only after a long time, with an error.
struct Hangs {
    inner: Rc<dyn Device>,
    rt: Rt,
    hangs: Rc<Cell<bool>>,
}

const HANGS_FOR: Nanos = Nanos::from_millis(500);

impl Filter for Hangs {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if !self.hangs.get() {
            return self.inner.io(op, offset, len, data);
        }
        let timeout = self.rt.sleep(HANGS_FOR);
        Box::pin(async move {
            timeout.await;
            (Err(IoError::EIO), data)
        })
    }
}

/// A drive that times out has requests under way long after its failure. Their errors are not those of its replacement.
#[test]
fn late_errors_of_a_failed_member_do_not_fail_its_replacement() {
    let world = World::new(7, 5, 16 << 20);
    let (rt, hangs) = (world.rt.clone(), Rc::new(Cell::new(false)));
    let mut members = world.members(4);
    members[1] = Some(Rc::new(Hangs {
        inner: world.devices[1].clone(),
        rt: rt.clone(),
        hangs: hangs.clone(),
    }));
    let array = world
        .open_given(members, UNIT, CLEAN, false, false)
        .unwrap();
    let spare = world.devices[4].clone();
    rt.clone().block_on(async move {
        let device: Rc<dyn Device> = Rc::new(array.clone());
        fill(&device).await;
        hangs.set(true);
        let begun = rt.now();
        // A part of stripe 2 is on member 1, and so is one of stripe 6, which is written as a whole.
        let late = device.read((2 * 3 + 1) * UNIT, BufPool::new(0).alloc(UNIT as usize));
        let stripe = 3 * UNIT as usize;
        let late_write = device.write(6 * 3 * UNIT, bytes(stripe, 99));
        rt.sleep(Nanos::from_millis(1)).await;
        array.fail(1).await.unwrap();
        array.replace_and_save(spare, || {}).await.unwrap();
        assert!(rt.now().since(begun) < HANGS_FOR);
        let late = late.await.unwrap();
        late_write.await.unwrap();
        assert!(rt.now().since(begun) >= HANGS_FOR, "it was on member 1");
        let within = (2 * 3 + 1) * UNIT as usize;
        assert!(late[..] == pattern(1 << 20, 0)[within..within + UNIT as usize]);
        assert_eq!(
            array.member_states()[1],
            MemberState::Rebuilding { rebuilt_rows: 0 }
        );
        let found = read(&device, 6 * 3 * UNIT, stripe).await;
        assert!(found[..] == pattern(stripe, 99)[..]);
        let old = &pattern(1 << 20, 0)[6 * stripe..7 * stripe];
        let old = Data::whole(BufPool::new(0).copy_of(old));
        device.write(6 * 3 * UNIT, old).await.unwrap();
        assert_rebuilds(&array).await;
    });
}

/// A sink that takes its time, and knows whether a save is under way.
struct Slow {
    rt: Rt,
    saving: Rc<Cell<bool>>,
}

impl StateSink for Slow {
    fn save(&self, _: Raid5State, _: &[bool]) -> Saving {
        let (sleep, saving) = (self.rt.sleep(Nanos::from_millis(5)), self.saving.clone());
        saving.set(true);
        Box::pin(async move {
            sleep.await;
            saving.set(false);
            Ok(Vec::new())
        })
    }
}

/// Such a save has the identity of the failed member, and would put it over that of the replacement.
#[test]
fn no_save_is_under_way_when_a_replacement_takes_its_place() {
    let world = World::new(3, 4, 4 << 20);
    let (rt, saving) = (world.rt.clone(), Rc::new(Cell::new(false)));
    let sink = Rc::new(Slow {
        rt: rt.clone(),
        saving: saving.clone(),
    });
    let (members, spare, pool) = (
        world.members(3),
        world.devices[3].clone(),
        BufPool::new(1 << 20),
    );
    rt.clone().block_on(async move {
        let array = Raid5::open(&rt, &pool, members, options(UNIT, None), CLEAN, sink).await;
        let array = array.unwrap();
        let failing = array.clone();
        let failed = rt.spawn(async move { failing.fail(1).await });
        rt.sleep(Nanos::from_millis(1)).await;
        assert!(saving.get());
        let (at_place, placed) = (saving.clone(), Rc::new(Cell::new(false)));
        let own = placed.clone();
        let replaced = array.replace_and_save(spare, move || {
            assert!(!at_place.get(), "a save is under way");
            own.set(true);
        });
        replaced.await.unwrap();
        assert!(placed.get());
        failed.await.unwrap();
    });
}

#[test]
fn a_replacement_that_is_being_rebuilt_is_not_replaced() {
    let (world, array) = degraded(3, 32 << 20);
    array.replace(world.devices[3].clone()).unwrap();
    let (rt, other) = (world.rt.clone(), world.devices[1].clone());
    rt.clone().block_on(async move {
        let (rate, rebuilding) = (RebuildRate::new(16 << 20), array.clone());
        let own = rate.clone();
        let rebuild = rt.spawn(async move { rebuilding.rebuild(&own, |_, _| {}).await });
        rt.sleep(Nanos::from_millis(100)).await;
        let refused = array.replace(other.clone()).unwrap_err().to_string();
        assert!(refused.contains("is being rebuilt"), "{refused}");
        let second = rebuild_all(&array).await;
        assert_eq!(second, Err(RaidError::RebuildRunning));
        rate.set(0);
        rebuild.await.unwrap();
        let refused = array.replace(other).unwrap_err().to_string();
        assert!(refused.contains("no member is missing"), "{refused}");
        assert_content(&array).await;
    });
}
