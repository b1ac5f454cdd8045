//! Whole stores over arrays with their descriptors on simulated drives: members fail at any I/O, the power is cut at any
//! I/O after that, and the next opening finds all drives there, also the one that failed. Its content is old, and must
//! not be used.

use crate::blocks::{FIRST, patient, restless, same, stamps, workload};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_device::Redundancy;
use tonearm_device::raid::{MemberState, RaidError, RebuildRate, Trouble};
use tonearm_engine::{ArrayAccess, Engine, EngineError, HomeParams, OpenOptions};
use tonearm_format::{ArrayLevel, HEADER_AREA_BYTES, Placement, SUPERBLOCK_SLOTS, trailer_offset};
use tonearm_rt::{DeviceId, IoError, Op, Rt};
use tonearm_sim::{ArrayImage, ArrayShape, Layout, OpenArray, Oracle, Shape};
use tonearm_world::SimWorld;

/// A store of about 1,200 blocks, so that its blocks are in more than one group.
const STORE: Shape = Shape {
    split: true,
    ..Shape::small(Layout::Overwrite, 12, 1200)
};

pub const OVERWRITE: ArrayShape = ArrayShape {
    store: STORE,
    level: ArrayLevel::Raid5,
    members: 3,
    stripe_bytes: 16 << 10,
};

/// With segments of four stripes.
pub const SEGMENTS: ArrayShape = with_segments(Placement::Append);

pub const HYLOG: ArrayShape = with_segments(Placement::Hylog);

const fn with_segments(placement: Placement) -> ArrayShape {
    let home = HomeParams::Segments {
        segment_bytes: 128 << 10,
        spare_percent: 30,
        placement,
    };
    ArrayShape {
        store: Shape { home, ..STORE },
        ..OVERWRITE
    }
}

/// The power cuts of a run that were checked.
#[derive(Default)]
pub struct Cuts {
    pub count: Cell<u64>,
    /// The first failure. No cut is checked after it.
    pub failure: RefCell<Option<String>>,
}

/// Checks what a power cut leaves of `store`, which is in use in `world`, at each `step`th change of a drive.
pub fn check_cuts(
    world: &SimWorld,
    store: &ArrayImage,
    oracle: &Rc<RefCell<Oracle>>,
    (seed, step): (u64, u64),
    check: impl Fn(&ArrayImage, &Oracle, u64) -> Result<(), String> + 'static,
) -> Rc<Cuts> {
    let cuts: Rc<Cuts> = Rc::default();
    let (own, oracle, seen) = (store.clone(), oracle.clone(), cuts.clone());
    world.on_io(move |io, crash| {
        if seen.failure.borrow().is_some() || !io.is_multiple_of(step) {
            return;
        }
        seen.count.set(seen.count.get() + 1);
        let left = own.with(crash.images(io + seed));
        if let Err(what) = check(&left, &oracle.borrow(), io) {
            let text = format!("seed {seed}, power cut at I/O {io}: {what}");
            *seen.failure.borrow_mut() = Some(text);
        }
    });
    cuts
}

/// Opens the store without the drives that are `away`.
pub async fn open(
    store: &ArrayImage,
    rt: &Rt,
    away: &[usize],
    options: OpenOptions,
) -> Result<OpenArray, String> {
    let opened = store.open(rt, away, options).await;
    opened.map_err(|error| error.to_string())
}

/// Runs `work` on the store, opened without the drives that are `away`. Returns its result and what is left.
pub fn with_store<T: 'static>(
    store: &ArrayImage,
    seed: u64,
    away: &[usize],
    options: OpenOptions,
    work: impl AsyncFnOnce(SimWorld, Rt, OpenArray) -> Result<T, String> + 'static,
) -> Result<(T, ArrayImage), String> {
    let away = away.to_vec();
    let (result, world) = store.run(seed, |world, rt, own| async move {
        let open = open(&own, &rt, &away, options).await?;
        work(world, rt, open).await
    });
    Ok((result?, store.with(world.images())))
}

/// Closes a store in order.
pub async fn close(open: &OpenArray) -> Result<(), String> {
    let closed = open.engine.close().await;
    closed.map_err(|error| format!("the end: {error}"))
}

