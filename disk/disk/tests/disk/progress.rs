//! Writers make progress whatever readers do, and waiting takes no processor time.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, bytes, in_world, store};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::OpenOptions;
use tonearm_engine::CommitChange;

const B: u64 = BLOCK as u64;

/// The log keeps the commit that moves a block until the block is at home. Readers of the block read where it comes
/// from, so that they do not keep it from being written home.
#[test]
fn moved_block_under_constant_reads_is_written_back() {
    in_world(
        &store(8 << 20),
        OpenOptions::default(),
        async |open: Open| {
            let Open { rt, disk, .. } = open;
            let engine = disk.engine().clone();
            disk.resize_volume("main", 256 * B).await.unwrap();
            let main = disk.volume("main").unwrap();
            let data = |byte: u8| BufPool::new(0).copy_of(&[byte; BLOCK]).share();
            // Blocks that belong to no volume.
            let (to, from) = (engine.size_blocks() - 10, engine.size_blocks() - 20);
            let crcs = engine.spill(from, vec![data(1)]).await.unwrap();
            let admission = engine.admit(0, 1).await.unwrap();
            let moved = vec![CommitChange::Move { to, from, crcs }];
            let moved = engine.commit(admission, moved).unwrap();
            let (over, reads) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u64)));
            let readers: Vec<_> = (0..8u64)
                .map(|number| {
                    let (engine, rt) = (engine.clone(), rt.clone());
                    let (over, reads) = (over.clone(), reads.clone());
                    let own = rt.clone();
                    rt.spawn(async move {
                        own.sleep(Nanos::from_micros(7 * number)).await;
                        while !over.get() {
                            let read = engine.read(to, 1).await.unwrap();
                            assert_eq!(bytes(read), [1; BLOCK]);
                            reads.set(reads.get() + 1);
                        }
                    })
                })
                .collect();
            // Several times the log of 2 MiB.
            let writer = rt.spawn(async move {
                for index in 0..3000 {
                    let offset = index % 256 * B;
                    main.write(offset, data(index as u8), false).await.unwrap();
                }
            });
            // Bounded, because the readers would wait for ever.
            for _ in 0..300 {
                if disk.stats().appended_lsn <= 3000 {
                    rt.sleep(Nanos::from_millis(10)).await;
                }
            }
            assert!(
                disk.stats().appended_lsn > 3000,
                "writers wait for log space at commit {} since the readers began",
                disk.stats().appended_lsn
            );
            over.set(true);
            writer.await;
            for reader in readers {
                reader.await;
            }
            assert!(reads.get() > 200, "{} reads", reads.get());
            engine.retire(moved).await.unwrap();
            disk.close().await.unwrap();
        },
    );
}

/// Polls of tasks while `writers` wait for memory, or for log space, and a reader reads what is at home 200 times.
fn polls_of_waiting(writers: u64, for_memory: bool) -> u64 {
    let options = OpenOptions {
        memory_bytes: 8 << 20,
        ..OpenOptions::default()
    };
    let work = async move |open: Open| {
        let Open { rt, disk, .. } = open;
        let engine = disk.engine().clone();
        let main = disk.volume("main").unwrap();
        let data = BufPool::new(0).copy_of(&[1; BLOCK]).share();
        main.write(0, data, true).await.unwrap();
        engine.drain().await.unwrap();
        // All that there is.
        let (memory, log) = if for_memory {
            (Some(engine.reserve(8 << 20).await.unwrap()), None)
        } else {
            let most = engine.commit_blocks_max();
            (None, Some(engine.admit(most, 1).await.unwrap()))
        };
        let waiting: Vec<_> = (0..writers)
            .map(|_| {
                let engine = engine.clone();
                rt.spawn(async move {
                    if for_memory {
                        drop(engine.reserve(B).await.unwrap());
                    } else {
                        drop(engine.admit(40, 0).await.unwrap());
                    }
                })
            })
            .collect();
        rt.sleep(Nanos::from_millis(1)).await;
        let before = rt.polls();
        for _ in 0..200 {
            main.read(0, B).await.unwrap();
        }
        let polls = rt.polls() - before;
        drop((memory, log));
        // Each gets its turn.
        let began = rt.polls();
        for writer in waiting {
            writer.await;
        }
        let turns = rt.polls() - began;
        assert!(turns < 8 * writers + 100, "{turns} polls for {writers}");
        disk.close().await.unwrap();
        polls
    };
    in_world(&store(8 << 20), options, work).0
}

/// Otherwise a thousand writers that wait for space would be polled whenever a block has been read.
#[test]
fn writers_that_wait_for_room_are_not_woken_by_reads() {
    for for_memory in [true, false] {
        let (few, many) = (
            polls_of_waiting(10, for_memory),
            polls_of_waiting(1000, for_memory),
        );
        assert!(
            many < few + 50,
            "{few} polls with 10 writers, {many} with 1000"
        );
    }
}
