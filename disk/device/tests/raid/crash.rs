//! Power cuts in the middle of stripes, at the level of the device: a cut does not change data that was not being
//! written.
//!
//! The writer has a log, as the engine has. After a cut it writes the interrupted writes again, and informs the array
//! where they were. Everything else must read as before, also with any single member missing.

use crate::common::{
    self, CLEAN, Kept, Random, World, bytes, options, pattern, read, recover_all, without,
};
use crate::failures::EIO;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::raid::{
    ARRAY_LOST, Raid5, Raid5Options, Raid5State, RaidError, RaidStats, RebuildRate,
};
use tonearm_device::{Device, DeviceIo};
use tonearm_rt::{Data, IoError, Op, Rt};
use tonearm_world::filters::{Access, Effect};
use tonearm_world::{Crash, DiskImage};

pub(crate) const UNIT: u64 = 4096;
pub(crate) const PIECE: u64 = 512;
const MEMBER: u64 = 16 * UNIT;

/// What the test knows of the array's content: for each piece the seed of its durable content, and the content that it
/// may have instead.
#[derive(Clone, Default)]
pub(crate) struct Log {
    durable: BTreeMap<u64, u64>,
    /// Written or being written since the last flush. These writes are in the writer's log.
    pub open: BTreeMap<u64, u64>,
}

pub(crate) struct Cut {
    pub crash: Crash,
    pub log: Log,
    pub state: Raid5State,
}

/// Random writes and flushes on an array of `members`, in `state`; a cut at every change of a device.
pub(crate) fn cuts(
    seed: u64,
    members: usize,
    images: Vec<DiskImage>,
    state: Raid5State,
    always: bool,
) -> (Vec<Cut>, RaidStats) {
    let world = World::of(seed, images);
    world.kept.0.borrow_mut().push(state);
    let given = world.members(members);
    let array = world.open_given(given, UNIT, state, true, always).unwrap();
    let log = Rc::new(RefCell::new(Log::default()));
    let found: Rc<RefCell<Vec<Cut>>> = Rc::default();
    let (cuts, seen, kept): (_, _, Kept) = (found.clone(), log.clone(), world.kept.clone());
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let pieces = array.size_bytes() / PIECE;
    let mut rng = Random(seed);
    let array_too = array.clone();
    let world = Rc::new(world);
    let rt = world.rt.clone();
    rt.block_on(async move {
        // All content at the start is durable.
        fill(&device).await;
        log.borrow_mut().durable = filled(&array_too);
        world.world.on_io(move |_, crash| {
            cuts.borrow_mut().push(Cut {
                crash: crash.clone(),
                log: seen.borrow().clone(),
                state: kept.last(),
            });
        });
        if let Some(spare) = world.devices.get(members + 1) {
            array_too.replace(spare.clone()).unwrap();
            let rebuilding = array_too.clone();
            world.rt.spawn(async move {
                let rate = RebuildRate::new(40 << 20);
                rebuilding.rebuild(&rate, |_, _| {}).await.unwrap();
            });
        }
        for round in 0..4 {
            let mut under_way = Vec::new();
            for _ in 0..1 + rng.below(5) {
                let most = [2, 9, 30][rng.below(3) as usize];
                let count = 1 + rng.below(most);
                let first = rng.below(pieces - count);
                let taken = (first..first + count).any(|p| log.borrow().open.contains_key(&p));
                if taken {
                    continue;
                }
                let content = 1_000_000 + rng.next() % 1_000_000;
                let mut buf = BufPool::new(0).alloc((count * PIECE) as usize);
                for (at, part) in (0..).zip(buf.chunks_exact_mut(PIECE as usize)) {
                    part.copy_from_slice(&pattern(PIECE as usize, content + at));
                    log.borrow_mut().open.insert(first + at, content + at);
                }
                under_way.push(device.write(first * PIECE, Data::whole(buf)));
                if rng.below(3) == 0 {
                    under_way.pop().unwrap().await.unwrap();
                }
            }
            for write in under_way {
                write.await.unwrap();
            }
            if round != 1 {
                device.flush().await.unwrap();
                let mut log = log.borrow_mut();
                let open = std::mem::take(&mut log.open);
                log.durable.extend(open);
            }
        }
        world.world.clear_hook();
    });
    let cuts = found.take();
    (cuts, array.stats())
}