/// Opens the store without the drives that are `away`, reads it, and closes it in order.
pub fn read_all(
    store: &ArrayImage,
    seed: u64,
    away: &[usize],
) -> Result<(Vec<u64>, ArrayImage), String> {
    with_store(store, seed, away, patient(), async |_, _, open| {
        let found = stamps(&open.engine).await?;
        close(&open).await?;
        Ok(found)
    })
}

/// Finds the prefix of the commits that gives `found`.
pub fn expect_prefix(oracle: &Oracle, found: &[u64]) -> Result<(), String> {
    oracle.judge_from(FIRST, found).map(drop)
}

/// Opens the store, which has everything that `oracle` calls durable.
fn expect_contents(store: &ArrayImage, seed: u64, oracle: &RefCell<Oracle>) -> Result<(), String> {
    let (found, _) = read_all(store, seed, &[])?;
    expect_prefix(&oracle.borrow(), &found)
}

/// An oracle of a store with these contents, which are durable.
pub fn known(content: &[u64]) -> Rc<RefCell<Oracle>> {
    let mut oracle = Oracle::default();
    let content: Vec<(u64, u64)> = (FIRST..).zip(content.iter().copied()).collect();
    let index = oracle.change(&content);
    oracle.acknowledge(index);
    Rc::new(RefCell::new(oracle))
}

/// The store after a workload, in use when the power is cut.
pub fn crashed(store: &ArrayImage, seed: u64, oracle: &Rc<RefCell<Oracle>>, of: u64) -> ArrayImage {
    let model = oracle.clone();
    let worked = with_store(
        store,
        seed,
        &[],
        restless(),
        async move |world, rt, open| {
            let worked = workload(rt, open.engine, model, true, of).await;
            worked.map_err(|error| error.to_string())?;
            Ok(world.crash())
        },
    );
    let (crash, _) = worked.unwrap();
    store.with(crash.images(seed))
}

/// Requests of a world, and those that have failed.
#[derive(Clone, Default)]
struct Requests {
    all: Rc<Cell<u64>>,
    failed: Rc<Cell<u64>>,
}

/// Fails every request to drive `drive` from request number `at` of the world on.
fn pull(world: &SimWorld, drive: usize, at: u64) -> Requests {
    let requests = Requests::default();
    let seen = requests.clone();
    world.set_fault(move |request| {
        seen.all.set(seen.all.get() + 1);
        let fails = request.device == DeviceId(drive as u32) && seen.all.get() > at;
        seen.failed.set(seen.failed.get() + u64::from(fails));
        fails.then_some(IoError::EIO)
    });
    requests
}

#[derive(Default)]
struct Tally {
    cuts: u64,
    pulls: u64,
    /// Openings that found the pulled member stale.
    stale: u64,
    failure: Option<String>,
}

/// Verifies what a cut has left: with all drives there, and without the pulled one.
fn check(
    left: &ArrayImage,
    oracle: &Oracle,
    pulled: usize,
    cut: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.cuts += 1;
    let stale = left.states().contains(&MemberState::Missing);
    tally.stale += u64::from(stale);
    let (expected, closed) = read_all(left, cut, &[])?;
    expect_prefix(oracle, &expected)?;
    if stale {
        // The next opening knows it, too, and the survivors alone have everything.
        if !closed.states().contains(&MemberState::Missing) {
            return Err("a stale member was taken back".into());
        }
        let (found, _) = read_all(&closed, cut, &[pulled])?;
        return same(&found, &expected, "without the stale member", None);
    }
    // The member was taken as a good one, so any other may fail now.
    for away in 1..=left.shape.members {
        let (found, _) = read_all(&closed, cut, &[away])?;
        same(&found, &expected, "closed", Some(away))?;
    }
    Ok(())
}

