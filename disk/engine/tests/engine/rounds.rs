//! A round of the write-back that fails brings nothing home: the log keeps what it had.

#![allow(clippy::unwrap_used)]

use crate::common::{
    BLOCK, HOME, Open, SEGMENTS, bytes, commit, run, slow, store, trims, writes, zeroes,
};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{CommitChange, Engine, EngineError, HomeParams, OpenOptions};
use tonearm_format::SYSTEM_BLOCKS;
use tonearm_rt::{IoError, JoinHandle, Op, Rt};
use tonearm_world::SimWorld;

/// What is committed to a block while a round writes it home.
#[derive(Clone, Copy, PartialEq, Debug)]
enum During {
    Write,
    Trim,
    Zero,
    /// Twice.
    Writes,
    /// Another block, with a content of half of a block's words, then this one.
    Others,
}

impl During {
    const ALL: [Self; 5] = [
        Self::Write,
        Self::Trim,
        Self::Zero,
        Self::Writes,
        Self::Others,
    ];

    fn commits(self) -> Vec<CommitChange> {
        match self {
            Self::Write => vec![writes(0, 1, 2)],
            Self::Trim => vec![trims(0, 1)],
            Self::Zero => vec![zeroes(0, 1)],
            Self::Writes => vec![writes(0, 1, 5), writes(0, 1, 2)],
            Self::Others => vec![writes(2, 1, 7), writes(0, 1, 2)],
        }
    }
}

/// A durable version is on its way home, another one is committed, and the round fails. Then the power fails. The newer version may
/// be lost, the durable one not. Of all images of the cut, only some show an error.
#[test]
fn failed_round_loses_no_durable_version() {
    let empty = store(HomeParams::Overwrite);
    for during in During::ALL {
        for twice in [false, true] {
            let ((), world) = run(&empty, OpenOptions::default(), async move |open: Open| {
                failing_round(open, during, twice).await;
            });
            let crash = world.crash();
            for seed in 0..40 {
                let images = crash.images(seed);
                let (found, _) = run(&images, OpenOptions::default(), async |open: Open| {
                    bytes(&open.engine, 0, 1).await.unwrap()[0]
                });
                let newer = match during {
                    During::Trim | During::Zero => 0,
                    _ => 2,
                };
                let sound = found == 1 || found == newer || during == During::Writes && found == 5;
                assert!(sound, "{during:?}, twice {twice}, image {seed}: {found}");
            }
        }
    }
}

async fn failing_round(open: Open, during: During, twice: bool) {
    let Open { world, rt, engine } = open;
    let lsn = commit(&engine, vec![writes(0, 1, 1)]).await.unwrap();
    engine.wait_durable(lsn).await.unwrap();
    world.set_fault(|request| {
        let home = matches!(request.op, Op::Write | Op::Punch | Op::Zero);
        (home && request.device.0 == HOME).then_some(IoError::ENOSPC)
    });
    slow(&world, 2000);
    let own = engine.clone();
    let drain = rt.spawn(async move { own.drain().await.map(drop) });
    rt.sleep(Nanos::from_micros(50)).await;
    for change in during.commits() {
        commit(&engine, vec![change]).await.unwrap();
    }
    while !engine.stats().waiting_for_space {
        rt.sleep(Nanos::from_millis(1)).await;
    }
    if twice {
        // The round is tried again, and fails again.
        rt.sleep(Nanos::from_millis(1500)).await;
    }
    // A later record, which names the log start.
    commit(&engine, vec![writes(1, 1, 3)]).await.unwrap();
    rt.sleep(Nanos::from_millis(2)).await;
    drop(drain);
}

/// After a failed round the blocks are written back with the next one, each with its newest version.
#[test]
fn next_round_writes_back_blocks_of_a_failed_one() {
    let empty = store(HomeParams::Overwrite);
    for during in During::ALL {
        let (found, world) = run(&empty, OpenOptions::default(), async move |open: Open| {
            let (world, engine) = (open.world.clone(), open.engine.clone());
            failing_round(open, during, false).await;
            world.clear_fault();
            world.heal();
            engine.close().await.unwrap();
        });
        let () = found;
        run(
            &world.images(),
            OpenOptions::default(),
            async move |open: Open| {
                assert!(open.engine.recovery().clean);
                let newest = match during {
                    During::Trim | During::Zero => 0,
                    _ => 2,
                };
                assert_eq!(
                    bytes(&open.engine, 0, 2).await.unwrap(),
                    [newest, 3],
                    "{during:?}"
                );
                assert!(open.engine.size_blocks() > SYSTEM_BLOCKS);
            },
        );
    }
}