/// Opens what a cut left; `lost` is a member that died with the power.
pub(crate) fn recover(
    cut: &Cut,
    members: usize,
    seed: u64,
    lost: Option<usize>,
    always: bool,
) -> (Rc<World>, Raid5) {
    let world = World::of(seed, cut.crash.images(seed));
    let given = world.members_without(members, lost);
    let array = world
        .open_given(given, UNIT, cut.state, true, always)
        .unwrap();
    let world = Rc::new(world);
    (world, array)
}

async fn replay(array: &Raid5, log: &Log) {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let changed = log.open.keys();
    let changed = changed.map(|piece| piece * PIECE..(piece + 1) * PIECE);
    common::recover(array, changed).await.unwrap();
    assert!(!array.is_suspect());
    assert_kept(array, log).await;
    for (piece, content) in &log.open {
        device
            .write(piece * PIECE, bytes(PIECE as usize, *content))
            .await
            .unwrap();
    }
    device.flush().await.unwrap();
}

/// Pieces that were not being written and have changed.
async fn differing(array: &Raid5, log: &Log) -> u64 {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let mut differing = 0;
    for (piece, content) in &log.durable {
        if !log.open.contains_key(piece) {
            let found = read(&device, piece * PIECE, PIECE as usize).await;
            let expected = pattern(PIECE as usize, *content);
            differing += u64::from(found[..] != expected[..]);
        }
    }
    differing
}

async fn assert_kept(array: &Raid5, log: &Log) {
    assert_eq!(
        differing(array, log).await,
        0,
        "pieces beside the writes are lost"
    );
}

async fn assert_all(array: &Raid5, log: &Log) {
    let mut log = log.clone();
    let open = std::mem::take(&mut log.open);
    log.durable.extend(open);
    assert_kept(array, &log).await;
}

/// The writer recovers the array and writes again what was under way; then all is there.
fn assert_nothing_lost(world: &World, array: Raid5, cut: &Cut) {
    let log = cut.log.clone();
    world.rt.block_on(async move {
        replay(&array, &log).await;
        assert_all(&array, &log).await;
    });
}

pub(crate) fn blank(members: usize) -> Vec<DiskImage> {
    let mut images = vec![DiskImage::new(MEMBER); members];
    images.push(DiskImage::new(8 * (UNIT + 4096)));
    images
}

#[test]
fn after_a_cut_any_member_may_fail() {
    let mut points = 0;
    for seed in 0..4 {
        let members = 3 + seed as usize % 2;
        let (cuts, _) = cuts(seed, members, blank(members), CLEAN, false);
        for (at, cut) in cuts.iter().enumerate() {
            let (world, array) = recover(cut, members, seed + at as u64, None, false);
            points += 1;
            let log = cut.log.clone();
            let own = world.clone();
            world.rt.block_on(async move {
                replay(&array, &log).await;
                assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
                array.close().await.unwrap();
                for member in 0..members {
                    let (rt, pool) = (own.rt.clone(), BufPool::new(0));
                    let given = own.members_without(members, Some(member));
                    let options = options(UNIT, None);
                    let (state, kept) = (own.kept.last(), Rc::new(Kept::default()));
                    let opened = Raid5::open(&rt, &pool, given, options, state, kept);
                    assert_all(&opened.await.unwrap(), &log).await;
                }
            });
        }
    }
    assert!(points > 300, "{points} cuts");
}

#[test]
fn power_cut_in_a_degraded_write_spares_other_data() {
    let mut points = 0;
    for seed in 10..16 {
        let members = 3 + seed as usize % 3;
        let missing = seed as usize % members;
        let state = without(missing);
        let (cuts, stats) = cuts(seed, members, blank(members), state, false);
        assert!(stats.records > 0 && stats.unprotected == 0);
        for (at, cut) in cuts.iter().enumerate() {
            let (world, array) = recover(cut, members, seed + at as u64, None, false);
            points += 1;
            assert_nothing_lost(&world, array, cut);
        }
    }
    assert!(points > 300, "{points} cuts");
}

#[test]
fn full_recording_survives_member_loss_in_a_power_cut() {
    let mut points = 0;
    for seed in 20..24 {
        let members = 3 + seed as usize % 3;
        let (cuts, _) = cuts(seed, members, blank(members), CLEAN, true);
        for (at, cut) in cuts.iter().enumerate() {
            let lost = Some(at % members);
            let (world, array) = recover(cut, members, seed + at as u64, lost, true);
            points += 1;
            assert_nothing_lost(&world, array, cut);
        }
    }
    assert!(points > 300, "{points} cuts");
}