/// Runs the workload with a pull at request `at`, and a cut at every `step`th change of a drive from there on.
fn run(
    store: &ArrayImage,
    seed: u64,
    (pulled, at): (usize, u64),
    step: u64,
    tally: &Rc<RefCell<Tally>>,
) -> u64 {
    let (world, rt) = store.start(seed);
    let count = pull(&world, pulled, at);
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let (own, model, seen, passed) = (store.clone(), oracle.clone(), tally.clone(), count.clone());
    world.on_io(move |io, crash| {
        if seen.borrow().failure.is_some()
            || passed.all.get() < at
            || !(io + seed).is_multiple_of(step)
        {
            return;
        }
        let cut = seed.wrapping_mul(7919) + io;
        let left = own.with(crash.images(cut));
        let checked = check(&left, &model.borrow(), pulled, cut, &mut seen.borrow_mut());
        if let Err(what) = checked {
            let text = format!(
                "seed {seed}, drive {pulled} pulled at {at}, power cut at I/O {io}: {what}"
            );
            seen.borrow_mut().failure = Some(text);
        }
    });
    rt.block_on(in_use(store.clone(), rt.clone(), oracle.clone(), seed));
    world.clear_hook();
    let ended = store.with(world.images());
    rt.shut_down();
    if let Some(failure) = tally.borrow_mut().failure.take() {
        panic!("{failure}");
    }
    tally.borrow_mut().pulls += 1;
    // The drive is back: what it lacks must not be read from it.
    if count.failed.get() > 0 {
        let states = ended.states();
        assert_eq!(states[pulled - 1], MemberState::Missing, "pulled at {at}");
        let (found, _) = read_all(&ended, seed, &[]).unwrap();
        let newest: Vec<u64> = (0..found.len() as u64)
            .map(|block| oracle.borrow().newest(FIRST + block))
            .collect();
        assert_eq!(same(&found, &newest, "after the end", None), Ok(()));
    }
    count.all.get()
}

/// Uses the store, and closes it in order.
async fn in_use(store: ArrayImage, rt: Rt, oracle: Rc<RefCell<Oracle>>, seed: u64) {
    let open = open(&store, &rt, &[], restless()).await.unwrap();
    let worked = workload(rt, open.engine.clone(), oracle, true, seed);
    worked.await.unwrap();
    open.engine.close().await.unwrap();
}

fn campaign(plan: ArrayShape, seeds: std::ops::Range<u64>, pulls: u64, step: u64) -> Tally {
    let store = plan.create();
    let tally = Rc::new(RefCell::new(Tally::default()));
    for seed in seeds {
        let requests = run(&store, seed, (1, u64::MAX), u64::MAX, &tally);
        for pull in 0..pulls {
            let at = requests * pull / pulls + seed % (requests / pulls).max(1);
            let pulled = 1 + (pull + seed) as usize % plan.members;
            run(&store, seed, (pulled, at), step, &tally);
        }
    }
    Rc::into_inner(tally).unwrap().into_inner()
}

#[test]
fn failing_member_is_stale_after_every_cut() {
    for plan in [OVERWRITE, SEGMENTS, HYLOG] {
        let tally = campaign(plan, 0..2, 12, 29);
        println!(
            "{} pulls, {} cuts, {} with a stale member",
            tally.pulls, tally.cuts, tally.stale
        );
        assert!(
            tally.cuts > 100 && tally.stale > 50,
            "{} cuts, {} stale",
            tally.cuts,
            tally.stale
        );
    }
}

/// What a cut has left does not open for writing without a drive, which may only be late, and nothing is written then.
/// With all drives there, everything is there. True when the array was in use at the cut.
fn late(left: &ArrayImage, oracle: &Oracle, cut: u64) -> Result<bool, String> {
    let away = 1 + cut as usize % left.shape.members;
    let open = |access| {
        let changes = Rc::new(Cell::new(0));
        let seen = changes.clone();
        let (opened, _) = left.run(cut, |world, rt, own| {
            world.on_io(move |_, _| seen.set(seen.get() + 1));
            async move {
                let opened = own.array(&rt, &[away], access).await;
                opened.map(|array| array.descriptor().clean)
            }
        });
        (opened, changes.get())
    };
    match open(ArrayAccess::Read) {
        (Ok(false), 0) => {}
        (Ok(true), 0) => return Ok(false),
        (other, changes) => return Err(format!("for reading: {other:?}, {changes} changes")),
    }
    match open(ArrayAccess::Write) {
        (Err(EngineError::ArrayUnclean { index, .. }), 0) if index == away - 1 => {}
        (other, changes) => {
            return Err(format!("without {away}: {other:?}, {changes} changes"));
        }
    }
    if let (Err(error), _) = open(ArrayAccess::WriteDegraded) {
        return Err(format!("degraded, without {away}: {error}"));
    }
    let (found, closed) = read_all(left, cut, &[])?;
    expect_prefix(oracle, &found)?;
    // Closed in order, it does without.
    let (found_without, _) = read_all(&closed, cut, &[away])?;
    same(&found_without, &found, "closed", Some(away))?;
    Ok(true)
}

