//! A store is closed while others use it: they get an error, what was acknowledged stays, and the store is clean.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, bytes, in_world, with_log};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::{Disk, DiskError, OpenOptions, Volume};
use tonearm_rt::{IoError, Op, Rt};

const B: u64 = BLOCK as u64;
const BLOCKS: u64 = 1024;

fn options(memory_bytes: u64) -> OpenOptions {
    OpenOptions {
        memory_bytes,
        ..OpenOptions::default()
    }
}

fn content(block: u64, version: u64) -> Slice {
    let mut content = vec![version as u8; BLOCK];
    content[..8].copy_from_slice(&block.to_le_bytes());
    content[8..16].copy_from_slice(&version.to_le_bytes());
    BufPool::new(0).copy_of(&content).share()
}

/// The last version of each block of which its writer knows that it is there, and the last that it began.
type Versions = Rc<RefCell<Vec<(u64, u64)>>>;

/// Overwrites the blocks of one client until it is refused.
async fn client(volume: Volume, number: u64, clients: u64, versions: Versions) -> DiskError {
    let mut random = number + 1;
    for version in 1.. {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let block = (random >> 33) % (BLOCKS / clients) * clients + number;
        versions.borrow_mut()[block as usize].1 = version;
        let written = async {
            if random >> 40 & 3 == 0 {
                // Parts of two blocks, which are read first.
                let offset = BLOCKS * B + number * B + 512;
                volume.write_zeroes(offset, B, false, false).await?;
            }
            let data = content(block, version);
            data.attach(Rc::new(volume.reserve(B).await?));
            volume.write(block * B, data, version % 5 == 0).await
        };
        match written.await {
            Ok(()) => versions.borrow_mut()[block as usize].0 = version,
            Err(error) => return error,
        }
    }
    unreachable!()
}

async fn check(disk: &Disk, versions: &[(u64, u64)]) {
    let main = disk.volume("main").unwrap();
    for (block, (acknowledged, begun)) in (0..).zip(versions) {
        let found = bytes(main.read(block * B, B).await.unwrap());
        let version = u64::from_le_bytes(found[8..16].try_into().unwrap());
        assert!((*acknowledged..=*begun).contains(&version), "block {block}");
        if version > 0 {
            assert!(found[..] == content(block, version)[..], "block {block}");
        }
    }
}

/// The results of clients when the store is closed `after` they have begun.
async fn close_under(rt: &Rt, disk: &Disk, clients: u64, after: Nanos) -> Vec<(u64, u64)> {
    let versions: Versions = Rc::new(RefCell::new(vec![(0, 0); BLOCKS as usize]));
    let refused = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..clients)
        .map(|number| {
            let volume = disk.volume("main").unwrap();
            let (versions, refused) = (versions.clone(), refused.clone());
            rt.spawn(async move {
                let error = client(volume, number, clients, versions).await.to_string();
                assert!(
                    ["the store is being closed", "the store is closed"].contains(&error.as_str()),
                    "{error}"
                );
                refused.set(refused.get() + 1);
            })
        })
        .collect();
    rt.sleep(after).await;
    disk.close().await.unwrap();
    // No client is still waiting.
    rt.sleep(Nanos::from_secs(2)).await;
    assert_eq!(refused.get(), clients);
    for task in tasks {
        task.await;
    }
    versions.take()
}

#[test]
fn close_under_waiting_writers_leaves_a_clean_store() {
    let mut waited = 0;
    for segments in [false, true] {
        for log_bytes in [512 << 10, 1 << 20, 4 << 20] {
            let image = with_log(24 << 20, log_bytes, segments);
            for round in 0..12u64 {
                // Memory or the log is what they wait for.
                let memory = if round % 3 == 0 { 256 << 10 } else { 64 << 20 };
                let work = async move |open: Open| {
                    let Open { rt, disk, .. } = open;
                    disk.resize_volume("main", (BLOCKS + 100) * B)
                        .await
                        .unwrap();
                    let after = Nanos::from_micros(20_000 + 1_733 * round);
                    let versions = close_under(&rt, &disk, 32, after).await;
                    let stats = disk.stats();
                    (versions, stats.log_full_waits)
                };
                let ((versions, waits), image) = in_world(&image, options(memory), work);
                waited += waits;
                in_world(&image, options(64 << 20), async move |open: Open| {
                    assert!(open.disk.recovery().clean, "round {round}");
                    check(&open.disk, &versions).await;
                    open.disk.close().await.unwrap();
                });
            }
        }
    }
    assert!(waited > 1000, "{waited} waits for log space");
}

