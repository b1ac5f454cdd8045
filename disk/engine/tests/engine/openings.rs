//! Openings and ends that are interrupted by a power cut, also after the end of a process that has flushed nothing.

#![allow(clippy::unwrap_used)]

use crate::common::{Open, SEGMENTS, bytes, commit, drive, run, store, trims, writes, zeroes};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_engine::{Engine, EngineError, HomeParams, OpenOptions, Scrub};
use tonearm_rt::Rt;
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

/// Opens the store of `world`, and closes it.
fn opened_and_closed(world: &SimWorld, options: OpenOptions) -> Result<(), EngineError> {
    let rt = Rt::new(world.driver());
    let sizes: Vec<u64> = world.images().iter().map(|disk| disk.size).collect();
    let own = rt.clone();
    let result = rt.block_on(async move {
        let members = sizes.into_iter().enumerate();
        let members = members.map(|(index, bytes)| drive(&own, index, bytes));
        let pool = BufPool::new(1 << 20);
        let engine = Engine::open(&own, &pool, members.collect(), options, |_| {}).await?;
        engine.close().await
    });
    rt.shut_down();
    result
}

/// The crash states of an opening and its end in `world`.
fn cuts(world: &SimWorld, options: OpenOptions) -> Vec<Crash> {
    let found: Rc<RefCell<Vec<Crash>>> = Rc::default();
    let seen = found.clone();
    world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
    opened_and_closed(world, options).unwrap();
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
                run(&images, OpenOptions::default(), async move |open: Open| {
                    let first = bytes(&open.engine, 0, 1).await.unwrap();
                    let second = bytes(&open.engine, 600, 1).await.unwrap();
                    assert_eq!(first, second, "cut {cut}, image {seed}");
                    first[0]
                })
                .0
                .eq(&1)
                .then(|| older += 1)
                .unwrap_or_else(|| newer += 1);
            }
        }
        assert!(older > 3 && newer > 3, "{older} older, {newer} newer");
    }
}