/// Commits three blocks for which there is no space below, whether they are written back together or one by one, and waits until that is
/// known. Returns a task that waits until all is at home.
async fn three_blocks_wait(
    world: &SimWorld,
    rt: &Rt,
    engine: &Engine,
) -> JoinHandle<Result<(), EngineError>> {
    let mut place = None;
    world.set_fault(move |request| {
        if request.op != Op::Write || request.device.0 != HOME {
            return None;
        }
        if request.data.len() == 3 * BLOCK {
            place.get_or_insert(request.offset);
        }
        let at = place?;
        (at..at + 3 * BLOCK as u64)
            .contains(&request.offset)
            .then_some(IoError::ENOSPC)
    });
    commit(engine, vec![writes(0, 3, 2)]).await.unwrap();
    let own = engine.clone();
    let drain = rt.spawn(async move { own.drain().await.map(drop) });
    while !engine.stats().waiting_for_space {
        rt.sleep(Nanos::from_millis(1)).await;
    }
    drain
}

/// There is space below for what has some, and none for a new block. A range that is freed is written back meanwhile, so that it makes
/// space, and the log does not keep it.
#[test]
fn trims_are_written_back_while_blocks_wait_for_space() {
    let ((), world) = run(
        &store(HomeParams::Overwrite),
        OpenOptions::default(),
        async |open: Open| {
            let Open { world, rt, engine } = open;
            commit(&engine, vec![writes(100, 1, 1)]).await.unwrap();
            engine.drain().await.unwrap();
            let drain = three_blocks_wait(&world, &rt, &engine).await;
            let lsn = commit(&engine, vec![trims(100, 1)]).await.unwrap();
            engine.wait_durable(lsn).await.unwrap();
            rt.sleep(Nanos::from_secs(2)).await;
            let stats = engine.stats();
            assert!(stats.waiting_for_space);
            assert_eq!(stats.pending_ranges, 0);
            // The blocks follow when there is space.
            world.clear_fault();
            drain.await.unwrap();
            engine.close().await.unwrap();
        },
    );
    let options = OpenOptions::default();
    run(&world.images(), options, async |open: Open| {
        assert_eq!(bytes(&open.engine, 0, 3).await.unwrap(), [2; 3]);
        assert_eq!(bytes(&open.engine, 100, 1).await.unwrap(), [0]);
    });
}

/// A trim takes all that waits for space below, or all of it that may be written back. With it at home the store goes on, although no block
/// follows it.
#[test]
fn a_trim_of_what_waits_for_space_ends_the_wait() {
    for others in [false, true] {
        run(
            &store(HomeParams::Overwrite),
            OpenOptions::default(),
            async move |open: Open| {
                let Open { world, rt, engine } = open;
                let drain = three_blocks_wait(&world, &rt, &engine).await;
                let lsn = commit(&engine, vec![trims(0, 3)]).await.unwrap();
                engine.wait_durable(lsn).await.unwrap();
                if others {
                    // It is not durable when the trim is written back.
                    commit(&engine, vec![writes(9, 1, 1)]).await.unwrap();
                }
                rt.sleep(Nanos::from_secs(2)).await;
                drain.await.unwrap();
                assert!(!engine.stats().waiting_for_space, "{others}");
                assert_eq!(engine.stats().pinned_blocks, 0);
                engine.close().await.unwrap();
            },
        );
    }
}

/// The oldest blocks are written back one by one where there is no space for all of them. The log advances up to the first that has none.
#[test]
fn blocks_with_space_are_written_back_past_one_without() {
    const ALL: u64 = 40;
    const LAST: u64 = 31;
    run(
        &store(HomeParams::Overwrite),
        OpenOptions::default(),
        async |open: Open| {
            let Open { world, rt, engine } = open;
            commit(&engine, vec![writes(LAST, 1, 1)]).await.unwrap();
            let place = Rc::new(Cell::new(None));
            let (sink, refuses) = (place.clone(), Rc::new(Cell::new(false)));
            let is_full = refuses.clone();
            world.set_fault(move |request| {
                if request.op != Op::Write || request.device.0 != HOME {
                    return None;
                }
                if !is_full.get() {
                    sink.set(Some(request.offset));
                    return None;
                }
                let at = sink.get().unwrap();
                let end = request.offset + request.data.len() as u64;
                ((request.offset..end).contains(&at)).then_some(IoError::ENOSPC)
            });
            engine.drain().await.unwrap();
            refuses.set(true);
            // From the oldest to the youngest the blocks descend, so that a sweep would begin with the youngest.
            for block in (0..ALL).rev() {
                let lsn = commit(&engine, vec![writes(block, 1, 2)]).await.unwrap();
                engine.wait_durable(lsn).await.unwrap();
            }
            let own = engine.clone();
            let drain = rt.spawn(async move { own.drain().await.map(drop) });
            rt.sleep(Nanos::from_secs(20)).await;
            let stats = engine.stats();
            assert!(stats.waiting_for_space);
            assert_eq!(stats.pinned_blocks, LAST + 1);
            world.clear_fault();
            drain.await.unwrap();
            assert!(!engine.stats().waiting_for_space);
            engine.close().await.unwrap();
        },
    );
}

