//! Openings and ends that are interrupted: by a power cut, or by the end of the process and then a power cut.

#![allow(clippy::unwrap_used)]

use crate::common::{Open, SEGMENTS, bytes, commit, drive, run, store, trims, writes, zeroes};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{Engine, EngineError, HomeParams, OpenOptions, Scrub};
use tonearm_rt::{Op, Rt};
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

/// Content of the first blocks of [`crashed`].
const CONTENT: [u8; 12] = [1, 1, 1, 2, 2, 1, 0, 1, 0, 1, 1, 1];

/// A store that was cut off: blocks at home, and durable changes of them in the log.
fn crashed(home: HomeParams) -> Vec<DiskImage> {
    let (_, world) = run(&store(home), OpenOptions::default(), async |open: Open| {
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
        let pool = BufPool::new(1 << 20);
        let engine = Engine::open(&rt, &pool, members.collect(), options, |_| {}).await?;
        engine.close().await
    });
    poll_fn(|context| {
        let done = work.as_mut().poll(context).map(Some);
        match ends() {
            true => Poll::Ready(None),
            false => done,
        }
    })
    .await
}

/// The crash states of an opening and its end in `world`.
fn cuts(world: &SimWorld, options: OpenOptions) -> Vec<Crash> {
    let found: Rc<RefCell<Vec<Crash>>> = Rc::default();
    let seen = found.clone();
    world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
    let rt = Rt::new(world.driver());
    let (own, drives) = (rt.clone(), world.clone());
    let done = rt.block_on(async move { opened_and_closed(&drives, own, options, || false).await });
    done.unwrap().unwrap();
    rt.shut_down();
    world.clear_hook();
    found.borrow_mut().push(world.crash());
    found.take()
}

/// Everything durable is there, and right.
fn look(images: &[DiskImage], case: &str) {
    let case = case.to_string();
    run(images, OpenOptions::default(), async move |open: Open| {
        let engine = open.engine;
        assert_eq!(bytes(&engine, 0, 12).await.unwrap(), CONTENT, "{case}");
        assert_eq!(bytes(&engine, 600, 1).await.unwrap(), [4], "{case}");
        let report = engine.scrub(Scrub::Look, |_, _| true).await.unwrap();
        assert!(report.is_sound(), "{case}: {report:?}");
    });
}

fn ways() -> impl Iterator<Item = (Vec<DiskImage>, OpenOptions)> {
    let homes = [HomeParams::Overwrite, SEGMENTS].into_iter();
    homes.flat_map(|home| {
        let image = crashed(home);
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
                look(&images, &format!("cut {cut}, image {seed}"));
            }
        }
    }
}

/// A process opens a store or closes it, and ends right behind one of its writes: what it has written is in the drives' caches. The
/// next process reads all of that, and then the power fails.
#[test]
fn an_opening_after_a_killed_process_that_is_cut_anywhere_loses_nothing() {
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
                    );
                }
            }
        }
    }
}

/// A process writes a commit of two blocks to the log's cache and ends. The next one takes the commit for durable and brings it home.
/// Behind a cut all of the commit is there, or none.
#[test]
fn what_recovery_finds_in_a_cache_is_durable_before_it_goes_home() {
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
