//! A store on a drive that fails: writers get an error, and no caller waits for ever.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, in_world, store, with_log};
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::OpenOptions;
use tonearm_rt::{IoError, Op};

const B: u64 = BLOCK as u64;
const EDQUOT: IoError = IoError { errno: 122 };

fn block(byte: u8) -> Slice {
    BufPool::new(0).copy_of(&[byte; BLOCK]).share()
}

/// A drive may have thrown away what was in its cache when a flush fails, for lack of space too. Trying again would
/// report success for data that is gone, and the fence fails every later flush: waiting for space would never end.
#[test]
fn flush_failing_with_enospc_makes_the_store_read_only() {
    for segments in [false, true] {
        for error in [IoError::ENOSPC, EDQUOT, IoError::EIO] {
            let image = with_log(8 << 20, 1 << 20, segments);
            in_world(&image, OpenOptions::default(), async move |open: Open| {
                let Open {
                    world, rt, disk, ..
                } = open;
                disk.resize_volume("main", 512 * B).await.unwrap();
                let main = disk.volume("main").unwrap();
                main.write(0, block(1), true).await.unwrap();
                // Flushes of the home alone: the log is flushed before, and not during a write home.
                let mut written_home = false;
                world.set_fault(move |request| {
                    written_home |= request.op == Op::Write && request.offset >= 2 << 20;
                    (written_home && request.op == Op::Flush).then_some(error)
                });
                let engine = disk.engine().clone();
                let drained = rt.spawn(async move { engine.drain().await });
                rt.sleep(Nanos::from_secs(5)).await;
                world.clear_fault();
                rt.sleep(Nanos::from_secs(5)).await;
                let failure = disk.stats().failure.expect("the store has failed");
                assert!(failure.contains("flush failed on member"), "{failure}");
                assert!(drained.await.is_err());
                // No caller waits for ever, and the first reason stays.
                for index in 0..512 {
                    let refused = main.write(index * B, block(2), false).await.unwrap_err();
                    assert!(refused.to_string().contains(&failure), "{refused}");
                }
                assert!(disk.close().await.is_err());
            });
        }
    }
}

/// Data that the file system refuses to take is not lost: the store tries again until there is space.
#[test]
fn a_write_that_fails_for_lack_of_space_is_tried_again() {
    in_world(
        &store(8 << 20),
        OpenOptions::default(),
        async |open: Open| {
            let Open {
                world, rt, disk, ..
            } = open;
            let main = disk.volume("main").unwrap();
            main.write(0, block(1), true).await.unwrap();
            world.set_fault(|request| {
                (request.op == Op::Write && request.offset >= 3 << 20).then_some(EDQUOT)
            });
            let engine = disk.engine().clone();
            let drained = rt.spawn(async move { engine.drain().await });
            rt.sleep(Nanos::from_secs(5)).await;
            assert!(disk.stats().waiting_for_space && disk.stats().failure.is_none());
            world.clear_fault();
            rt.sleep(Nanos::from_secs(5)).await;
            drained.take().expect("it is at home").unwrap();
            disk.close().await.unwrap();
        },
    );
}

/// A caller that waits for a commit learns that the commit may not be durable. No later answer says the contrary.
#[test]
fn log_failure_reaches_waiters_and_fails_the_store() {
    for flush_fails in [false, true] {
        let image = with_log(8 << 20, 1 << 20, false);
        in_world(&image, OpenOptions::default(), async move |open: Open| {
            let Open {
                world, rt, disk, ..
            } = open;
            let main = disk.volume("main").unwrap();
            main.write(0, block(1), true).await.unwrap();
            disk.engine().drain().await.unwrap();
            world.set_fault(move |request| {
                let fails = match request.op {
                    Op::Flush => flush_fails,
                    Op::Write | Op::WriteDurable => !flush_fails,
                    _ => false,
                };
                fails.then_some(IoError::EIO)
            });
            main.write(0, block(2), false).await.unwrap();
            rt.sleep(Nanos::from_millis(1)).await;
            let flushing = rt.spawn({
                let disk = disk.clone();
                async move { disk.flush().await }
            });
            rt.sleep(Nanos::from_millis(100)).await;
            world.clear_fault();
            let acknowledged = flushing.take().expect("it does not wait for ever");
            let failure = disk.stats().failure.expect("the store has failed");
            assert!(
                acknowledged.is_err() && failure.contains("member"),
                "{failure}"
            );
            assert!(disk.flush().await.is_err());
            assert!(main.write(0, block(3), false).await.is_err());
            // Reads go on.
            assert!(main.read(0, B).await.is_ok());
            assert!(disk.close().await.is_err());
        });
    }
}
