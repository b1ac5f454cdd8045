//! Reactions of the engine to faults of the medium, and to members that are missing or do not belong together.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_engine::{CommitChange, Engine, EngineError, OpenOptions, Scrub};
use tonearm_format::superblock_offset;
use tonearm_layout::Piece;
use tonearm_rt::{IoError, Op, Rt};
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_world::{DiskImage, Fault, FaultKind, Place};

const SHAPE: Shape = Shape::small(Layout::Overwrite, 16, 200);
/// Offset of the log on the member.
const LOG: u64 = 1 << 20;

fn of(shape: Shape, disks: Vec<DiskImage>) -> StoreImage {
    StoreImage { disks, shape }
}

async fn write(engine: &Engine, first: u64, count: u64, byte: u8) -> Result<Lsn, EngineError> {
    let permit = engine.reserve(count * 4096).await?;
    let mut buf = BufPool::new(0).alloc(count as usize * 4096);
    buf.fill(byte);
    buf.attach(Rc::new(permit));
    let admission = engine.admit(count, 0).await?;
    engine.commit(
        admission,
        vec![CommitChange::Write {
            first: 256 + first,
            data: buf.share(),
        }],
    )
}

async fn bytes(engine: &Engine, first: u64, count: u64) -> Result<Vec<u8>, EngineError> {
    let mut found = Vec::new();
    for piece in engine.read(256 + first, count).await? {
        match piece {
            Piece::Data(data) => found.extend(data.chunks(4096).map(|block| block[0])),
            Piece::Zero(bytes) => found.extend(vec![0; bytes / 4096]),
        }
    }
    Ok(found)
}

/// A store with five durable commits in its log and none at home, as after a power cut.
fn crashed() -> StoreImage {
    let image = SHAPE.create();
    let (_, world) = image.run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        for byte in 1..=5 {
            let lsn = write(&engine, u64::from(byte), 1, byte).await.unwrap();
            engine.wait_durable(lsn).await.unwrap();
        }
    });
    of(SHAPE, world.crash().images(1))
}

fn spoil(image: &mut StoreImage, offset: u64) {
    let mut byte = [0];
    image.disks[0].read(offset, &mut byte);
    image.disks[0].write(offset, &[byte[0] ^ 0x40]);
}

/// Byte offset of log record `number` (from 1) of the epoch after creation. Each record has two sectors.
fn record(image: &StoreImage, number: usize) -> u64 {
    let mut found = Vec::new();
    for sector in 0..16 * 16 {
        let mut bytes = vec![0; 4096];
        image.disks[0].read(LOG + sector * 4096, &mut bytes);
        if let Ok((header, _)) = tonearm_format::RecordHeader::decode(&bytes)
            && header.epoch == 2
        {
            found.push((header.seq, LOG + sector * 4096));
        }
    }
    found.sort();
    found[number - 1].1
}

async fn open(image: &StoreImage, rt: &Rt) -> Engine {
    image.open(rt, OpenOptions::default()).await.unwrap()
}

fn read_only() -> OpenOptions {
    OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    }
}

async fn opened(image: StoreImage, rt: Rt, options: OpenOptions) -> Result<(), EngineError> {
    image.open(&rt, options).await.map(|_| ())
}

#[test]
fn damaged_durable_record_is_refused() {
    let mut image = crashed();
    let offset = record(&image, 3) + 4096 + 17;
    spoil(&mut image, offset);
    let (result, _) = image.run(0, |_, rt, image| opened(image, rt, OpenOptions::default()));
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("is damaged or missing, but a later record says that it was durable"),
        "{text}"
    );
    assert!(text.contains("tonearm check --repair"), "{text}");
}

#[test]
fn a_damaged_log_can_be_given_up_from_the_damage_on() {
    let mut image = crashed();
    let offset = record(&image, 3);
    spoil(&mut image, offset);
    let (found, _) = image.run(0, |_, rt, image| async move {
        let options = OpenOptions {
            give_up_damaged_log: true,
            ..OpenOptions::default()
        };
        let engine = image.open(&rt, options).await.unwrap();
        bytes(&engine, 1, 5).await.unwrap()
    });
    assert_eq!(found, [1, 2, 0, 0, 0]);
}

#[test]
fn an_unreadable_place_of_the_log_is_refused() {
    let image = crashed();
    let bad = record(&image, 3) / (64 << 10) * (64 << 10);
    let (result, _) = image.run(0, |world, rt, image| {
        world.set_fault(move |request| {
            let hits = request.op == Op::Read && request.offset == bad;
            hits.then_some(IoError::EIO)
        });
        opened(image, rt, OpenOptions::default())
    });
    assert!(result.is_err());
}

