//! Recovery units larger than memory, and larger than the log.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, assert_sound, begun, bytes, in_world, live, segments, store, with};
use tonearm_disk::{Disk, ErrorKind, OpenOptions, Volume};
use tonearm_engine::{CommitChange, EngineError};
use tonearm_layout::HomeError;
use tonearm_world::{Fault, FaultKind, Place};

const B: u64 = BLOCK as u64;

fn options() -> OpenOptions {
    OpenOptions {
        memory_bytes: 1 << 20,
        ..OpenOptions::default()
    }
}

fn content(index: u64, version: u8) -> Vec<u8> {
    let mut block = vec![version; BLOCK];
    block[..8].copy_from_slice(&index.to_le_bytes());
    block
}

async fn check(volume: &Volume, blocks: u64, version: u8) {
    for index in 0..blocks {
        let found = bytes(volume.read(index * B, B).await.unwrap());
        assert!(found == content(index, version), "block {index}");
    }
}

async fn file(disk: &Disk, blocks: u64, version: u8) -> Volume {
    let mut aru = disk.begin();
    let file = match disk.volume("f") {
        Ok(file) => file,
        Err(_) => {
            let file = aru.create_volume("f", blocks * B, [1; 16], 1);
            file.await.unwrap()
        }
    };
    aru.resize(&file, blocks * B).await.unwrap();
    // Backwards and in pieces that are no whole blocks, too.
    for index in (0..blocks).rev() {
        let block = content(index, version);
        aru.write(&file, index * B, &block[..100]).await.unwrap();
        aru.write(&file, index * B + 100, &block[100..])
            .await
            .unwrap();
        assert!(disk.shadow_bytes() <= disk.engine().options().memory_bytes / 4);
    }
    for index in [0, blocks / 2, blocks - 1] {
        let own = aru.read(&file, index * B, B).await.unwrap();
        assert_eq!(bytes(own), content(index, version));
    }
    aru.end().await.unwrap();
    file
}

#[test]
fn a_unit_larger_than_memory_and_the_log_commits() {
    // 2 MiB of log, 256 KiB of shadows.
    let (_, closed) = with(&store(40 << 20), options(), async |disk| {
        for version in 1..4 {
            let f = file(&disk, 1000, version).await;
            check(&f, 1000, version).await;
            disk.engine().drain().await.unwrap();
            check(&f, 1000, version).await;
        }
        assert_eq!(disk.shadow_bytes(), 0);
        assert_sound(&disk).await;
    });
    with(&closed, options(), async |disk| {
        check(&disk.volume("f").unwrap(), 1000, 3).await;
        // The space of the time before is free again.
        let volumes: u64 = 1;
        let files = disk.volume("f").unwrap().size_bytes() / B;
        assert!(disk.free_bytes() / B >= disk.size_bytes() / B - files - files / 8 - 32 - volumes);
    });
}

#[test]
fn write_larger_than_the_budget_spills_at_once() {
    with(&store(40 << 20), options(), async |disk| {
        let mut aru = disk.begin();
        let f = aru.create_volume("f", 1500 * B, [1; 16], 1);
        let f = f.await.unwrap();
        let all: Vec<u8> = (0..1500).flat_map(|index| content(index, 7)).collect();
        aru.write(&f, 0, &all).await.unwrap();
        assert_eq!(disk.shadow_bytes(), 0);
        let own = bytes(aru.read(&f, 3, 1499 * B).await.unwrap());
        assert!(own == all[3..][..1499 * BLOCK]);
        aru.resize(&f, 1200 * B).await.unwrap();
        aru.end().await.unwrap();
        check(&f, 1200, 7).await;
    });
}

