//! Openings and ends that are interrupted: by a power cut, or by the end of the process and then a power cut.

#![allow(clippy::unwrap_used)]

use crate::arrays::array;
use crate::common::{
    Open, SEGMENTS, bytes, commit, drive, open_store, placed, run, store, trims, writes, zeroes,
};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::Nanos;
use tonearm_device::Redundancy;
use tonearm_engine::{EngineError, HomeParams, OpenOptions, Scrub};
use tonearm_format::Placement;
use tonearm_rt::{IoError, Op, Rt};
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

/// Content of the first blocks of [`crashed`].
const CONTENT: [u8; 12] = [1, 1, 1, 2, 2, 1, 0, 1, 0, 1, 1, 1];

/// A store that was cut off: blocks at home, and durable changes of them in the log.
fn crashed(empty: &[DiskImage]) -> Vec<DiskImage> {
    let (_, world) = run(empty, OpenOptions::default(), async |open: Open| {
        let engine = open.engine;
        commit(&engine, vec![writes(0, 12, 1)]).await.unwrap();
        engine.drain().await.unwrap();
        let all = vec![
            writes(3, 2, 2),
            trims(6, 1),
            zeroes(8, 1),
            writes(600, 1, 4),
        ];
        let mut last = None;
        for change in all {
            last = Some(commit(&engine, vec![change]).await.unwrap());
        }
        engine.wait_durable(last.unwrap()).await.unwrap();
    });
    world.crash().images(1)
}

/// Opens the store of `world`, and closes it; `None` when `ends` says that the process ends before that.
async fn opened_and_closed(
    world: &SimWorld,
    rt: Rt,
    options: OpenOptions,
    ends: impl Fn() -> bool,
) -> Option<Result<(), EngineError>> {
    let sizes: Vec<u64> = world.images().iter().map(|disk| disk.size).collect();
    let mut work = Box::pin(async move {
        let members = sizes.into_iter().enumerate();
        let members = members.map(|(index, bytes)| drive(&rt, index, bytes));
        let (engine, array) = open_store(&rt, members.collect(), options).await?;
        engine.close().await?;
        match array {
            Some(array) => Ok(array.close().await?),
            None => Ok(()),
        }
    });
    poll_fn(|context| {
        let done = work.as_mut().poll(context).map(Some);
        if ends() { Poll::Ready(None) } else { done }
    })
    .await
}

/// The crash states of an opening and its end in `world`.
fn cuts(world: &SimWorld, options: OpenOptions) -> Vec<Crash> {
    let found = Rc::default();
    watched(world, options, &found).unwrap();
    found.take()
}

/// Opens and closes the store of `world`, and adds its crash states to `found`.
fn watched(
    world: &SimWorld,
    options: OpenOptions,
    found: &Rc<RefCell<Vec<Crash>>>,
) -> Result<(), EngineError> {
    let seen = found.clone();
    world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
    let rt = Rt::new(world.driver());
    let (own, drives) = (rt.clone(), world.clone());
    let done = rt.block_on(async move {
        let done = opened_and_closed(&drives, own.clone(), options, || false).await;
        // The drives end what they were given.
        own.sleep(Nanos::from_millis(5)).await;
        done
    });
    rt.shut_down();
    world.clear_hook();
    found.borrow_mut().push(world.crash());
    done.unwrap()
}

/// Everything durable is there, and right.
fn look(images: &[DiskImage], case: &str, scrubs: bool) {
    let case = case.to_string();
    run(images, OpenOptions::default(), async move |open: Open| {
        let engine = open.engine;
        let first = bytes(&engine, 0, 12).await.expect(&case);
        assert_eq!(first, CONTENT, "{case}");
        assert_eq!(bytes(&engine, 600, 1).await.expect(&case), [4], "{case}");
        if scrubs {
            let report = engine.scrub(Scrub::Look, |_, _| true).await.unwrap();
            assert!(report.is_sound(), "{case}: {report:?}");
        }
    });
}

fn ways() -> impl Iterator<Item = (Vec<DiskImage>, OpenOptions)> {
    let homes = [HomeParams::Overwrite, SEGMENTS].into_iter();
    homes.flat_map(|home| {
        let image = crashed(&store(home));
        [false, true].map(|write_back_on_recovery| {
            let options = OpenOptions {
                write_back_on_recovery,
                ..OpenOptions::default()
            };
            (image.clone(), options)
        })
    })
}

#[test]
fn an_opening_or_an_end_that_is_cut_anywhere_loses_nothing() {
    for (image, options) in ways() {
        let world = SimWorld::new(SimOptions::default(), image);
        let crashes = cuts(&world, options);
        assert!(crashes.len() > 20, "{} cuts", crashes.len());
        for (cut, crash) in crashes.iter().enumerate().step_by(2) {
            for seed in 0..3 {
                let images = crash.images(seed + 10 * cut as u64);
                look(&images, &format!("cut {cut}, image {seed}"), true);
            }
        }
    }
}