#[test]
fn failed_log_write_makes_the_store_read_only() {
    SHAPE.create().run(0, |world, rt, image| async move {
        let engine = open(&image, &rt).await;
        let lsn = write(&engine, 0, 1, 1).await.unwrap();
        engine.wait_durable(lsn).await.unwrap();
        world.set_fault(|request| {
            let log = matches!(request.op, Op::Write | Op::WriteDurable)
                && request.offset < LOG + (1 << 20);
            log.then_some(IoError::EIO)
        });
        let lsn = write(&engine, 1, 1, 2).await.unwrap();
        let error = engine.wait_durable(lsn).await.unwrap_err().to_string();
        assert!(error.contains("log member-0: write at byte"), "{error}");
        world.clear_fault();
        let error = write(&engine, 2, 1, 3).await.unwrap_err().to_string();
        assert!(
            error.starts_with("the store is read-only since a failure: log member-0"),
            "{error}"
        );
        assert_eq!(bytes(&engine, 0, 1).await.unwrap(), [1], "reads go on");
        assert!(engine.flush().await.is_err(), "a failure is sticky");
    });
}

#[test]
fn no_later_flush_succeeds_after_a_failed_one() {
    SHAPE.create().run(0, |world, rt, image| async move {
        let engine = open(&image, &rt).await;
        write(&engine, 0, 1, 1).await.unwrap();
        // The sleep lets the write reach the drive before `flush` is called, so that a flush is needed.
        rt.sleep(Nanos::from_millis(1)).await;
        world.set_fault(|request| (request.op == Op::Flush).then_some(IoError::EIO));
        assert!(engine.flush().await.is_err());
        world.clear_fault();
        assert!(
            engine.flush().await.is_err(),
            "the second flush must fail too"
        );
    });
}

#[test]
fn a_full_medium_makes_write_back_wait_and_loses_nothing() {
    let (_, world) = SHAPE.create().run(0, |world, rt, image| async move {
        let engine = open(&image, &rt).await;
        let log_end = LOG + SHAPE.tracks * u64::from(SHAPE.track_bytes);
        world.set_fault(move |request| {
            let home = request.op == Op::Write && request.offset >= log_end;
            home.then_some(IoError::ENOSPC)
        });
        for block in 0..20 {
            write(&engine, block, 1, 7).await.unwrap();
        }
        engine.flush().await.unwrap();
        rt.sleep(Nanos::from_secs(20)).await;
        assert!(engine.stats().waiting_for_space);
        assert_eq!(bytes(&engine, 0, 20).await.unwrap(), [7; 20]);
        world.clear_fault();
        engine.close().await.unwrap();
    });
    let image = of(SHAPE, world.images());
    image.run(0, |_, rt, image| async move {
        let engine = image.open(&rt, read_only()).await.unwrap();
        assert_eq!(bytes(&engine, 0, 20).await.unwrap(), [7; 20]);
    });
}

#[test]
fn corrupt_block_is_an_error_and_scrub_finds_it() {
    let (_, world) = SHAPE.create().run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        write(&engine, 0, 10, 9).await.unwrap();
        engine.close().await.unwrap();
    });
    let mut image = of(SHAPE, world.images());
    let home = LOG + SHAPE.tracks * u64::from(SHAPE.track_bytes);
    spoil(&mut image, home + (2 + 256 + 4) * 4096 + 99);
    image.run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        assert_eq!(bytes(&engine, 0, 4).await.unwrap(), [9; 4]);
        let error = bytes(&engine, 0, 10).await.unwrap_err().to_string();
        assert!(
            error.contains("block 260 is damaged") && error.contains("member-0 at byte"),
            "{error}"
        );
        let report = engine.scrub(Scrub::Repair, |_, _| true).await.unwrap();
        assert_eq!(report.damaged.len(), 1);
        assert_eq!(report.damaged[0].bad[0].block, 260);
        // Writing a new version of the block repairs it.
        write(&engine, 4, 1, 8).await.unwrap();
        engine.drain().await.unwrap();
        assert!(
            engine
                .scrub(Scrub::Repair, |_, _| true)
                .await
                .unwrap()
                .damaged
                .is_empty()
        );
    });
}

#[test]
fn members_that_do_not_belong_together_are_refused() {
    let shape = Shape {
        split: true,
        ..SHAPE
    };
    let image = shape.create();
    let reopen = |disks: Vec<DiskImage>| {
        let image = image.with(disks);
        let (result, _) = image.run(0, |_, rt, image| opened(image, rt, OpenOptions::default()));
        result.map_err(|error| error.to_string())
    };
    let [log, data] = [0, 1].map(|index| image.disks[index].clone());
    assert_eq!(reopen(image.disks.clone()), Ok(()));
    let mut start = vec![0; 2 << 20];
    data.read(0, &mut start);
    let mut short = DiskImage::new(2 << 20);
    short.write(0, &start);

    // The store was used while an old copy of its data member was put aside.
    let (_, world) = image.run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        write(&engine, 0, 1, 1).await.unwrap();
        engine.close().await.unwrap();
    });
    let used = world.images().remove(0);
    let cases = [
        (vec![log.clone()], "member 1 of the store is missing"),
        (vec![log.clone(), log.clone()], "was given twice"),
        (vec![log, short], "member-1 is truncated"),
        (
            vec![used, data],
            "was not in use together with the rest of the store",
        ),
    ];
    for (disks, why) in cases {
        let refused = reopen(disks).unwrap_err();
        assert!(refused.contains(why), "{why}: {refused}");
    }
}

