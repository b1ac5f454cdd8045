//! What an administrator must know of is an event at the moment when it happens, once, whether or not a caller sees an error.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, in_world, store, with_log};
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::{Disk, EventClass, OpenOptions, StoreEvent};
use tonearm_rt::{IoError, Op};

const B: u64 = BLOCK as u64;

fn block(byte: u8) -> Slice {
    BufPool::new(0).copy_of(&[byte; BLOCK]).share()
}

fn events(disk: &Disk) -> Vec<StoreEvent> {
    disk.engine().events().kept()
}

#[test]
fn log_failure_is_an_event_without_waiting_commits() {
    for fails in [Op::Write, Op::Flush] {
        let image = with_log(8 << 20, 1 << 20, false);
        in_world(&image, OpenOptions::default(), async move |open: Open| {
            let Open {
                world, rt, disk, ..
            } = open;
            let main = disk.volume("main").unwrap();
            world.set_fault(move |request| {
                let same =
                    request.op == fails || fails == Op::Write && request.op == Op::WriteDurable;
                same.then_some(IoError::EIO)
            });
            assert_eq!(events(&disk), []);
            main.write(0, block(1), false).await.unwrap();
            if fails == Op::Flush {
                // The write-back asks for the flush.
                let engine = disk.engine().clone();
                rt.spawn_detached(async move { drop(engine.drain().await) });
            }
            rt.sleep(Nanos::from_secs(1)).await;
            let known = events(&disk);
            let [StoreEvent::ReadOnly { why }] = &known[..] else {
                panic!("{known:?}");
            };
            assert_eq!(Some(why), disk.stats().failure.as_ref());
            assert!(why.contains("member"), "{why}");
            // Later failures are no news.
            assert!(main.write(0, block(2), false).await.is_err());
            assert!(disk.flush().await.is_err());
            assert!(disk.close().await.is_err());
            assert_eq!(events(&disk).len(), 1);
            assert_eq!(disk.stats().failures, 1);
        });
    }
}

#[test]
fn the_end_of_space_below_and_new_space_are_one_event_each() {
    in_world(
        &store(8 << 20),
        OpenOptions::default(),
        async |open: Open| {
            let Open {
                world, rt, disk, ..
            } = open;
            let main = disk.volume("main").unwrap();
            for round in 0..2 {
                main.write(0, block(1), true).await.unwrap();
                world.set_fault(|request| {
                    let writes_home = request.op == Op::Write && request.offset >= 3 << 20;
                    writes_home.then_some(IoError::ENOSPC)
                });
                let engine = disk.engine().clone();
                let drained = rt.spawn(async move { engine.drain().await });
                rt.sleep(Nanos::from_secs(5)).await;
                let space = |seen| disk.engine().events().unseen(EventClass::Space, seen).last;
                let ended = space(2 * round);
                assert!(
                    matches!(&ended[..], [StoreEvent::SpaceEnded { .. }]),
                    "{ended:?}"
                );
                world.clear_fault();
                rt.sleep(Nanos::from_secs(5)).await;
                assert_eq!(space(2 * round + 1), [StoreEvent::SpaceFound]);
                drained.take().unwrap().unwrap();
            }
            disk.close().await.unwrap();
        },
    );
}

#[test]
fn each_read_that_fails_is_counted_and_the_store_goes_on() {
    in_world(
        &store(8 << 20),
        OpenOptions::default(),
        async |open: Open| {
            let Open { world, disk, .. } = open;
            disk.resize_volume("main", 16 * B).await.unwrap();
            let main = disk.volume("main").unwrap();
            main.write(0, block(1), true).await.unwrap();
            main.write(2 * B, block(1), true).await.unwrap();
            disk.engine().drain().await.unwrap();
            // Of adjacent blocks, and of blocks with something newer in memory between them.
            main.write(B, block(2), false).await.unwrap();
            world.set_fault(|request| (request.op == Op::Read).then_some(IoError::EIO));
            for (length, failures) in [(B, 1), (3 * B, 3)] {
                assert!(main.read(0, length).await.is_err());
                let stats = disk.stats();
                assert_eq!((stats.failed_reads, stats.failures), (failures, 0));
            }
            world.clear_fault();
            let known = events(&disk);
            assert!(
                known
                    .iter()
                    .all(|event| event.class() == EventClass::Damage)
            );
            assert!(known[0].to_string().contains("member"), "{}", known[0]);
            assert!(main.read(0, 3 * B).await.is_ok());
            disk.close().await.unwrap();
        },
    );
}