/// Stripes that were rebuilt after the last save of the rebuild are degraded again after a cut.
#[test]
fn power_cut_during_a_rebuild_loses_nothing() {
    let mut points = 0;
    for seed in 40..44 {
        let (members, missing) = (4, seed as usize % 4);
        let mut images = blank(members);
        images.push(DiskImage::new(MEMBER));
        let (cuts, _) = cuts(seed, members, images, without(missing), false);
        for (at, cut) in cuts.iter().enumerate() {
            let seed = seed + at as u64;
            let world = World::of(seed, cut.crash.images(seed));
            let mut given = world.members(members);
            // The old device is gone. The replacement takes its place if the saved state names it.
            given[missing] = match cut.state.missing {
                Some(missing) if missing.rebuilt_rows == 0 => None,
                _ => Some(world.devices[members + 1].clone()),
            };
            let array = world
                .open_given(given, UNIT, cut.state, true, false)
                .unwrap();
            points += 1;
            assert_nothing_lost(&world, array, cut);
        }
    }
    assert!(points > 300, "{points} cuts");
}

/// Every piece, with the content that [`fill`] gives it.
fn filled(array: &Raid5) -> BTreeMap<u64, u64> {
    let pieces = array.size_bytes() / PIECE;
    (0..pieces).map(|piece| (piece, piece)).collect()
}

/// Writes all pieces durably.
async fn fill(device: &Rc<dyn Device>) {
    for piece in 0..device.size_bytes() / PIECE {
        let written = device.write(piece * PIECE, bytes(PIECE as usize, piece));
        written.await.unwrap();
    }
    device.flush().await.unwrap();
}

/// A power cut now, of an array of which `log` has the content, loses nothing.
fn assert_cut_loses_nothing(world: &World, members: usize, log: Log) {
    let cut = Cut {
        crash: world.world.crash(),
        log,
        state: world.kept.last(),
    };
    let (after, array) = recover(&cut, members, 4, None, false);
    assert_nothing_lost(&after, array, &cut);
}

/// Opens what a cut left, lets `member` fail all requests that are as `fails` says, and recovers, after `writes` of the writer's
/// open writes. The world, the array, and how that ended.
fn recover_failing(
    cut: &Cut,
    members: usize,
    (member, fails): (usize, fn(&Access) -> bool),
    writes: usize,
    accept_loss: bool,
) -> (World, Raid5, Result<(), IoError>) {
    let world = World::of(7, cut.crash.images(7));
    world.kept.0.borrow_mut().push(cut.state);
    let options = Raid5Options {
        accept_loss,
        ..options(UNIT, Some(world.devices[members].clone()))
    };
    let (rt, given, kept) = (
        world.rt.clone(),
        world.members(members),
        Rc::new(world.kept.clone()),
    );
    let (plan, log, state) = (world.plans[member].clone(), cut.log.clone(), cut.state);
    let (array, ended) = world.rt.block_on(async move {
        let pool = BufPool::new(0);
        let opened = Raid5::open(&rt, &pool, given, options, state, kept);
        let array = opened.await.unwrap();
        plan.on(fails, EIO);
        let device: Rc<dyn Device> = Rc::new(array.clone());
        let mut ended = Ok(());
        for (piece, content) in log.open.iter().take(writes) {
            let write = device.write(piece * PIECE, bytes(PIECE as usize, *content));
            ended = ended.and(write.await);
        }
        let recovered = recover_all(&array);
        ended = ended.and(recovered.await.map_err(|error| error.io_error()));
        (array, ended)
    });
    (world, array, ended)
}