#[test]
fn crashed_store_refuses_to_open_without_a_late_member() {
    let crashes = Rc::new(Cell::new(0));
    for plan in [OVERWRITE, SEGMENTS] {
        let store = plan.create();
        let ((world, rt), seed) = (store.start(3), 3);
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        let count = crashes.clone();
        let cuts = check_cuts(
            &world,
            &store,
            &oracle,
            (seed, 11),
            move |left, oracle, io| {
                count.set(count.get() + u64::from(late(left, oracle, io)?));
                Ok(())
            },
        );
        rt.block_on(in_use(store.clone(), rt.clone(), oracle, seed));
        world.clear_hook();
        rt.shut_down();
        assert_eq!(*cuts.failure.borrow(), None);
    }
    assert!(crashes.get() > 20, "{} cuts", crashes.get());
}

/// After a crash, a member whose descriptor cannot be written is not dropped by the opening.
#[test]
fn crashed_store_refuses_to_drop_an_unwritable_member() {
    let crashed = crashed(&OVERWRITE.create(), 4, &Rc::default(), 4);
    let opened = |access| {
        let (opened, world) = crashed.run(5, |world, rt, own| {
            world.set_fault(|request| {
                let writes = matches!(request.op, Op::Write | Op::WriteDurable);
                (request.device == DeviceId(2) && writes).then_some(IoError::EIO)
            });
            async move { own.array(&rt, &[], access).await.map(drop) }
        });
        (opened, crashed.with(world.images()))
    };
    let (refused, left) = opened(ArrayAccess::Write);
    assert!(
        matches!(refused, Err(EngineError::ArrayUnclean { index: 1, .. })),
        "{refused:?}"
    );
    assert_eq!(left.states(), [MemberState::InUse; 3]);
    read_all(&left, 6, &[]).unwrap();
    let (degraded, left) = opened(ArrayAccess::WriteDegraded);
    assert!(degraded.is_ok(), "{degraded:?}");
    assert_eq!(left.states()[1], MemberState::Missing);
}

/// A member fails in an opening after a crash. Before the parity is corrected, the opening is refused, because the blocks of
/// that member in stripes that were being written could not be computed. After that, the store goes on without it. With all
/// drives there again, everything is there in both cases.
#[test]
fn failing_member_in_a_recovery_loses_nothing() {
    let (mut refused, mut degraded) = (0, 0);
    for seed in 30..36 {
        let (store, oracle) = (OVERWRITE.create(), Rc::default());
        let crashed = crashed(&store, seed, &oracle, seed);
        let opened = |pulled: usize, at: u64| {
            let ((opened, requests), world) = crashed.run(seed, |world, rt, own| async move {
                let requests = pull(&world, pulled, at);
                (open(&own, &rt, &[], restless()).await.map(drop), requests)
            });
            (opened, requests, crashed.with(world.crash().images(at)))
        };
        let (whole, requests, _) = opened(1, u64::MAX);
        assert_eq!(whole, Ok(()));
        for at in 0..requests.all.get() {
            let pulled = 1 + at as usize % store.shape.members;
            let (ended, requests, left) = opened(pulled, at);
            let missing = left.states().contains(&MemberState::Missing);
            match ended {
                Ok(()) => degraded += u64::from(missing),
                Err(error) => {
                    refused += 1;
                    assert!(!missing, "seed {seed}, {pulled} pulled at {at}: {error}");
                    assert!(error.contains(&format!("disk.{pulled}")), "{error}");
                }
            }
            assert!(!missing || requests.failed.get() > 0);
            let whole = expect_contents(&left, seed, &oracle);
            assert_eq!(whole, Ok(()), "seed {seed}, {pulled} pulled at {at}");
        }
    }
    println!("{refused} openings refused, {degraded} degraded");
    assert!(
        refused > 50 && degraded > 5,
        "{refused} refused, {degraded} degraded"
    );
}