#[test]
fn unit_without_space_fails_and_can_be_aborted() {
    with(&store(8 << 20), options(), async |disk| {
        let free = disk.free_bytes();
        let mut aru = disk.begin();
        // Twice the space is needed: in the volume, and until the commit.
        let f = aru.create_volume("f", free * 2 / 3, [1; 16], 1);
        let f = f.await.unwrap();
        let mut index = 0;
        let error = loop {
            match aru.write(&f, index * B, &content(index, 1)).await {
                Ok(()) => index += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(index * B > free / 8, "{index} blocks of {free} bytes");
        let own = bytes(aru.read(&f, (index - 1) * B, B).await.unwrap());
        assert_eq!(own, content(index - 1, 1));
        aru.abort();
        // The free space is enough for another unit, again and again.
        for version in 0..5 {
            let f = file(&disk, 300, version).await;
            check(&f, 300, version).await;
        }
    });
}

#[test]
fn small_units_commit_during_a_large_one() {
    with(&store(40 << 20), options(), async |disk| {
        let mut large = disk.begin();
        let f = large.create_volume("f", 500 * B, [1; 16], 1);
        let f = f.await.unwrap();
        for index in 0..500 {
            large
                .write(&f, index * B, &content(index, 1))
                .await
                .unwrap();
            if index % 50 == 0 {
                let mut small = disk.begin();
                let main = disk.volume("main").unwrap();
                small.write(&main, 0, &content(index, 2)).await.unwrap();
                small.end().await.unwrap();
                let found = bytes(main.read(0, B).await.unwrap());
                assert_eq!(found, content(index, 2));
            }
        }
        large.end().await.unwrap();
        check(&f, 500, 1).await;
    });
}

#[test]
fn a_full_store_takes_the_space_of_large_units_back() {
    with(&store(16 << 20), options(), async |disk| {
        // Content that was moved from the space is not at home yet, and there is more of it than is written back at once.
        let f = file(&disk, 1200, 1).await;
        let space = disk.spill_bytes();
        assert!(space > 0);
        let mut aru = disk.begin();
        let free = disk.free_bytes();
        let all = aru.create_volume("all", free + space, [2; 16], 1);
        let all = all.await.unwrap();
        assert_eq!((disk.spill_bytes(), disk.free_bytes()), (0, 0));
        aru.end().await.unwrap();
        check(&f, 1200, 1).await;
        let blocks = (free + space) / B;
        for index in 0..blocks {
            let mut aru = disk.begin();
            aru.write(&all, index * B, &content(index, 2))
                .await
                .unwrap();
            aru.end().await.unwrap();
        }
        // The space belongs to that file alone.
        let mut aru = disk.begin();
        let mut index = 0;
        let error = loop {
            match aru.write(&f, index * B, &content(index, 3)).await {
                Ok(()) => index += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        drop(aru);
        disk.engine().drain().await.unwrap();
        check(&all, blocks, 2).await;
        check(&f, 1200, 1).await;
    });
}

#[test]
fn spilled_blocks_are_kept_while_recovery_needs_them() {
    for seed in 0..8 {
        let (_, left) = live(&store(8 << 20), seed, options(), async move |disk| {
            let f = file(&disk, 300, 1).await;
            disk.flush().await.unwrap();
            if seed % 2 == 0 {
                disk.engine().drain().await.unwrap();
            }
            // Another large unit gets the space, and never ends.
            let space = disk.spill_bytes();
            let mut aru = disk.begin();
            for index in 0..300 {
                let written = aru.write(&f, index * B, &content(index, 2)).await;
                written.unwrap();
            }
            assert!(aru.spilled_blocks() > 0 && disk.spill_bytes() == space);
            ((), false)
        });
        with(&left, options(), async |disk| {
            check(&disk.volume("f").unwrap(), 300, 1).await;
        });
    }
}

/// Spilled content is not in memory when it becomes the block's content.
#[test]
fn partial_write_sees_a_concurrent_spilled_commit() {
    let partial: [(&str, Begin, usize); 3] = [
        ("write", |disk| Box::pin(write_inside(disk.clone())), 100),
        ("zeroes", |disk| Box::pin(zero_inside(disk.clone())), 100),
        ("shrink", |disk| Box::pin(shrink(disk.clone())), BLOCK),
    ];
    for (what, begin, end) in partial {
        let (_, closed) = with(&store(40 << 20), options(), async move |disk| {
            let v = disk.create_volume("v", 4 * B, [9; 16], 1);
            v.await.unwrap();
            let v = disk.volume("v").unwrap();
            for index in 0..4 {
                let mut aru = disk.begin();
                aru.write(&v, index * B, &content(index, 1)).await.unwrap();
                aru.end().await.unwrap();
            }
            disk.engine().drain().await.unwrap();
            let mut aru = disk.begin();
            aru.write(&v, B, &content(1, 2)).await.unwrap();
            let f = aru.create_volume("f", 100 * B, [1; 16], 1);
            let f = f.await.unwrap();
            aru.write(&f, 0, &vec![3; 100 * BLOCK]).await.unwrap();
            assert_eq!(aru.spilled_blocks(), 101, "the block of v, too");
            let mut partial = begin(&disk);
            begun(&mut partial).await;
            aru.end().await.unwrap();
            partial.await;
        });
        with(&closed, options(), async move |disk| {
            let v = disk.volume("v").unwrap();
            let found = bytes(v.read(B, 90).await.unwrap());
            assert!(found == content(1, 2)[..90], "{what}: before");
            if what != "shrink" {
                let found = bytes(v.read(B + end as u64, B - end as u64).await.unwrap());
                assert!(found == content(1, 2)[end..], "{what}: after");
            }
        });
    }
}

#[test]
fn spill_does_not_overwrite_a_block_being_read() {
    with(&store(8 << 20), options(), async |disk| {
        let main = disk.volume("main").unwrap();
        let data = || tonearm_base::BufPool::new(0).copy_of(&[1; BLOCK]).share();
        main.write(0, data(), true).await.unwrap();
        disk.engine().drain().await.unwrap();
        let engine = disk.engine();
        // Blocks that belong to no volume.
        let (to, from) = (engine.size_blocks() - 10, engine.size_blocks() - 20);
        let crcs = engine.spill(from, vec![data()]).await.unwrap();
        let admission = engine.admit(0, 1).await.unwrap();
        let moved = engine.commit(admission, vec![CommitChange::Move { to, from, crcs }]);
        let moved = moved.unwrap();
        engine.wait_durable(moved).await.unwrap();
        // The read begins while the block is written home.
        let mut drain = Box::pin(engine.drain());
        begun(&mut drain).await;
        main.read(0, B).await.unwrap();
        let mut read = Box::pin(engine.read(to, 1));
        begun(&mut read).await;
        begun(&mut drain).await;
        drain.await.unwrap();
        engine.retire(moved).await.unwrap();
        let other = tonearm_base::BufPool::new(0).copy_of(&[2; BLOCK]).share();
        let mut spill = Box::pin(engine.spill(from, vec![other]));
        for _ in 0..50 {
            begun(&mut spill).await;
            main.read(0, B).await.unwrap();
        }
        assert_eq!(bytes(read.await.unwrap()), [1; BLOCK]);
        spill.await.unwrap();
    });
}

/// Offset at which the drive has a block of these bytes.
fn place_of(world: &tonearm_world::SimWorld, value: u8) -> u64 {
    let image = world.images().remove(0);
    let mut block = vec![0; BLOCK];
    let found = image.used_pages().into_iter().find(|&offset| {
        image.read(offset, &mut block);
        block == [value; BLOCK]
    });
    found.unwrap()
}

#[test]
fn damaged_moved_block_is_an_error_of_that_block_alone() {
    for image in [store(8 << 20), segments(8 << 20)] {
        let (to, closed) = in_world(&image, options(), async |open| {
            let engine = open.disk.engine();
            let (to, from) = (engine.size_blocks() - 10, engine.size_blocks() - 20);
            let data = [0xa1, 0xa2, 0xa3].map(|value| open.pool.copy_of(&[value; BLOCK]).share());
            let crcs = engine.spill(from, data.to_vec()).await.unwrap();
            open.world.strike(Fault {
                drive: 0,
                after: 0,
                kind: FaultKind::BitRot,
                place: Place::At(place_of(&open.world, 0xa2)),
                span: Default::default(),
                times: 1,
            });
            let admission = engine.admit(0, 3).await.unwrap();
            let moved = engine.commit(admission, vec![CommitChange::Move { to, from, crcs }]);
            engine.wait_durable(moved.unwrap()).await.unwrap();
            engine.drain().await.unwrap();
            open.disk.close().await.unwrap();
            to
        });
        with(&closed, options(), async move |disk| {
            let engine = disk.engine();
            for (block, value) in [(to, 0xa1), (to + 2, 0xa3)] {
                assert_eq!(bytes(engine.read(block, 1).await.unwrap()), [value; BLOCK]);
            }
            let error = engine.read(to + 1, 1).await.unwrap_err();
            let EngineError::Home(HomeError::Checksum { block, .. }) = error else {
                panic!("{error}");
            };
            assert_eq!(block, to + 1);
            let main = disk.volume("main").unwrap();
            let data = tonearm_base::BufPool::new(0).copy_of(&[1; BLOCK]).share();
            main.write(0, data, true).await.unwrap();
        });
    }
}

type Begin = fn(&Disk) -> Partial;
type Partial = std::pin::Pin<Box<dyn Future<Output = ()>>>;

async fn write_inside(disk: Disk) {
    let v = disk.volume("v").unwrap();
    let data = tonearm_base::BufPool::new(0).copy_of(&[4; 10]).share();
    v.write(B + 90, data, false).await.unwrap();
}

async fn zero_inside(disk: Disk) {
    let v = disk.volume("v").unwrap();
    v.write_zeroes(B + 90, 10, false, false).await.unwrap();
}

async fn shrink(disk: Disk) {
    disk.resize_volume("v", B + 90).await.unwrap();
}