/// A member fails after a cut, before the parity is corrected. Its units in interrupted stripes cannot be computed then. So
/// the failure is not saved, and with the member there again nothing is lost. A caller that accepts the loss goes on.
#[test]
fn member_failing_before_parity_correction_is_used_again() {
    let mut failures = 0;
    for seed in 70..74 {
        let members = 3 + seed as usize % 3;
        let (cuts, _) = cuts(seed, members, blank(members), CLEAN, false);
        for (at, cut) in cuts.iter().enumerate() {
            let (member, writes) = (at % members, at % 3);
            // All requests, or writes, or reads: what is computed then may be wrong, and parity that is made of it, too.
            let fails: fn(&Access) -> bool = match at / members % 3 {
                0 => |_| true,
                1 => |access| access.is_write(),
                _ => |access| access.op == Op::Read,
            };
            let failing = (member, fails);
            let (world, array, ended) = recover_failing(cut, members, failing, writes, false);
            if world.plans[member].acted() == 0 {
                assert_eq!((ended, array.failure()), (Ok(()), None));
                continue;
            }
            failures += 1;
            assert_eq!(ended, Err(ARRAY_LOST));
            let failure = array.failure();
            assert!(
                matches!(failure, Some(RaidError::Unrecovered { .. })),
                "{failure:?}"
            );
            let after = Cut {
                crash: world.world.crash(),
                log: cut.log.clone(),
                state: world.kept.last(),
            };
            assert_eq!(after.state.missing, None);
            let (world, array) = recover(&after, members, seed + at as u64, None, false);
            assert_nothing_lost(&world, array, &after);
            let (world, array, ended) = recover_failing(cut, members, failing, writes, true);
            assert_eq!((ended, array.failure()), (Ok(()), None));
            let missing = world.kept.last().missing.map(|missing| missing.member);
            assert_eq!(missing, Some(member));
        }
    }
    assert!(failures > 100, "{failures} failures");
}

/// Some reads of a member fail while the parity is corrected, and others do not. Either the recovery ends, or all parity is right
/// afterwards: none is taken for right because it gives the unit that could not be read.
#[test]
fn parity_is_not_corrected_from_units_that_it_gives_itself() {
    let (members, mut ended, mut corrected) = (4, 0, 0);
    for seed in 80..84 {
        let (cuts, _) = cuts(seed, members, blank(members), CLEAN, false);
        for (at, cut) in cuts.iter().enumerate() {
            let (world, array) = recover(cut, members, at as u64, None, false);
            let (reads, most) = (Cell::new(0), at as u64 % 32);
            let fails = move |access: &Access| {
                reads.set(reads.get() + u64::from(access.op == Op::Read));
                access.op == Op::Read && reads.get() <= most
            };
            world.plans[seed as usize % members].on(fails, EIO);
            let lost = world.rt.block_on(async move {
                let recovered = recover_all(&array).await;
                if let Some(failure) = array.failure() {
                    assert!(
                        matches!(failure, RaidError::Unrecovered { .. }),
                        "{failure}"
                    );
                    return true;
                }
                assert_eq!(recovered, Ok(()));
                let wrong = array.check_parity(|_, _| {}).await;
                assert_eq!(wrong, Ok(0), "seed {seed}, cut {at}");
                false
            });
            ended += u64::from(lost);
            corrected += u64::from(!lost);
        }
    }
    assert!(
        ended > 20 && corrected > 20,
        "{ended} ended, {corrected} corrected"
    );
}

/// A failure of two members.
#[derive(Clone, Copy, Debug)]
enum Second {
    /// The second one fails a write of an update that began before the first one failed.
    Write,
    /// The second one drops a write from its cache, and says so in the flush before the failure of the first is saved.
    Flush,
}

/// Two members fail together, as when a controller resets, and both answer again afterwards. Nothing may say that the
/// first is missing: what the second has dropped would make the first one's blocks uncomputable.
#[test]
fn two_members_that_fail_together_and_come_back_lose_nothing() {
    for second in [Second::Write, Second::Flush] {
        let (members, first_member, second_member) = (4, 0, 1);
        let world = World::new(3, members + 1, MEMBER);
        let array = world.open(members, UNIT, CLEAN, true).unwrap();
        let device: Rc<dyn Device> = Rc::new(array.clone());
        let plans = [first_member, second_member].map(|member| world.plans[member].clone());
        let row = array.stripes().row_bytes();
        let mut log = Log::default();
        let mut change = |offset: u64| {
            log.open.insert(offset / PIECE, 1000 + offset);
            bytes(PIECE as usize, 1000 + offset)
        };
        // The stripes 0 and 4 have their parity on member 3, and their columns on 0, 1 and 2.
        let (of_first, of_second) = (change(0), change(4 * row + UNIT));
        log.durable = filled(&array);
        world.rt.block_on(async move {
            fill(&device).await;
            plans[0].once(|access| access.is_write(), EIO);
            match second {
                Second::Write => plans[1].once(|access| access.is_write(), EIO),
                Second::Flush => {
                    plans[1].once(|access| access.is_write(), Effect::Lose);
                    plans[1].once(|access| access.op == Op::Flush, EIO);
                }
            }
            let both = [
                device.write(4 * row + UNIT, of_second),
                device.write(0, of_first),
            ];
            for write in both {
                assert_eq!(write.await, Err(ARRAY_LOST), "{second:?}");
            }
            assert_eq!((plans[0].acted(), plans[1].acted() > 0), (1, true));
        });
        assert_eq!(world.kept.last().missing, None, "{second:?}");
        assert_cut_loses_nothing(&world, members, log);
    }
}