/// A member fails when the array marks its members as in use. The power is cut before they record that this
/// member is missing. It lacks nothing then, so with all members there the store opens.
#[test]
fn member_not_yet_marked_missing_is_used_after_a_cut() {
    let (store, seed) = (OVERWRITE.create(), 12);
    let (world, rt) = store.start(seed);
    let (marks, cuts) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let seen = marks.clone();
    let content = HEADER_AREA_BYTES..trailer_offset(store.disks[2].size);
    world.set_fault(move |request| {
        let marks_it = matches!(request.op, Op::Write | Op::WriteDurable)
            && !content.contains(&request.offset)
            && request.device == DeviceId(2);
        seen.set(seen.get() + u64::from(marks_it));
        // The opening marks it in all four slots.
        (marks_it && seen.get() > SUPERBLOCK_SLOTS).then_some(IoError::EIO)
    });
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let count = cuts.clone();
    let checked = check_cuts(
        &world,
        &store,
        &oracle,
        (seed, 1),
        move |left, oracle, io| {
            if marks.get() <= SUPERBLOCK_SLOTS || count.get() == 200 {
                return Ok(());
            }
            count.set(count.get() + 1);
            let (found, _) = read_all(left, io, &[])?;
            expect_prefix(oracle, &found)
        },
    );
    let (own_rt, own) = (rt.clone(), store.clone());
    let members = rt.block_on(async move {
        let rt = own_rt;
        let open = open(&own, &rt, &[], restless()).await.unwrap();
        workload(rt, open.engine.clone(), oracle, true, seed)
            .await
            .unwrap();
        open.array.status().unwrap().members
    });
    world.clear_hook();
    rt.shut_down();
    assert_eq!(*checked.failure.borrow(), None);
    assert_eq!(members[1].state, MemberState::Missing);
    assert_eq!(cuts.get(), 200);
}

/// Two power cuts in a row, each while an opening marks the members as in use: in the second half of a save, and in
/// the first half of the save that repeats it. Each member still has a whole copy of the state.
#[test]
fn a_save_that_is_cut_twice_leaves_a_copy_on_each_member() {
    // In use at the first cut, so that it does not open without a member.
    let crashed = crashed(&OVERWRITE.create(), 13, &Rc::default(), 13);
    let count = Rc::new(Cell::new(0));
    let first = cut_openings(&crashed, 40, {
        let count = count.clone();
        move |left| {
            let count = count.clone();
            cut_openings(left, 40, move |again| {
                count.set(count.get() + 1);
                let states = again.states();
                match states.contains(&MemberState::Missing) {
                    true => Err(format!("{states:?}")),
                    false => Ok(()),
                }
            })
        }
    });
    assert_eq!(first, Ok(()));
    assert!(count.get() > 1000, "{} pairs of cuts", count.get());
}

/// Opens the array for writing, and cuts the power at each of its first `most` changes.
fn cut_openings(
    store: &ArrayImage,
    most: u64,
    check: impl Fn(&ArrayImage) -> Result<(), String> + 'static,
) -> Result<(), String> {
    let failure = Rc::new(RefCell::new(None));
    let (image, seen) = (store.clone(), failure.clone());
    let (opened, _) = store.run(1, |world, rt, own| {
        world.on_io(move |io, crash| {
            if io <= most && seen.borrow().is_none() {
                let checked = check(&image.with(crash.images(io * 7)));
                *seen.borrow_mut() = checked.err().map(|what| format!("cut {io}: {what}"));
            }
        });
        async move { own.array(&rt, &[], ArrayAccess::Write).await.map(drop) }
    });
    opened.map_err(|error| error.to_string())?;
    let failure = failure.borrow().clone();
    failure.map_or(Ok(()), Err)
}

