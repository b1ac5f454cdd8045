//! Whole stores over arrays with their descriptors on simulated drives: members fail at any I/O, the power is cut at any
//! I/O after that, and the next opening finds all drives there, also the one that failed. Its content is old, and must
//! not be used.

use crate::blocks::{BLOCK, patient, restless, same, stamps, workload};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::{MemberState, RaidError, RebuildRate, Trouble};
use tonearm_device::{RawDevice, Redundancy};
use tonearm_engine::{
    ArrayAccess, ArrayParams, Candidate, CreateParams, Engine, EngineError, HomeParams,
    MemberDevice, MemberSpace, NewMember, OpenOptions, StoreArray, create_array, open_array,
    plan_array,
};
use tonearm_format::{ArrayLevel, Placement, Roles};
use tonearm_rt::{DeviceId, IoError, Op, Rt};
use tonearm_sim::Oracle;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[derive(Clone, Copy)]
pub struct Plan {
    pub level: ArrayLevel,
    pub members: usize,
    pub unit: u64,
    pub home: HomeParams,
    pub trims: bool,
    pub tracks: u64,
}

pub const OVERWRITE: Plan = Plan {
    level: ArrayLevel::Raid5,
    members: 3,
    unit: 16 << 10,
    home: HomeParams::Overwrite,
    trims: true,
    tracks: 12,
};

/// With segments of four stripes.
pub const SEGMENTS: Plan = Plan {
    home: HomeParams::Segments {
        segment_bytes: 128 << 10,
        spare_percent: 30,
        placement: Placement::Append,
    },
    ..OVERWRITE
};

pub const HYLOG: Plan = Plan {
    home: HomeParams::Segments {
        segment_bytes: 128 << 10,
        spare_percent: 30,
        placement: Placement::Hylog,
    },
    ..OVERWRITE
};

/// Drives of a store that is not running: the primary member, the array's, and one that may replace a member.
#[derive(Clone)]
pub struct Store {
    pub plan: Plan,
    pub disks: Vec<DiskImage>,
}

pub struct Running {
    pub world: SimWorld,
    pub rt: Rt,
}

/// The power cuts of a run that were checked.
#[derive(Default)]
pub struct Cuts {
    pub count: Cell<u64>,
    /// The first failure. No cut is checked after it.
    pub failure: RefCell<Option<String>>,
}