#[test]
fn read_only_changes_nothing_and_refuses_a_crashed_store() {
    let (result, _) = crashed().run(0, |_, rt, image| opened(image, rt, read_only()));
    assert!(matches!(result, Err(EngineError::NeedsRecovery)));
    let (_, world) = SHAPE.create().run(0, |_, rt, image| async move {
        let engine = image.open(&rt, read_only()).await.unwrap();
        assert!(matches!(
            write(&engine, 0, 1, 1).await,
            Err(EngineError::OpenReadOnly)
        ));
        engine.close().await.unwrap();
    });
    assert!(
        world.crash().is_settled(),
        "a read-only store is not written to"
    );
}

#[test]
fn largest_commit_is_atomic_and_larger_ones_are_refused() {
    let shape = Shape {
        blocks: 600,
        ..SHAPE
    };
    let (max, world) = shape.create().run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        let max = engine.commit_blocks_max();
        assert!(max > 16 * 16 / 2, "{max} blocks");
        for byte in 1..4 {
            let lsn = write(&engine, 0, max, byte).await.unwrap();
            engine.wait_durable(lsn).await.unwrap();
        }
        let error = write(&engine, 0, max + 20, 9)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("larger than the log allows"), "{error}");
        max
    });
    let image = of(shape, world.crash().images(4));
    image.run(0, |_, rt, image| async move {
        let engine = open(&image, &rt).await;
        assert_eq!(bytes(&engine, 0, max).await.unwrap(), vec![3; max as usize]);
    });
}

#[test]
fn two_corrupt_superblocks_lose_no_newer_state() {
    for pair in [0u64, 2] {
        let mut image = crashed();
        for slot in [pair, pair + 1] {
            let offset = superblock_offset(slot, image.disks[0].size);
            spoil(&mut image, offset + 300);
        }
        let (found, _) = image.run(0, |_, rt, image| async move {
            let engine = open(&image, &rt).await;
            bytes(&engine, 1, 5).await.unwrap()
        });
        assert_eq!(found, [1, 2, 3, 4, 5], "slots {pair} and {}", pair + 1);
    }
}

/// 256 MiB is the commit size that front ends may use. It takes hundreds of records and tracks.
#[test]
fn commit_of_256_mib_is_atomic() {
    let blocks = (256 << 20) / 4096;
    let shape = Shape {
        track_bytes: 1 << 20,
        tracks: 300,
        blocks,
        ..SHAPE
    };
    let (cuts, world) = shape.create().run(0, move |world, rt, image| async move {
        let options = OpenOptions {
            memory_bytes: 300 << 20,
            ..OpenOptions::default()
        };
        let engine = image.open(&rt, options).await.unwrap();
        let lsn = write(&engine, 0, blocks, 5).await.unwrap();
        // One cut while the commit is on its way, and one when it is durable.
        while engine.stats().log_writes < 100 {
            rt.sleep(Nanos::from_micros(20)).await;
        }
        let half = world.crash();
        engine.wait_durable(lsn).await.unwrap();
        [half, world.crash()]
    });
    drop(world);
    for (crash, expected) in cuts.into_iter().zip([0, 5]) {
        let image = of(shape, crash.images(2));
        image.run(0, move |_, rt, image| async move {
            let engine = open(&image, &rt).await;
            assert_eq!(
                bytes(&engine, 0, blocks).await.unwrap(),
                vec![expected; blocks as usize]
            );
        });
    }
}

/// The data member hangs forever. Operations on data in memory or in the log continue.
#[test]
fn a_stuck_data_drive_delays_only_operations_that_need_it() {
    let shape = Shape {
        split: true,
        ..SHAPE
    };
    shape.create().run(0, |world, rt, image| async move {
        let engine = open(&image, &rt).await;
        write(&engine, 0, 1, 1).await.unwrap();
        engine.drain().await.unwrap();
        world.strike(Fault {
            drive: 1,
            after: 0,
            kind: FaultKind::Stuck,
            place: Place::At(0),
            span: Nanos(0),
            times: 1,
        });
        let lsn = write(&engine, 1, 1, 2).await.unwrap();
        engine.wait_durable(lsn).await.unwrap();
        assert_eq!(bytes(&engine, 1, 1).await.unwrap(), [2]);
        // A read of a block that only the drive has waits for the drive, and delays nothing else.
        let (reader, engine2) = (rt.clone(), engine.clone());
        let read = reader.spawn(async move { bytes(&engine2, 0, 1).await });
        let lsn = write(&engine, 2, 1, 3).await.unwrap();
        engine.wait_durable(lsn).await.unwrap();
        rt.sleep(Nanos::from_secs(60)).await;
        engine.flush().await.unwrap();
        assert!(engine.failure().is_none());
        drop(read);
    });
}