/// A process opens a store or closes it, and ends right after one of its writes: what it has written is in the drives' caches. The
/// next process reads all of that, and then the power fails.
#[test]
fn opening_after_a_kill_survives_power_cuts() {
    for (image, options) in ways().step_by(2) {
        for nth in (1..).step_by(3) {
            let world = SimWorld::new(SimOptions::default(), image.clone());
            let writes = Rc::new(Cell::new(0));
            let noted = writes.clone();
            world.set_fault(move |request| {
                noted.set(noted.get() + u64::from(request.op == Op::Write));
                None
            });
            let rt = Rt::new(world.driver());
            let (own, drives, count) = (rt.clone(), world.clone(), writes.clone());
            let options_too = options.clone();
            let done = rt.block_on(async move {
                let ends = || count.get() >= nth;
                let done = opened_and_closed(&drives, own.clone(), options_too, ends).await;
                // The drives end what they were given.
                own.sleep(Nanos::from_millis(5)).await;
                done
            });
            rt.shut_down();
            world.clear_fault();
            if done.is_some() {
                assert!(nth > 12, "{nth} writes");
                break;
            }
            let crashes = cuts(&world, options.clone());
            for (cut, crash) in crashes.iter().enumerate().step_by(7) {
                for seed in 0..3 {
                    let images = crash.images(seed + 10 * cut as u64);
                    look(
                        &images,
                        &format!("killed at write {nth}, cut {cut}, image {seed}"),
                        true,
                    );
                }
            }
        }
    }
}

/// One request of an opening or its end fails, any of them: the opening ends with an error, or goes on. The power fails then, or
/// in the opening that follows and reads what is in the caches.
#[test]
fn an_opening_with_a_failed_request_loses_nothing() {
    let homes = [
        HomeParams::Overwrite,
        SEGMENTS,
        placed(Placement::Hylog),
        placed(Placement::Wolf),
    ];
    let of_array = [array(HomeParams::Overwrite)];
    for empty in homes.map(store).iter().chain(&of_array) {
        let image = crashed(empty);
        let options = OpenOptions {
            write_back_on_recovery: true,
            ..OpenOptions::default()
        };
        let (mut refused, mut survived) = (0, 0);
        // An array takes more requests for each opening, and for longer.
        let stride = if image.len() == 2 { 1 } else { 7 };
        for nth in (0..).step_by(stride) {
            let world = SimWorld::new(SimOptions::default(), image.clone());
            let found: Rc<RefCell<Vec<Crash>>> = Rc::default();
            let failed = Rc::new(Cell::new(None));
            let (seen, at, mut requests) = (found.clone(), failed.clone(), 0);
            world.set_fault(move |request| {
                requests += 1;
                let fails = requests == nth + 1;
                fails.then(|| {
                    at.set(Some((seen.borrow().len(), request.op)));
                    IoError::EIO
                })
            });
            let ended = watched(&world, options.clone(), &found);
            world.clear_fault();
            let Some((from, op)) = failed.get() else {
                break;
            };
            *if ended.is_ok() {
                &mut survived
            } else {
                &mut refused
            } += 1;
            let crashes = found.take();
            let last = crashes.len() - 1;
            let later = (from..last).step_by(9 * stride).chain([last]);
            let mut cases: Vec<_> = later.map(|cut| (cut, crashes[cut].clone())).collect();
            // The next opening reads the medium if a flush has failed (docs/faults.md), else what is in the caches.
            let next = match op {
                Op::Flush => SimWorld::new(SimOptions::default(), crashes[last].images(nth)),
                _ => world,
            };
            let next = cuts(&next, options.clone());
            cases.extend(next.into_iter().enumerate().step_by(23 * stride));
            for (index, (cut, crash)) in cases.iter().enumerate() {
                for seed in 0..2 {
                    let case = format!("{op:?} {nth} fails: {ended:?}; cut {cut}, image {seed}");
                    let draw = seed + 2 * (index as u64 + nth);
                    // A scrub of an array compares all its stripes, and takes long.
                    let scrubs = image.len() == 2 || draw.is_multiple_of(64);
                    look(&crash.images(draw), &case, scrubs);
                }
            }
        }
        assert!(refused > 5 && survived > 20, "{refused} and {survived}");
    }
}

/// A process writes a commit of two blocks to the log's cache and ends. The next one takes the commit for durable and brings it home.
/// Behind a cut all of the commit is there, or none.
#[test]
fn recovery_flushes_the_log_before_write_back() {
    for home in [HomeParams::Overwrite, SEGMENTS] {
        let empty = store(home);
        let (_, first) = run(&empty, OpenOptions::default(), async |open: Open| {
            let engine = open.engine;
            commit(&engine, vec![writes(0, 1, 1), writes(600, 1, 1)])
                .await
                .unwrap();
            engine.close().await.unwrap();
        });
        let closed = first.images();
        let (_, world) = run(&closed, OpenOptions::default(), async |open: Open| {
            let engine = open.engine;
            commit(&engine, vec![writes(0, 1, 2), writes(600, 1, 2)])
                .await
                .unwrap();
            engine.wait_flushed().await.unwrap();
        });
        let options = OpenOptions {
            write_back_on_recovery: true,
            ..OpenOptions::default()
        };
        let (mut older, mut newer) = (0, 0);
        for (cut, crash) in cuts(&world, options).iter().enumerate() {
            for seed in 0..6 {
                let images = crash.images(seed + 10 * cut as u64);
                let (version, _) = run(&images, OpenOptions::default(), async move |open: Open| {
                    let first = bytes(&open.engine, 0, 1).await.unwrap();
                    let second = bytes(&open.engine, 600, 1).await.unwrap();
                    assert_eq!(first, second, "cut {cut}, image {seed}");
                    first[0]
                });
                *if version == 1 { &mut older } else { &mut newer } += 1;
            }
        }
        assert!(older > 3 && newer > 3, "{older} older, {newer} newer");
    }
}