/// The result of `future`, unless it takes longer than a while.
async fn soon<T>(rt: &Rt, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut end) = (pin!(future), pin!(rt.sleep(Nanos::from_secs(5))));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// There is no space below and the log is full. What frees fewer blocks than it logs waits, and what frees more does not.
#[test]
fn small_trims_wait_while_log_and_data_area_are_full() {
    run(
        &store(HomeParams::Overwrite),
        OpenOptions::default(),
        async |open: Open| {
            let Open { world, rt, engine } = open;
            world.set_fault(|request| {
                let is_home = request.op == Op::Write && request.device.0 == HOME;
                is_home.then_some(IoError::ENOSPC)
            });
            for blocks in [16, 1] {
                while let Some(done) = soon(&rt, commit(&engine, vec![writes(0, blocks, 1)])).await
                {
                    engine.wait_durable(done.unwrap()).await.unwrap();
                }
            }
            assert!(engine.stats().waiting_for_space);
            let small = soon(&rt, engine.admit(4, 3)).await;
            assert!(small.is_none(), "it waits");
            let large = soon(&rt, engine.admit(4, 4)).await;
            drop(large.unwrap().unwrap());
            world.clear_fault();
            engine.drain().await.unwrap();
            let small = soon(&rt, engine.admit(4, 3)).await;
            drop(small.unwrap().unwrap());
            engine.close().await.unwrap();
        },
    );
}

/// A caller that waits for everything to be at home, or for a checkpoint, gives up. What is committed later stays in the log for its
/// usual time.
#[test]
fn a_wait_that_is_given_up_makes_no_more_rounds() {
    for checkpoint in [false, true] {
        run(
            &store(HomeParams::Overwrite),
            OpenOptions::default(),
            async move |open: Open| {
                let Open { rt, engine, .. } = open;
                commit(&engine, vec![writes(0, 1, 1)]).await.unwrap();
                let own = engine.clone();
                let mut waits: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                    if checkpoint {
                        drop(own.checkpoint().await)
                    } else {
                        drop(own.drain().await)
                    }
                });
                let polled =
                    poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending()));
                assert!(polled.await, "it waits for a round");
                drop(waits);
                engine.drain().await.unwrap();
                let before = engine.stats().write_back_rounds;
                for block in 0..20 {
                    commit(&engine, vec![writes(block, 1, 2)]).await.unwrap();
                    rt.sleep(Nanos::from_millis(100)).await;
                }
                assert_eq!(engine.stats().write_back_rounds, before);
            },
        );
    }
}

/// Overwrites blocks at random without end. `waiting` counts those that wait for memory.
async fn overwrite(engine: Engine, writer: u64, waiting: Rc<Cell<u64>>) {
    let mut block = writer;
    loop {
        waiting.set(waiting.get() + 1);
        let permit = engine.reserve(BLOCK as u64).await.unwrap();
        waiting.set(waiting.get() - 1);
        let mut data = BufPool::new(0).copy_of(&[writer as u8; BLOCK]);
        data.attach(Rc::new(permit));
        block = (block * 37 + 11) % 800;
        let write = CommitChange::Write {
            first: SYSTEM_BLOCKS + block,
            data: data.share(),
        };
        commit(&engine, vec![write]).await.unwrap();
    }
}

/// Many writers overwrite blocks at random, faster than the write-back brings them home, from a slow drive and then from a fast one.
/// While no request is under way, not all of them wait.
#[test]
fn writers_do_not_wait_while_the_drives_are_idle() {
    for home in [HomeParams::Overwrite, SEGMENTS] {
        let options = OpenOptions {
            memory_bytes: 512 << 10,
            ..OpenOptions::default()
        };
        let ((idle, all), _) = run(&store(home), options, async move |open: Open| {
            let Open { world, rt, engine } = open;
            slow(&world, 1000);
            let waiting = Rc::new(Cell::new(0u64));
            let writers: Vec<_> = (0..16u64)
                .map(|writer| rt.spawn(overwrite(engine.clone(), writer, waiting.clone())))
                .collect();
            let mut idle = [0; 2];
            for look in 0..3000 {
                rt.sleep(Nanos::from_millis(10)).await;
                if look == 2500 {
                    world.heal();
                }
                let is_idle = waiting.get() == 16 && rt.in_flight() == 0;
                idle[usize::from(look > 2500)] += u64::from(is_idle);
            }
            drop(writers);
            (idle, engine.stats().commits)
        });
        println!("{home:?}: {all} commits, idle {idle:?}");
        assert!(all > 1000, "{all} commits");
        assert_eq!(idle, [0, 0], "of 2500 and 500 looks, with {home:?}");
    }
}

/// Commits wait in memory for others. Once it is full none can come, and the round that writers wait for does not wait, either.
#[test]
fn round_that_writers_wait_for_does_not_wait_for_the_commit_delay() {
    let options = OpenOptions {
        memory_bytes: 64 << 10,
        commit_delay: Nanos::from_secs(10),
        ..OpenOptions::default()
    };
    let (commits, _) = run(
        &store(HomeParams::Overwrite),
        options,
        async |open: Open| {
            let Open { rt, engine, .. } = open;
            let waiting = Rc::new(Cell::new(0));
            let writer = rt.spawn(overwrite(engine.clone(), 1, waiting));
            rt.sleep(Nanos::from_secs(5)).await;
            drop(writer);
            engine.stats().commits
        },
    );
    assert!(commits > 1000, "{commits} commits in memory for 16 blocks");
}