/// In a degraded stripe, a flush that loses the array makes no write durable, so the write's record is still needed.
#[test]
fn failed_flush_keeps_parity_records() {
    let (members, missing, second) = (4, 0, 1);
    let world = World::new(3, members + 1, MEMBER);
    let state = without(missing);
    let array = world.open(members, UNIT, state, true).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let plan = world.plans[second].clone();
    let mut log = Log {
        durable: filled(&array),
        ..Log::default()
    };
    // Stripe 0 has its columns on 0, 1 and 2. Member 0 is missing.
    log.open.insert(UNIT / PIECE, 5000);
    world.rt.block_on(async move {
        fill(&device).await;
        plan.once(|access| access.is_write(), Effect::Lose);
        plan.once(|access| access.op == Op::Flush, EIO);
        let first = device.write(UNIT, bytes(PIECE as usize, 5000));
        first.await.unwrap();
        // The same bytes again: the first write must be durable before its record is erased.
        let again = device.write(UNIT, bytes(PIECE as usize, 5000));
        assert_eq!(again.await, Err(ARRAY_LOST));
        assert_eq!(plan.acted(), 2);
    });
    assert_cut_loses_nothing(&world, members, log);
}

/// An array that was not closed, with all of its members.
const DIRTY: Raid5State = Raid5State {
    clean: false,
    missing: None,
};

#[test]
fn recovery_continues_past_an_uncomputable_stripe() {
    let (cuts, _) = cuts(60, 4, blank(4), CLEAN, false);
    for (at, cut) in cuts.iter().enumerate().step_by(7) {
        let (world, array) = recover(cut, 4, at as u64, None, false);
        // The same sector of stripe 2 on two members.
        for member in [0, 2] {
            crate::common::bad_sector(&world.plans[member], 2 * UNIT);
        }
        world.rt.block_on(async move {
            recover_all(&array).await.unwrap();
            assert!(!array.is_suspect());
            assert_eq!(array.stats().given_up, 1);
            // The parity is as the sectors that are left.
            assert_eq!(array.resync(|_, _| {}).await, Ok(0));
            assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
        });
    }
    // A member that reads nothing is another matter: it may come back.
    let (world, array) = recover(&cuts[5], 4, 5, None, false);
    world.plans[0].on(|access| access.op == Op::Read, EIO);
    crate::common::bad_sector(&world.plans[2], 2 * UNIT);
    world.rt.block_on(async move {
        let recovered = recover_all(&array).await;
        assert!(
            matches!(recovered, Err(RaidError::Unrecovered { .. })),
            "{recovered:?}"
        );
        assert_eq!(array.stats().given_up, 0);
    });
}

/// A layout that does not know where it was writing names the whole array. Its recovery reads every member in long reads,
/// and keeps nothing for each stripe.
#[test]
fn full_recovery_reads_each_member_once_in_long_reads() {
    let member = 64 << 20;
    let world = World::new(1, 3, member);
    let array = world.open(3, UNIT, DIRTY, false).unwrap();
    world.ios(3);
    let before = world.ios(3).0;
    world.rt.block_on(async move {
        recover_all(&array).await.unwrap();
        assert!(!array.is_suspect());
    });
    let reads = world.ios(3).0 - before;
    assert_eq!(reads, 3 * (member >> 20), "reads of 1 MiB");
}

/// Shows that the tests above can fail: without records a cut in a degraded stripe loses blocks.
#[test]
fn without_records_a_cut_in_a_degraded_stripe_destroys_blocks() {
    let mut destroyed = 0;
    for seed in 10..16 {
        let members = 3 + seed as usize % 3;
        let state = without(seed as usize % members);
        let (cuts, _) = cuts(seed, members, blank(members), state, false);
        for (at, cut) in cuts.iter().enumerate() {
            let mut images = cut.crash.images(seed + at as u64);
            let records = images.pop().unwrap();
            images.push(DiskImage::new(records.size));
            let world = World::of(seed, images);
            let given = world.members(members);
            let array = world
                .open_given(given, UNIT, cut.state, true, false)
                .unwrap();
            let log = cut.log.clone();
            destroyed += world
                .rt
                .block_on(async move { differing(&array, &log).await });
        }
    }
    assert!(destroyed > 20, "{destroyed} pieces");
}