/// A commit comes at each step of the closing.
#[test]
fn a_commit_at_any_step_of_closing_is_refused_or_kept() {
    for segments in [false, true] {
        let image = with_log(8 << 20, 512 << 10, segments);
        let mut last = 0;
        for step in 0.. {
            let work = async move |open: Open| {
                let Open {
                    world, rt, disk, ..
                } = open;
                disk.resize_volume("main", 64 * B).await.unwrap();
                let main = disk.volume("main").unwrap();
                for block in 0..40 {
                    main.write(block * B, content(block, 1), false)
                        .await
                        .unwrap();
                }
                let (kept, now) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
                let (steps, mark) = (Rc::new(Cell::new(0)), now.clone());
                let (count, outcome) = (steps.clone(), kept.clone());
                world.on_io(move |_, _| {
                    count.set(count.get() + 1);
                    mark.set(mark.get() || count.get() > step);
                });
                let own = rt.clone();
                let commit = rt.spawn(async move {
                    while !now.get() {
                        own.yield_now().await;
                        own.sleep(Nanos(100)).await;
                    }
                    outcome.set(Some(main.write(0, content(0, 2), false).await.is_ok()));
                });
                disk.close().await.unwrap();
                world.clear_hook();
                let steps = steps.get();
                rt.sleep(Nanos::from_secs(1)).await;
                drop(commit);
                (kept.get(), steps)
            };
            let ((kept, steps), image) = in_world(&image, options(4 << 20), work);
            in_world(&image, options(4 << 20), async move |open: Open| {
                assert!(open.disk.recovery().clean, "step {step}");
                let main = open.disk.volume("main").unwrap();
                let found = bytes(main.read(0, B).await.unwrap())[8];
                let expected = if kept == Some(true) { 2 } else { 1 };
                assert_eq!(found, expected, "step {step}");
                open.disk.close().await.unwrap();
            });
            if steps <= step {
                last = step;
                break;
            }
        }
        assert!(last > 5, "{last} steps");
    }
}

/// A writer that waits for log space makes the log write a marker. No caller waits for the marker.
#[test]
fn closing_waits_for_a_marker_that_is_under_way() {
    for yields in 0..6 {
        let image = with_log(8 << 20, 512 << 10, false);
        let work = async move |open: Open| {
            let Open { rt, disk, .. } = open;
            disk.resize_volume("main", 64 * B).await.unwrap();
            let main = disk.volume("main").unwrap();
            for block in 0..40 {
                let data = content(block, 1);
                main.write(block * B, data, true).await.unwrap();
            }
            // All is at home, but the log does not know.
            let engine = disk.engine().clone();
            engine.drain().await.unwrap();
            let most = engine.commit_blocks_max();
            let waiting = rt.spawn(async move { engine.admit(most, 0).await.is_ok() });
            while disk.stats().log_full_waits == 0 {
                rt.yield_now().await;
            }
            for _ in 0..yields {
                rt.yield_now().await;
            }
            disk.close().await.unwrap();
            assert!(!waiting.await, "it is refused");
        };
        let (_, image) = in_world(&image, options(4 << 20), work);
        in_world(&image, options(4 << 20), async |open: Open| {
            assert!(open.disk.recovery().clean);
            open.disk.close().await.unwrap();
        });
    }
}

/// The medium has no space while the store is being closed: writers that wait for space learn of the closing at once.
#[test]
fn close_refuses_writers_that_wait_for_space() {
    let image = with_log(8 << 20, 1 << 20, false);
    in_world(&image, options(256 << 10), async |open: Open| {
        let Open {
            world, rt, disk, ..
        } = open;
        disk.resize_volume("main", 512 * B).await.unwrap();
        let main = disk.volume("main").unwrap();
        world.set_fault(|request| {
            (request.op == Op::Write && request.offset >= 2 << 20).then_some(IoError::ENOSPC)
        });
        let writing = rt.spawn(async move {
            for block in 0.. {
                let data = content(block, 1);
                data.attach(Rc::new(main.reserve(B).await?));
                main.write(block * B, data, false).await?;
            }
            Ok::<_, DiskError>(())
        });
        rt.sleep(Nanos::from_secs(5)).await;
        assert!(disk.stats().waiting_for_space);
        let closing = rt.spawn({
            let disk = disk.clone();
            async move { disk.close().await }
        });
        rt.sleep(Nanos::from_millis(1)).await;
        let refused = writing.take().expect("it waits no longer").unwrap_err();
        assert_eq!(refused.to_string(), "the store is being closed");
        assert!(closing.take().is_none(), "there is no space yet");
        world.clear_fault();
        closing.await.unwrap();
    });
}
