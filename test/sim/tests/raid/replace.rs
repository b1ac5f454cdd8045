//! A member fails while the store is in use, and is replaced and rebuilt under load: by another drive, or by itself when its
//! failure has passed. The power is cut at any I/O.

use crate::blocks::{patient, restless, same, workload};
use crate::stores::{
    HYLOG, OVERWRITE, SEGMENTS, check_cuts, close, expect_prefix, open, read_all, rebuild,
    with_store,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::Redundancy;
use tonearm_device::raid::{MemberState, RebuildRate};
use tonearm_rt::{DeviceId, IoError};
use tonearm_sim::{ArrayImage, ArrayShape, Oracle};

/// The drive that fails.
const FAILS: usize = 2;

/// What the cuts have left.
#[derive(Clone, Default)]
struct Tally {
    cuts: Rc<Cell<u64>>,
    /// Openings that found a member missing, and a replacement.
    missing: Rc<Cell<u64>>,
    replaced: Rc<Cell<u64>>,
}

/// Runs a store whose drive [`FAILS`] fails under load and is replaced by drive `by`. Every `step`th I/O from the failure
/// on is cut.
fn run(plan: ArrayShape, seed: u64, by_itself: bool, step: u64, tally: &Tally) {
    let store = plan.create();
    let by = if by_itself { FAILS } else { store.spare() };
    let (world, rt) = store.start(seed);
    let (broken, armed) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let fails = broken.clone();
    world.set_fault(move |request| {
        let fails = fails.get() && request.device == DeviceId(FAILS as u32);
        fails.then_some(IoError::EIO)
    });
    let oracle = Rc::new(RefCell::new(Oracle::default()));
    let (seen, counted) = (armed.clone(), tally.clone());
    let cuts = check_cuts(
        &world,
        &store,
        &oracle,
        (seed, step),
        move |left, oracle, cut| match seen.get() {
            true => finished_after(left, oracle, cut, &counted),
            false => Ok(()),
        },
    );
    let (own_rt, own, model) = (rt.clone(), store.clone(), oracle.clone());
    rt.block_on(async move {
        let rt = own_rt;
        let open = open(&own, &rt, &[own.spare()], restless()).await.unwrap();
        let (clock, engine) = (rt.clone(), open.engine.clone());
        let load = rt.spawn(async move {
            for round in 0..2 {
                let model = model.clone();
                let part = workload(clock.clone(), engine.clone(), model, true, seed + round);
                part.await.unwrap();
            }
        });
        rt.sleep(Nanos::from_millis(15 + seed % 7)).await;
        armed.set(true);
        broken.set(true);
        while !open.array.status().unwrap().is_degraded() {
            rt.sleep(Nanos::from_micros(20)).await;
        }
        broken.set(false);
        let new = own.device(&rt, by);
        let replaced = open.engine.replace_member(new, "disk.new".into(), [77; 16]);
        replaced.await.unwrap();
        let members = open.array.descriptor().members;
        assert_eq!(members[FAILS - 1].uuid, [77; 16], "an identity of its own");
        let rate = RebuildRate::new(200 << 20);
        rebuild(open.engine.clone(), rate).await.unwrap();
        assert!(!open.array.status().unwrap().is_degraded());
        load.await;
        open.engine.close().await.unwrap();
    });
    world.clear_hook();
    let closed = store.with(world.images());
    rt.shut_down();
    assert_eq!(*cuts.failure.borrow(), None);
    let (found, closed) = read_all(&closed, seed, &[]).unwrap();
    expect_prefix(&oracle.borrow(), &found).unwrap();
    for away in (1..=closed.spare()).filter(|away| by_itself || *away != FAILS) {
        let (without, _) = read_all(&closed, seed, &[away]).unwrap();
        same(&without, &found, "replaced", Some(away)).unwrap();
    }
}

/// Opens what a cut has left, with all drives there, goes on with the replacement, and verifies the result without each of
/// the drives.
fn finished_after(
    left: &ArrayImage,
    oracle: &Oracle,
    cut: u64,
    tally: &Tally,
) -> Result<(), String> {
    tally.cuts.set(tally.cuts.get() + 1);
    let (expected, left) = read_all(left, cut, &[])?;
    expect_prefix(oracle, &expected)?;
    let states = left.states();
    let is_rebuilding = |state: &MemberState| matches!(state, MemberState::Rebuilding { .. });
    let missing = states.contains(&MemberState::Missing);
    let replaced = states.iter().any(is_rebuilding);
    tally.missing.set(tally.missing.get() + u64::from(missing));
    tally
        .replaced
        .set(tally.replaced.get() + u64::from(replaced));
    let image = left.clone();
    let done = with_store(&left, cut, &[], patient(), async move |_, rt, open| {
        if missing {
            let spare = image.device(&rt, image.spare()).device;
            let replaced = open.array.replace(spare, "disk.again".into(), [78; 16]);
            replaced.await.map_err(|error| error.to_string())?;
        }
        rebuild(open.engine.clone(), RebuildRate::default()).await?;
        close(&open).await
    });
    let ((), done) = done?;
    // One of the drives is no member.
    for away in 1..=done.spare() {
        let (found, _) = read_all(&done, cut, &[away])?;
        same(&found, &expected, "finished", Some(away))?;
    }
    Ok(())
}

/// Runs stores with these seeds. The cuts, those that left a member missing, and a replacement, are at least so many.
fn survives(stores: &[(ArrayShape, u64)], by_itself: bool, step: u64, least: [u64; 3]) {
    let tally = Tally::default();
    for (plan, seed) in stores {
        run(*plan, *seed, by_itself, step, &tally);
    }
    let counts = [&tally.cuts, &tally.missing, &tally.replaced].map(|count| count.get());
    println!("cuts, with a member missing, with a replacement: {counts:?}");
    let enough = counts
        .iter()
        .zip(least)
        .all(|(count, least)| *count >= least);
    assert!(enough, "{counts:?}");
}

#[test]
fn member_replacement_under_load_survives_power_cuts() {
    let stores = [
        (OVERWRITE, 21),
        (OVERWRITE, 22),
        (SEGMENTS, 23),
        (HYLOG, 24),
    ];
    survives(&stores, false, 19, [61, 1, 11]);
}

/// The drive that has failed is all right again, as after a reset of its controller, and takes its own place. What it holds
/// is not erased before its failure is saved: until then an opening needs it.
#[test]
fn member_replacing_itself_survives_power_cuts() {
    let stores = [(OVERWRITE, 31), (SEGMENTS, 32)];
    survives(&stores, true, 3, [101, 4, 21]);
}