#[test]
fn resync_corrects_parity_without_a_log() {
    let (cuts, _) = cuts(30, 4, blank(4), CLEAN, false);
    let mut wrong = 0;
    for (at, cut) in cuts.iter().enumerate() {
        let (world, array) = recover(cut, 4, at as u64, None, false);
        wrong += world.rt.block_on(async move {
            assert!(array.is_suspect());
            let mut last = (0, 0);
            let wrong = array.resync(|done, all| last = (done, all)).await.unwrap();
            assert_eq!(last.0, last.1);
            assert!(!array.is_suspect());
            assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
            wrong
        });
    }
    assert!(wrong > 20, "the cuts must hurt: {wrong}");
}

#[test]
fn small_writes_to_suspect_stripes_correct_their_parity() {
    let (cuts, _) = cuts(50, 5, blank(5), CLEAN, false);
    for (at, cut) in cuts.iter().enumerate() {
        let (world, array) = recover(cut, 5, at as u64, None, false);
        let device: Rc<dyn Device> = Rc::new(array.clone());
        world.rt.block_on(async move {
            for piece in 0..device.size_bytes() / PIECE {
                let written = device.write(piece * PIECE, bytes(PIECE as usize, piece));
                written.await.unwrap();
            }
            assert_eq!(array.stats().read_modify_writes, 0);
            assert_eq!(array.check_parity(|_, _| {}).await, Ok(0));
            assert!(
                array.is_suspect(),
                "the other interrupted writes are unknown"
            );
        });
    }
}

/// A member whose next flush is slow: others that begin later end before it.
struct SlowFlush {
    member: Rc<dyn Device>,
    rt: Rt,
    is_slow: Rc<Cell<bool>>,
    is_held: Rc<Cell<bool>>,
}

impl Device for SlowFlush {
    fn name(&self) -> &str {
        self.member.name()
    }

    fn size_bytes(&self) -> u64 {
        self.member.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.member.block_size()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let io = self.member.io(op, offset, len, data);
        if op != Op::Flush || !self.is_slow.replace(false) {
            return io;
        }
        let (rt, is_held) = (self.rt.clone(), self.is_held.clone());
        Box::pin(async move {
            let done = io.await;
            while is_held.get() {
                rt.sleep(Nanos::from_micros(10)).await;
            }
            done
        })
    }
}

/// A flush that began before the record of a slot was written does not make the write of that record durable, although it found an
/// earlier record of the same slot.
#[test]
fn slow_flush_keeps_later_parity_records() {
    const MEMBERS: usize = 4;
    let mut images = vec![DiskImage::new(MEMBER); MEMBERS];
    // One record.
    images.push(DiskImage::new(UNIT + 4096));
    let world = World::of(3, images);
    let (is_slow, is_held) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(true)));
    let mut given = world.members(MEMBERS);
    given[1] = Some(Rc::new(SlowFlush {
        member: world.devices[1].clone(),
        rt: world.rt.clone(),
        is_slow: is_slow.clone(),
        is_held: is_held.clone(),
    }));
    let state = without(0);
    world.kept.0.borrow_mut().push(state);
    let array = world.open_given(given, UNIT, state, true, false).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let mut log = Log {
        durable: filled(&array),
        ..Log::default()
    };
    // Column 1 of stripes whose column 0 is missing.
    let places = [0, 4, 8].map(|row| row * array.stripes().row_bytes() + UNIT);
    for place in places {
        log.open.insert(place / PIECE, 5000);
    }
    let (rt, own) = (world.rt.clone(), array.clone());
    world.rt.block_on(async move {
        fill(&device).await;
        let filled = own.stats().records;
        let write = |place: u64| device.write(place, bytes(PIECE as usize, 5000));
        write(places[0]).await.unwrap();
        is_slow.set(true);
        let flushed = device.clone();
        let slow = rt.spawn(async move { flushed.flush().await });
        rt.yield_now().await;
        // It needs the slot, so it flushes.
        write(places[1]).await.unwrap();
        is_held.set(false);
        slow.await.unwrap();
        write(places[2]).await.unwrap();
        assert_eq!(own.stats().records, filled + 3);
    });
    let crash = world.world.crash();
    for seed in 0..32 {
        let cut = Cut {
            crash: crash.clone(),
            log: log.clone(),
            state: world.kept.last(),
        };
        let (after, array) = recover(&cut, MEMBERS, seed, None, false);
        assert_nothing_lost(&after, array, &cut);
    }
}