impl Running {
    /// Checks what a power cut leaves of `store` at each `step`th change of a drive.
    pub fn check_cuts(
        &self,
        store: &Store,
        oracle: &Rc<RefCell<Oracle>>,
        (seed, step): (u64, u64),
        check: impl Fn(&Store, &Oracle, u64) -> Result<(), String> + 'static,
    ) -> Rc<Cuts> {
        let cuts: Rc<Cuts> = Rc::default();
        let (own, oracle, seen) = (store.clone(), oracle.clone(), cuts.clone());
        self.world.on_io(move |io, crash| {
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
}

pub struct Open {
    pub engine: Engine,
    pub array: StoreArray,
}

impl Store {
    pub fn start(&self, seed: u64) -> Running {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, self.disks.clone());
        let rt = Rt::new(world.driver());
        Running { world, rt }
    }

    pub fn device(&self, rt: &Rt, index: usize) -> MemberDevice {
        let path = match index {
            0 => "primary".to_string(),
            _ => format!("disk.{index}"),
        };
        let (id, bytes) = (DeviceId(index as u32), self.disks[index].size);
        let device = RawDevice::new(rt, id, bytes, 512, &path);
        MemberDevice {
            device: Rc::new(device),
            path,
        }
    }

    pub fn spare(&self) -> usize {
        self.plan.members + 1
    }

    /// The array of the drives that are not `away`. The spare drive may be a member.
    pub async fn array(
        &self,
        rt: &Rt,
        away: &[usize],
        access: ArrayAccess,
    ) -> Result<StoreArray, EngineError> {
        let candidates = (1..=self.spare())
            .rev()
            .filter(|index| !away.contains(index))
            .map(|index| Candidate {
                device: self.device(rt, index),
                // The drives are in any order: each is known by its identity.
                expected: Some(index % self.plan.members),
            });
        let (pool, primary) = (BufPool::new(1 << 20), self.device(rt, 0));
        let array = open_array(
            rt,
            &pool,
            &primary,
            candidates.collect(),
            Vec::new(),
            access,
        );
        array.await
    }

    pub async fn open(
        &self,
        rt: &Rt,
        away: &[usize],
        options: OpenOptions,
    ) -> Result<Open, String> {
        let access = match options.read_only {
            true => ArrayAccess::Read,
            false => ArrayAccess::Write,
        };
        let array = self.array(rt, away, access).await;
        let array = array.map_err(|error| error.to_string())?;
        let members = vec![self.device(rt, 0), array.member()];
        let pool = BufPool::new(1 << 20);
        let engine = Engine::open(rt, &pool, members, options, |_| {}).await;
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(Open { engine, array })
    }

    pub fn create(plan: Plan) -> Self {
        let params = CreateParams {
            size_bytes: 1200 * BLOCK as u64,
            log_bytes: Some(plan.tracks * (64 << 10)),
            track_bytes: Some(64 << 10),
            head: None,
            home: plan.home,
            block_size: BLOCK as u32,
            store: *b"a store on disks",
            created_unix_s: 0,
        };
        let space = |index: usize| MemberSpace {
            roles: Roles::default(),
            available_bytes: None,
            uuid: [index as u8; 16],
            path: format!("disk.{index}"),
        };
        let of_array = ArrayParams {
            level: plan.level,
            stripe_bytes: plan.unit,
            uuid: [99; 16],
        };
        let members: Vec<MemberSpace> = (1..=plan.members).map(space).collect();
        let (of_store, of_array) = plan_array(&params, &of_array, &space(0), &members).unwrap();
        let mut disks = vec![DiskImage::new(of_array.primary_bytes)];
        disks.extend(vec![
            DiskImage::new(of_array.member_bytes);
            plan.members + 1
        ]);
        let mut store = Self { plan, disks };
        let running = store.start(0);
        let (rt, own) = (running.rt.clone(), store.clone());
        running.rt.block_on(async move {
            let new = |index: usize| NewMember {
                device: own.device(&rt, index).device,
                blank: true,
                log_written: false,
            };
            let members: Vec<NewMember> = (1..=plan.members).map(new).collect();
            let pool = BufPool::new(0);
            let made = create_array(&rt, &pool, &of_array, new(0), &members, |_, _| {}).await;
            tonearm_engine::create(&rt, &pool, &of_store, &made.unwrap(), |_, _| {})
                .await
                .unwrap();
        });
        store.disks = running.world.images();
        running.rt.shut_down();
        store
    }

    pub fn with(&self, disks: Vec<DiskImage>) -> Self {
        Self {
            plan: self.plan,
            disks,
        }
    }

    /// Opens the store without the drives that are `away`, reads it, and closes it in order.
    pub fn read_all(&self, seed: u64, away: &[usize]) -> Result<(Vec<u64>, Self), String> {
        let running = self.start(seed);
        let (rt, own, away) = (running.rt.clone(), self.clone(), away.to_vec());
        let found = running.rt.block_on(async move {
            let open = own.open(&rt, &away, patient()).await?;
            let found = stamps(&open.engine).await?;
            let closed = open.engine.close().await;
            closed.map_err(|error| format!("the end: {error}"))?;
            Ok::<_, String>(found)
        })?;
        let left = self.with(running.world.images());
        running.rt.shut_down();
        Ok((found, left))
    }

    pub fn states(&self) -> Vec<MemberState> {
        let running = self.start(1);
        let (rt, own) = (running.rt.clone(), self.clone());
        let states = running.rt.block_on(async move {
            let status = own
                .array(&rt, &[], ArrayAccess::Read)
                .await
                .unwrap()
                .status()
                .unwrap();
            status.members.into_iter().map(|m| m.state).collect()
        });
        running.rt.shut_down();
        states
    }
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
    left: &Store,
    oracle: &Oracle,
    pulled: usize,
    cut: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.cuts += 1;
    let stale = left.states().contains(&MemberState::Missing);
    tally.stale += u64::from(stale);
    let (expected, closed) = left.read_all(cut, &[])?;
    let mut oracle = oracle.clone();
    oracle
        .settle(crate::blocks::FIRST, &expected)
        .map_err(|violation| violation.0)?;
    if stale {
        // The next opening knows it, too, and the survivors alone have everything.
        if !closed.states().contains(&MemberState::Missing) {
            return Err("a stale member was taken back".into());
        }
        let (found, _) = closed.read_all(cut, &[pulled])?;
        return same(&found, &expected, "without the stale member", None);
    }
    // The member was taken as a good one, so any other may fail now.
    for away in 1..=left.plan.members {
        let (found, _) = closed.read_all(cut, &[away])?;
        same(&found, &expected, "closed", Some(away))?;
    }
    Ok(())
}

/// Runs the workload with a pull at request `at`, and a cut at every `step`th change of a drive from there on.
fn run(
    store: &Store,
    seed: u64,
    (pulled, at): (usize, u64),
    step: u64,
    tally: &Rc<RefCell<Tally>>,
) -> u64 {
    let running = store.start(seed);
    let count = pull(&running.world, pulled, at);
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let (own, model, seen, passed) = (store.clone(), oracle.clone(), tally.clone(), count.clone());
    running.world.on_io(move |io, crash| {
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
    let (rt, own, model) = (running.rt.clone(), store.clone(), oracle.clone());
    let trims = store.plan.trims;
    running.rt.block_on(async move {
        let open = own.open(&rt, &[], restless()).await.unwrap();
        workload(rt, open.engine.clone(), model, trims, seed)
            .await
            .unwrap();
        open.engine.close().await.unwrap();
    });
    running.world.clear_hook();
    let ended = store.with(running.world.images());
    running.rt.shut_down();
    if let Some(failure) = tally.borrow_mut().failure.take() {
        panic!("{failure}");
    }
    tally.borrow_mut().pulls += 1;
    // The drive is back: what it lacks must not be read from it.
    if count.failed.get() > 0 {
        let states = ended.states();
        assert_eq!(states[pulled - 1], MemberState::Missing, "pulled at {at}");
        let (found, _) = ended.read_all(seed, &[]).unwrap();
        let newest: Vec<u64> = (0..found.len() as u64)
            .map(|block| oracle.borrow().newest(crate::blocks::FIRST + block))
            .collect();
        assert_eq!(same(&found, &newest, "after the end", None), Ok(()));
    }
    count.all.get()
}

fn campaign(plan: Plan, seeds: std::ops::Range<u64>, pulls: u64, step: u64) -> Tally {
    let store = Store::create(plan);
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
fn a_member_that_fails_and_comes_back_is_stale_after_every_cut() {
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
fn late(left: &Store, oracle: &Oracle, cut: u64) -> Result<bool, String> {
    let away = 1 + cut as usize % left.plan.members;
    let open = |access| {
        let running = left.start(cut);
        let changes = Rc::new(Cell::new(0));
        let seen = changes.clone();
        running.world.on_io(move |_, _| seen.set(seen.get() + 1));
        let (rt, own) = (running.rt.clone(), left.clone());
        let opened = running.rt.block_on(async move {
            let opened = own.array(&rt, &[away], access).await;
            opened.map(|array| array.descriptor().clean)
        });
        running.world.clear_hook();
        running.rt.shut_down();
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
    let (found, closed) = left.read_all(cut, &[])?;
    let settled = oracle.clone().settle(crate::blocks::FIRST, &found);
    settled.map_err(|violation| violation.0)?;
    // Closed in order, it does without.
    let (found_without, _) = closed.read_all(cut, &[away])?;
    same(&found_without, &found, "closed", Some(away))?;
    Ok(true)
}

#[test]
fn a_crashed_store_does_not_open_without_a_member_that_may_only_be_late() {
    let in_use = Rc::new(Cell::new(0));
    for plan in [OVERWRITE, SEGMENTS] {
        let store = Store::create(plan);
        let (running, seed) = (store.start(3), 3);
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        let count = in_use.clone();
        let cuts = running.check_cuts(&store, &oracle, (seed, 11), move |left, oracle, io| {
            count.set(count.get() + u64::from(late(left, oracle, io)?));
            Ok(())
        });
        let (rt, own, model) = (running.rt.clone(), store.clone(), oracle.clone());
        running.rt.block_on(async move {
            let open = own.open(&rt, &[], restless()).await.unwrap();
            workload(rt, open.engine.clone(), model, plan.trims, seed)
                .await
                .unwrap();
            open.engine.close().await.unwrap();
        });
        running.world.clear_hook();
        running.rt.shut_down();
        assert_eq!(*cuts.failure.borrow(), None);
    }
    assert!(in_use.get() > 20, "{} cuts", in_use.get());
}

/// After a crash, a member whose descriptor cannot be written is not dropped by the opening.
#[test]
fn a_crashed_store_does_not_open_without_a_member_that_refuses_writes() {
    let store = Store::create(OVERWRITE);
    let running = store.start(4);
    let (rt, own) = (running.rt.clone(), store.clone());
    running.rt.block_on(async move {
        let open = own.open(&rt, &[], restless()).await.unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        workload(rt, open.engine, oracle, true, 4).await.unwrap();
    });
    let crashed = store.with(running.world.crash().images(4));
    running.rt.shut_down();
    let opened = |access| {
        let running = crashed.start(5);
        let bad = |request: &tonearm_rt::Request| {
            let writes = matches!(request.op, Op::Write | Op::WriteDurable);
            (request.device == DeviceId(2) && writes).then_some(IoError::EIO)
        };
        running.world.set_fault(bad);
        let (rt, own) = (running.rt.clone(), crashed.clone());
        let opened = running
            .rt
            .block_on(async move { own.array(&rt, &[], access).await.map(drop) });
        let left = crashed.with(running.world.images());
        running.rt.shut_down();
        (opened, left)
    };
    let (refused, left) = opened(ArrayAccess::Write);
    assert!(
        matches!(refused, Err(EngineError::ArrayUnclean { index: 1, .. })),
        "{refused:?}"
    );
    assert_eq!(left.states(), [MemberState::InUse; 3]);
    left.read_all(6, &[]).unwrap();
    let (degraded, left) = opened(ArrayAccess::WriteDegraded);
    assert!(degraded.is_ok(), "{degraded:?}");
    assert_eq!(left.states()[1], MemberState::Missing);
}

#[test]
fn a_lost_array_is_told_with_both_members_and_their_errors() {
    let store = Store::create(OVERWRITE);
    let running = store.start(9);
    let broken = Rc::new(Cell::new(false));
    let at = broken.clone();
    running.world.set_fault(move |request| {
        let writes = matches!(request.op, Op::Write | Op::WriteDurable);
        let drive = request.device == DeviceId(1) || request.device == DeviceId(2);
        (at.get() && writes && drive).then_some(IoError::EIO)
    });
    let (rt, own) = (running.rt.clone(), store.clone());
    let (failure, status) = running.rt.block_on(async move {
        let open = own.open(&rt, &[], restless()).await.unwrap();
        assert_eq!(open.array.status().unwrap().lost, None);
        broken.set(true);
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        let worked = workload(rt, open.engine.clone(), oracle, true, 9).await;
        let drained = open.engine.drain().await;
        assert!(worked.is_err() || drained.is_err());
        (open.engine.failure(), open.array.status().unwrap())
    });
    running.rt.shut_down();
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
fn replaced(plan: Plan, seed: u64) -> (Store, Vec<u64>) {
    let store = Store::create(plan);
    let running = store.start(seed);
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let (rt, own, model) = (running.rt.clone(), store.clone(), oracle);
    running.rt.block_on(async move {
        let open = own.open(&rt, &[own.spare()], restless()).await.unwrap();
        workload(rt, open.engine.clone(), model, own.plan.trims, seed)
            .await
            .unwrap();
        open.engine.close().await.unwrap();
    });
    let store = store.with(running.world.images());
    running.rt.shut_down();
    let (content, store) = store.read_all(seed, &[1]).unwrap();
    let running = store.start(seed);
    let (rt, own) = (running.rt.clone(), store.clone());
    running.rt.block_on(async move {
        let array = own
            .array(&rt, &[own.spare()], ArrayAccess::Write)
            .await
            .unwrap();
        let spare = own.device(&rt, own.spare());
        let replaced = array.replace(spare.device, "disk.spare".into(), [77; 16]);
        replaced.await.unwrap();
    });
    let store = store.with(running.world.images());
    running.rt.shut_down();
    (store, content)
}

/// A rebuild under load. Cuts leave a store that opens with all drives, also with the old member, and the rebuild goes
/// on there to an array of which any member may fail.
#[test]
fn a_rebuild_under_load_survives_every_cut_and_goes_on() {
    let mut count = 0;
    for (plan, seed) in [(OVERWRITE, 5), (SEGMENTS, 6)] {
        let (store, content) = replaced(plan, seed);
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        let before: Vec<(u64, u64)> = (crate::blocks::FIRST..).zip(content).collect();
        let index = oracle.borrow_mut().commit(&before);
        oracle.borrow_mut().acknowledge(index);
        let running = store.start(seed);
        let cuts = running.check_cuts(&store, &oracle, (seed, 23), rebuilt_after);
        let (rt, own, model) = (running.rt.clone(), store.clone(), oracle);
        running.rt.block_on(async move {
            let open = own.open(&rt, &[], restless()).await.unwrap();
            let rebuilding = open.engine.clone();
            let rate = RebuildRate::new(200 << 20);
            let rebuild =
                rt.spawn(async move { rebuilding.rebuild_array(rate, Box::new(|_, _| {})).await });
            workload(rt, open.engine.clone(), model, own.plan.trims, seed + 100)
                .await
                .unwrap();
            rebuild.await.unwrap();
            assert!(!open.array.status().unwrap().is_degraded());
            open.engine.close().await.unwrap();
        });
        running.world.clear_hook();
        running.rt.shut_down();
        count += cuts.count.get();
        assert_eq!(*cuts.failure.borrow(), None);
    }
    println!("{count} cuts in rebuilds");
    assert!(count > 30, "{count} cuts");
}

/// Rebuilds what a cut has left, and verifies it, also without each of the members.
fn rebuilt_after(left: &Store, oracle: &Oracle, cut: u64) -> Result<(), String> {
    let (expected, left) = left.read_all(cut, &[])?;
    let settled = oracle.clone().settle(crate::blocks::FIRST, &expected);
    settled.map_err(|violation| violation.0)?;
    let running = left.start(cut);
    let (rt, own) = (running.rt.clone(), left.clone());
    running.rt.block_on(async move {
        let open = own.open(&rt, &[], patient()).await?;
        let rebuilt = open
            .engine
            .rebuild_array(RebuildRate::default(), Box::new(|_, _| {}));
        rebuilt.await.map_err(|error| error.to_string())?;
        open.engine.close().await.map_err(|error| error.to_string())
    })?;
    let done = left.with(running.world.images());
    running.rt.shut_down();
    // The members are now the drives 2, 3 and the spare; drive 1 is the one that was replaced.
    for away in [2, 3, done.spare()] {
        let (found, _) = done.read_all(cut, &[away])?;
        same(&found, &expected, "rebuilt", Some(away))?;
    }
    Ok(())
}

/// A second member is pulled during the rebuild: one clear error, and when it is connected again, everything is there.
#[test]
fn a_second_member_pulled_in_a_rebuild_is_an_error_and_loses_nothing() {
    let mut pulled = 0;
    for (plan, seed) in [(OVERWRITE, 7), (SEGMENTS, 8)] {
        let (store, content) = replaced(plan, seed);
        for at in (0..400).step_by(13) {
            let running = store.start(seed);
            let (rt, own) = (running.rt.clone(), store.clone());
            let drive = 2 + at as usize % 2;
            let count = pull(&running.world, drive, at);
            let oracle = Rc::new(RefCell::new(Oracle::default()));
            let before: Vec<(u64, u64)> = (crate::blocks::FIRST..)
                .zip(content.iter().copied())
                .collect();
            let index = oracle.borrow_mut().commit(&before);
            oracle.borrow_mut().acknowledge(index);
            let model = oracle.clone();
            let failed = running.rt.block_on(async move {
                let open = own.open(&rt, &[], restless()).await?;
                let (rebuilding, rate) = (open.engine.clone(), RebuildRate::new(200 << 20));
                let rebuild =
                    rt.spawn(
                        async move { rebuilding.rebuild_array(rate, Box::new(|_, _| {})).await },
                    );
                let worked = workload(rt, open.engine.clone(), model, own.plan.trims, seed).await;
                rebuild.await.map_err(|error| error.to_string())?;
                worked.map_err(|error| error.to_string())?;
                open.engine.close().await.map_err(|error| error.to_string())
            });
            let left = store.with(running.world.crash().images(at));
            running.rt.shut_down();
            if count.failed.get() == 0 {
                continue;
            }
            if let Err(what) = failed {
                pulled += 1;
                assert!(!what.is_empty());
            }
            let (found, _) = left
                .read_all(at, &[])
                .unwrap_or_else(|what| panic!("seed {seed}, drive {drive} pulled at {at}: {what}"));
            let settled = oracle.borrow().clone().settle(crate::blocks::FIRST, &found);
            assert!(
                settled.is_ok(),
                "seed {seed}, drive {drive} pulled at {at}: {settled:?}"
            );
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
        let store = Store::create(plan);
        for at in (60..900).step_by(17) {
            let running = store.start(seed);
            let (rt, own) = (running.rt.clone(), store.clone());
            let pair = [1 + at % 3, 1 + (at + 1) % 3].map(|drive| DeviceId(drive as u32));
            let (requests, failed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (seen, count) = (requests.clone(), failed.clone());
            let moment = at..at + [3, 8, 30][at / 17 % 3];
            running.world.set_fault(move |request| {
                seen.set(seen.get() + 1);
                let fails = moment.contains(&seen.get()) && pair.contains(&request.device);
                count.set(count.get() + u64::from(fails));
                fails.then_some(IoError::EIO)
            });
            let oracle = Rc::new(RefCell::new(Oracle::default()));
            let model = oracle.clone();
            let worked = running.rt.block_on(async move {
                let open = own.open(&rt, &[], restless()).await?;
                let worked = workload(rt, open.engine.clone(), model, own.plan.trims, seed).await;
                worked.map_err(|error| error.to_string())?;
                open.engine.close().await.map_err(|error| error.to_string())
            });
            let left = store.with(running.world.crash().images(at as u64));
            running.rt.shut_down();
            points += u64::from(failed.get() > 0);
            lost += u64::from(worked.is_err());
            let (found, _) = left
                .read_all(at as u64, &[])
                .unwrap_or_else(|what| panic!("seed {seed}, failure at {at}: {what}"));
            let settled = oracle.borrow().clone().settle(crate::blocks::FIRST, &found);
            assert!(settled.is_ok(), "seed {seed}, failure at {at}: {settled:?}");
        }
    }
    println!("{points} failures of two members, {lost} ended the store");
    assert!(points > 50 && lost > 20, "{points}, {lost}");
}