#[test]
fn lost_array_names_both_members_and_their_errors() {
    let store = OVERWRITE.create();
    let worked = with_store(&store, 9, &[], restless(), async |world, rt, open| {
        assert_eq!(open.array.status().unwrap().lost, None);
        world.set_fault(|request| {
            let writes = matches!(request.op, Op::Write | Op::WriteDurable);
            let drive = request.device == DeviceId(1) || request.device == DeviceId(2);
            (writes && drive).then_some(IoError::EIO)
        });
        let worked = workload(rt, open.engine.clone(), Rc::default(), true, 9).await;
        let drained = open.engine.drain().await;
        assert!(worked.is_err() || drained.is_err());
        Ok((open.engine.failure(), open.array.status().unwrap()))
    });
    let ((failure, status), _) = worked.unwrap();
    let failure = failure.expect("the store has failed");
    assert!(failure.contains("the array has lost disk."), "{failure}");
    assert!(
        matches!(status.lost, Some(RaidError::Lost { .. })),
        "{status:?}"
    );
    for (index, member) in status.members.iter().enumerate() {
        let expected = match index {
            2 => (MemberState::InUse, None),
            _ => (MemberState::Missing, Some(Trouble::Failed(IoError::EIO))),
        };
        assert_eq!((member.state, member.trouble.clone()), expected, "{index}");
    }
}

/// A degraded store, closed, with member 1 replaced by the spare drive. The content of its blocks.
fn replaced(plan: ArrayShape, seed: u64) -> (ArrayImage, Vec<u64>) {
    let store = plan.create();
    let away = [store.spare()];
    let worked = with_store(&store, seed, &away, restless(), async move |_, rt, open| {
        let worked = workload(rt, open.engine.clone(), Rc::default(), true, seed).await;
        worked.map_err(|error| error.to_string())?;
        close(&open).await
    });
    let (content, store) = read_all(&worked.unwrap().1, seed, &[1]).unwrap();
    let ((), world) = store.run(seed, |_, rt, own| async move {
        let array = own.array(&rt, &away, ArrayAccess::Write).await.unwrap();
        let spare = own.device(&rt, own.spare());
        let replaced = array.replace(spare.device, "disk.spare".into(), [77; 16]);
        replaced.await.unwrap();
    });
    (store.with(world.images()), content)
}

/// Rebuilds the member that was replaced.
pub async fn rebuild(engine: Engine, rate: RebuildRate) -> Result<(), String> {
    let rebuilt = engine.rebuild_array(rate, Box::new(|_, _| {})).await;
    rebuilt.map_err(|error| error.to_string())
}

/// A rebuild under load. Cuts leave a store that opens with all drives, also with the old member, and the rebuild goes
/// on there to an array of which any member may fail.
#[test]
fn a_rebuild_under_load_survives_every_cut_and_goes_on() {
    let mut count = 0;
    for (plan, seed) in [(OVERWRITE, 5), (SEGMENTS, 6)] {
        let (store, content) = replaced(plan, seed);
        let oracle = known(&content);
        let (world, rt) = store.start(seed);
        let cuts = check_cuts(&world, &store, &oracle, (seed, 23), rebuilt_after);
        let (own, task) = (store.clone(), rt.clone());
        rt.block_on(async move {
            let open = open(&own, &task, &[], restless()).await.unwrap();
            let rebuild = task.spawn(rebuild(open.engine.clone(), RebuildRate::new(200 << 20)));
            let worked = workload(task, open.engine.clone(), oracle, true, seed + 100);
            worked.await.unwrap();
            rebuild.await.unwrap();
            assert!(!open.array.status().unwrap().is_degraded());
            close(&open).await.unwrap();
        });
        world.clear_hook();
        rt.shut_down();
        count += cuts.count.get();
        assert_eq!(*cuts.failure.borrow(), None);
    }
    println!("{count} cuts in rebuilds");
    assert!(count > 30, "{count} cuts");
}

/// Rebuilds what a cut has left, and verifies it, also without each of the members.
fn rebuilt_after(left: &ArrayImage, oracle: &Oracle, cut: u64) -> Result<(), String> {
    let (expected, left) = read_all(left, cut, &[])?;
    expect_prefix(oracle, &expected)?;
    let rebuilt = with_store(&left, cut, &[], patient(), async |_, _, open| {
        rebuild(open.engine.clone(), RebuildRate::default()).await?;
        close(&open).await
    });
    let ((), done) = rebuilt?;
    // The members are now the drives 2, 3 and the spare; drive 1 is the one that was replaced.
    for away in [2, 3, done.spare()] {
        let (found, _) = read_all(&done, cut, &[away])?;
        same(&found, &expected, "rebuilt", Some(away))?;
    }
    Ok(())
}

/// Opens the store, and rebuilds it under load.
async fn reloaded(
    store: ArrayImage,
    rt: Rt,
    oracle: Rc<RefCell<Oracle>>,
    seed: u64,
) -> Result<(), String> {
    let open = open(&store, &rt, &[], restless()).await?;
    let rebuild = rt.spawn(rebuild(open.engine.clone(), RebuildRate::new(200 << 20)));
    let worked = workload(rt, open.engine.clone(), oracle, true, seed).await;
    rebuild.await?;
    worked.map_err(|error| error.to_string())?;
    close(&open).await
}

/// A second member is pulled during the rebuild: one clear error, and when it is connected again, everything is there.
#[test]
fn second_member_pulled_in_a_rebuild_loses_nothing() {
    let mut pulled = 0;
    for (plan, seed) in [(OVERWRITE, 7), (SEGMENTS, 8)] {
        let (store, content) = replaced(plan, seed);
        for at in (0..400).step_by(13) {
            let drive = 2 + at as usize % 2;
            let oracle = known(&content);
            let model = oracle.clone();
            let ((failed, count), world) = store.run(seed, |world, rt, own| async move {
                let count = pull(&world, drive, at);
                (reloaded(own, rt, model, seed).await, count)
            });
            let left = store.with(world.crash().images(at));
            if count.failed.get() == 0 {
                continue;
            }
            if let Err(what) = failed {
                pulled += 1;
                assert!(!what.is_empty());
            }
            let whole = expect_contents(&left, at, &oracle);
            assert_eq!(whole, Ok(()), "seed {seed}, drive {drive} pulled at {at}");
        }
    }
    println!("{pulled} second members pulled");
    assert!(pulled > 10, "{pulled}");
}

/// Two members fail for a moment, as when a controller resets, and then the power: all drives answer at the next opening.
#[test]
fn two_members_that_fail_for_a_moment_lose_nothing() {
    let (mut lost, mut points) = (0, 0);
    for (plan, seed) in [(OVERWRITE, 9), (OVERWRITE, 10), (SEGMENTS, 11)] {
        let store = plan.create();
        for at in (60..900).step_by(17) {
            let pair = [1 + at % 3, 1 + (at + 1) % 3].map(|drive| DeviceId(drive as u32));
            let (requests, failed) = (Cell::new(0), Rc::new(Cell::new(0)));
            let count = failed.clone();
            let moment = at..at + [3, 8, 30][at / 17 % 3];
            let oracle: Rc<RefCell<Oracle>> = Rc::default();
            let model = oracle.clone();
            let (worked, world) = store.run(seed, |world, rt, own| {
                world.set_fault(move |request| {
                    requests.set(requests.get() + 1);
                    let fails = moment.contains(&requests.get()) && pair.contains(&request.device);
                    count.set(count.get() + u64::from(fails));
                    fails.then_some(IoError::EIO)
                });
                async move {
                    let open = open(&own, &rt, &[], restless()).await?;
                    let worked = workload(rt, open.engine.clone(), model, true, seed).await;
                    worked.map_err(|error| error.to_string())?;
                    close(&open).await
                }
            });
            let left = store.with(world.crash().images(at as u64));
            points += u64::from(failed.get() > 0);
            lost += u64::from(worked.is_err());
            let whole = expect_contents(&left, at as u64, &oracle);
            assert_eq!(whole, Ok(()), "seed {seed}, failure at {at}");
        }
    }
    println!("{points} failures of two members, {lost} ended the store");
    assert!(points > 50 && lost > 20, "{points}, {lost}");
}
