//! Large commits in the layouts with segments: their content is written once, and survives as any other.

#![allow(clippy::unwrap_used)]

use crate::common::{
    BLOCK, HOME, Open, SEGMENTS, bytes, commit, open_store, params, run, space, store, store_of,
    trims, with_drives, writes,
};
use std::collections::VecDeque;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_engine::{
    CommitChange, CreateParams, Engine, EngineError, HomeParams, Inspection, OpenOptions, Placement,
};
use tonearm_format::{EntryKind, SYSTEM_BLOCKS};
use tonearm_rt::{DeviceId, IoError, Op, Rt};
use tonearm_world::{
    DiskImage, Done, DriveRequest, Kind, SimDisk, SimOptions, SimWorld, Timing, Zeroing,
};

/// The write-back starts only when a test asks for it.
fn options() -> OpenOptions {
    OpenOptions {
        large_commit_bytes: 2 * BLOCK as u64,
        large_commit_quiet: Nanos(0),
        write_back_after: Nanos::from_secs(3600),
        ..OpenOptions::default()
    }
}

/// Makes eight large commits for which no caller waits until they are written.
async fn write_large(open: &Open, byte: u8) {
    for index in 0..8 {
        commit(&open.engine, vec![writes(4 * index, 4, byte + index as u8)])
            .await
            .unwrap();
    }
    open.rt.sleep(Nanos::from_millis(100)).await;
    open.engine.flush().await.unwrap();
}

fn expected(byte: u8) -> Vec<u8> {
    (0..8).flat_map(|index| [byte + index; 4]).collect()
}

/// The content of `disks` after a power cut.
fn recovered(disks: Vec<DiskImage>, count: u64) -> Vec<u8> {
    run(&disks, options(), async move |open: Open| {
        bytes(&open.engine, 0, count).await.unwrap()
    })
    .0
}

fn images(world: &SimWorld) -> Vec<DiskImage> {
    world.images()
}

#[test]
fn large_commits_are_written_once_and_recovered() {
    let disks = store(SEGMENTS);
    let ((log_bytes, stats), world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        let stats = open.engine.stats();
        (stats.log_bytes, stats)
    });
    assert_eq!(stats.indirect_blocks, 32);
    assert!(log_bytes < 8 * BLOCK as u64, "{log_bytes} bytes of log");
    assert_eq!(stats.written_back_blocks, 0, "nothing is written back");
    assert_eq!(recovered(images(&world), 32), expected(10));
}

#[test]
fn written_back_large_commit_takes_no_second_write() {
    let disks = store(SEGMENTS);
    let (written, world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        let before = open.engine.stats().home_write_bytes;
        open.engine.drain().await.unwrap();
        let written = open.engine.stats().home_write_bytes - before;
        assert_eq!(bytes(&open.engine, 0, 32).await.unwrap(), expected(10));
        written
    });
    assert!(written < 12 * BLOCK as u64, "{written} bytes at home");
    assert_eq!(recovered(images(&world), 32), expected(10));
}

#[test]
fn patch_of_a_large_commit_is_recovered() {
    let disks = store(SEGMENTS);
    let ((), world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        let mut block = vec![10; BLOCK];
        block[800..808].fill(99);
        let data = BufPool::new(0).copy_of(&block).share();
        let first = SYSTEM_BLOCKS + 1;
        commit(&open.engine, vec![CommitChange::Write { first, data }])
            .await
            .unwrap();
        open.engine.flush().await.unwrap();
    });
    let (found, _) = run(&images(&world), options(), async |open: Open| {
        let pieces = open.engine.read(SYSTEM_BLOCKS, 3).await.unwrap();
        tonearm_layout::Piece::concat(&pieces)
    });
    let mut block = vec![10; 3 * BLOCK];
    block[BLOCK + 800..BLOCK + 808].fill(99);
    assert!(found == block);
}

#[test]
fn newer_content_of_a_large_commit_is_recovered() {
    let disks = store(SEGMENTS);
    let ((), world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        commit(&open.engine, vec![writes(2, 1, 77), trims(8, 2)])
            .await
            .unwrap();
        open.engine.flush().await.unwrap();
        open.engine.drain().await.unwrap();
        write_large(&open, 40).await;
        commit(&open.engine, vec![writes(0, 1, 78)]).await.unwrap();
        open.engine.flush().await.unwrap();
    });
    let mut all = expected(40);
    all[0] = 78;
    assert_eq!(recovered(images(&world), 32), all);
}

/// The places are used again only after the log start has passed their commits.
#[test]
fn large_commits_survive_many_rounds_and_openings() {
    let mut disks = store(SEGMENTS);
    for opening in 0..6u8 {
        let (indirect, world) = run(&disks, options(), async move |open: Open| {
            for round in 0..30u8 {
                write_large(&open, opening.wrapping_mul(31) + round).await;
                if round % 3 != 0 {
                    open.engine.drain().await.unwrap();
                }
            }
            open.engine.stats().indirect_blocks
        });
        assert!(indirect > 100, "opening {opening}: {indirect} blocks");
        disks = images(&world);
        assert_eq!(
            recovered(disks.clone(), 32),
            expected(opening.wrapping_mul(31) + 29)
        );
    }
}

#[test]
fn large_commit_is_newer_than_the_zeroes_before_it() {
    let disks = store(SEGMENTS);
    let ((), world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        open.engine.drain().await.unwrap();
        commit(&open.engine, vec![trims(0, 32)]).await.unwrap();
        write_large(&open, 50).await;
        // One round has both.
        open.engine.drain().await.unwrap();
        assert_eq!(bytes(&open.engine, 0, 32).await.unwrap(), expected(50));
    });
    assert_eq!(recovered(images(&world), 32), expected(50));
}

/// The log still names places that recovery has read.
#[test]
fn opening_holds_the_places_of_the_log() {
    let disks = store(SEGMENTS);
    let ((), world) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
    });
    let held = |open: &Open| open.engine.home().stats().segments.held_segments;
    let (found, _) = run(&images(&world), options(), async move |open: Open| {
        let before = held(&open);
        write_large(&open, 60).await;
        let more = held(&open);
        open.engine.drain().await.unwrap();
        write_large(&open, 70).await;
        open.engine.drain().await.unwrap();
        write_large(&open, 80).await;
        (before, more, held(&open))
    });
    let (before, more, later) = found;
    assert!(
        before >= 3 && more >= before + 3 && later <= more,
        "{found:?}"
    );
}

/// Without further large commits, too.
#[test]
fn segments_are_held_only_while_the_log_names_them() {
    let disks = store(SEGMENTS);
    let (held, _) = run(&disks, options(), async |open: Open| {
        let held = || open.engine.home().stats().segments.held_segments;
        write_large(&open, 10).await;
        let before = held();
        for byte in 0..3 {
            open.engine.drain().await.unwrap();
            commit(&open.engine, vec![writes(40, 1, byte)])
                .await
                .unwrap();
            open.engine.flush().await.unwrap();
        }
        open.engine.drain().await.unwrap();
        (before, held())
    });
    assert!(held.0 >= 3 && held.1 == 0, "{held:?}");
}

/// An archive that begins later finds the content of commits that the log still has.
#[test]
fn history_of_large_commits_has_their_content() {
    let disks = store(SEGMENTS);
    let (found, _) = run(&disks, options(), async |open: Open| {
        write_large(&open, 10).await;
        commit(&open.engine, vec![writes(0, 32, 99)]).await.unwrap();
        open.engine.flush().await.unwrap();
        let mut history = open.engine.history(Lsn(1)).await.unwrap();
        let mut commits = history.read(1 << 20).await.unwrap();
        commits.truncate(8);
        let mut found = Vec::new();
        for change in commits.iter().flat_map(|commit| &commit.changes) {
            if let EntryKind::Indirect { .. } = change.kind {
                let content = open.engine.moved_content(change.block, change.kind);
                let content = content.await.unwrap();
                let mut bytes = [0; BLOCK];
                content.piece.copy_to(&mut bytes);
                assert!(content.is_exact && bytes == [bytes[0]; BLOCK]);
                found.push(bytes[0]);
            }
        }
        found
    });
    assert_eq!(found, expected(10));
}

/// A client whose small commits must be durable, beside a stream: how long they take, at the 95th percentile, in ms.
fn wait_beside_a_stream(large_commit_bytes: u64) -> f64 {
    on_arm(large_commit_bytes, async |open: Open| {
        let (engine, rt) = (open.engine.clone(), open.rt.clone());
        let stream = open
            .rt
            .spawn(async move { write_stream(&engine, 32, false).await });
        let mut waits = Vec::new();
        for block in 0..200 {
            rt.sleep(Nanos::from_millis(15)).await;
            let began = rt.now();
            let lsn = commit(&open.engine, vec![writes(30_000 + block, 1, 1)])
                .await
                .unwrap();
            open.engine.wait_durable(lsn).await.unwrap();
            waits.push(rt.now().since(began).0);
        }
        drop(stream);
        // The first one waits for what the stream has put into memory before, in any case. At the end the stream is over.
        let mut waits = waits[1..101].to_vec();
        waits.sort_unstable();
        waits[95] as f64 / 1e6
    })
}

#[test]
fn stream_of_large_commits_does_not_delay_others() {
    let (twice, once) = (
        wait_beside_a_stream(0),
        wait_beside_a_stream(OpenOptions::default().large_commit_bytes),
    );
    println!(
        "durable write beside a stream, 95th percentile: {twice:.0} ms written twice, {once:.0} ms once"
    );
    assert!(once < 1.2 * twice, "{twice:.0} {once:.0}");
}

#[test]
fn store_that_is_archived_logs_all_content() {
    let disks = store(SEGMENTS);
    let (indirect, _) = run(&disks, options(), async |open: Open| {
        open.engine.begin_archive("file:///a").unwrap();
        write_large(&open, 10).await;
        open.engine.stats().indirect_blocks
    });
    assert_eq!(indirect, 0);
}

/// How the content at one place is lost.
#[derive(Clone, Copy)]
enum Lost {
    Rotten,
    Unreadable,
}

/// The log cannot replace it. With `trimmed` an older commit that is not at home yet has made the blocks zero.
fn open_without(lost: Lost, trimmed: bool) {
    let disks = store(SEGMENTS);
    let ((), world) = run(&disks, options(), async move |open: Open| {
        if trimmed {
            commit(&open.engine, vec![writes(0, 32, 1)]).await.unwrap();
            commit(&open.engine, vec![trims(0, 32)]).await.unwrap();
        }
        write_large(&open, 10).await;
    });
    let mut disks = images(&world);
    let home = &mut disks[HOME as usize];
    let mut block = vec![0; BLOCK];
    let at = (0..home.size).step_by(BLOCK).find(|at| {
        home.read(*at, &mut block);
        block == [12; BLOCK]
    });
    let at = at.expect("the content is at home");
    if let Lost::Rotten = lost {
        home.write(at + 5, &[0]);
    }
    let world = || {
        let world = SimWorld::new(SimOptions::default(), disks.clone());
        if let Lost::Unreadable = lost {
            world.set_fault(move |request| {
                let range = request.offset..request.offset + request.len;
                let hits = request.device == DeviceId(HOME) && range.contains(&at);
                (request.op == Op::Read && hits).then_some(IoError::EIO)
            });
        }
        world
    };
    let (damage, _) = with_drives(world(), async |_, rt, members| {
        let look = Inspection::start(&rt, &BufPool::new(0), members, |_, _| {}).await;
        look.unwrap().log().damage.clone()
    });
    assert!(
        matches!(damage, Some(EngineError::IndirectLost { .. })),
        "{damage:?}"
    );
    let open_with = |lenient| {
        let options = OpenOptions {
            give_up_damaged_log: lenient,
            ..options()
        };
        with_drives(world(), async move |_, rt: Rt, members| {
            let (engine, _) = open_store(&rt, members, options).await?;
            engine.drain().await?;
            let mut found = Vec::new();
            for block in 0..32 {
                let read = bytes(&engine, block, 1).await;
                found.push(read.ok().map(|bytes| bytes[0]));
            }
            Ok(found)
        })
        .0
    };
    match open_with(false) {
        Err(EngineError::IndirectLost { .. }) => {}
        other => panic!("{other:?}"),
    }
    let found = open_with(true).unwrap();
    let mut left: Vec<_> = expected(10).into_iter().map(Some).collect();
    let lost = found.iter().position(Option::is_none).expect("one is lost");
    assert!((8..12).contains(&lost), "{lost}");
    left[lost] = None;
    assert_eq!(found, left);
}

#[test]
fn lost_content_of_a_durable_commit_is_an_error() {
    for lost in [Lost::Rotten, Lost::Unreadable] {
        for trimmed in [false, true] {
            open_without(lost, trimmed);
        }
    }
}

/// A drive that writes 20 MB/s, takes 10 ms to get to another place, and 5 ms for a flush.
struct Arm {
    /// The sector after the last request.
    at: u64,
    free: Nanos,
    under_way: VecDeque<Done>,
}

impl Timing for Arm {
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        let took = match request.kind {
            Kind::Flush => Nanos::from_millis(5).0,
            _ => {
                let seek = if request.lba == self.at {
                    0
                } else {
                    Nanos::from_millis(10).0
                };
                self.at = request.lba + u64::from(request.sectors);
                seek + u64::from(request.sectors) * 512 * 1000 / 20
            }
        };
        self.free = self.free.max(now) + took;
        let (id, at) = (request.id, self.free);
        self.under_way.push_back(Done { id, at });
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.front().map(|done| done.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(first) = self.under_way.pop_front_if(|first| first.at <= now) {
            done.push(first);
        }
    }
}

/// Bytes of the stream.
const STREAM: u64 = 96 << 20;

/// Does `work` on a store with segments on such a drive, log and data together.
fn on_arm<T: 'static>(large_commit_bytes: u64, work: impl AsyncFnOnce(Open) -> T + 'static) -> T {
    let home = HomeParams::Segments {
        segment_bytes: 512 << 10,
        spare_percent: 30,
        placement: Placement::Append,
    };
    let params = CreateParams {
        size_bytes: 256 << 20,
        log_bytes: Some(32 << 20),
        track_bytes: None,
        ..params(home)
    };
    let disks = store_of(&params, &[space(0, true, true)]);
    let disks = disks.into_iter().map(|image| SimDisk {
        image,
        timing: Box::new(Arm {
            at: 0,
            free: Nanos(0),
            under_way: VecDeque::new(),
        }),
        write_cache: false,
        zeroing: Zeroing::Command,
    });
    let world = SimWorld::with_disks(SimOptions::default(), disks.collect());
    let options = OpenOptions {
        memory_bytes: 32 << 20,
        commit_delay: Nanos::from_millis(100),
        large_commit_bytes,
        ..OpenOptions::default()
    };
    with_drives(world, async move |world, rt: Rt, members| {
        let (engine, _) = open_store(&rt, members, options).await.unwrap();
        work(Open { world, rt, engine }).await
    })
    .0
}

/// A write that changes one word of the same block as all others, as that of an inode.
fn hot_write(value: u64) -> CommitChange {
    let mut block = [7; BLOCK];
    block[..8].copy_from_slice(&value.to_le_bytes());
    CommitChange::Write {
        first: SYSTEM_BLOCKS + 40_000,
        data: BufPool::new(0).copy_of(&block).share(),
    }
}

/// Writes [`STREAM`] bytes, `blocks` blocks at a time, if `hot` with a change of one more block each time.
async fn write_stream(engine: &Engine, blocks: u64, hot: bool) {
    for first in (0..STREAM / BLOCK as u64).step_by(blocks as usize) {
        let changed = blocks + u64::from(hot);
        let permit = engine.reserve(changed * BLOCK as u64).await.unwrap();
        let admission = engine.admit(changed, 0).await.unwrap();
        let mut changes = vec![writes(first, blocks as usize, first as u8)];
        changes.extend(hot.then(|| hot_write(first)));
        drop(permit);
        engine.commit(admission, changes).unwrap();
    }
}

/// The share of the drive's bandwidth that a stream of writes of `blocks` blocks each has, up to the end of the write-back.
fn share_of_bandwidth(blocks: u64, hot: bool, large_commit_bytes: u64) -> f64 {
    on_arm(
        large_commit_bytes,
        async move |Open { rt, engine, .. }: Open| {
            let began = rt.now();
            write_stream(&engine, blocks, hot).await;
            engine.flush().await.unwrap();
            engine.drain().await.unwrap();
            let took = rt.now().since(began).0 as f64 / 1e9;
            STREAM as f64 / took / 20e6
        },
    )
}

/// Of the commits of such a stream, the log keeps those that are not home, although each changes a block of which no newest version is
/// durable when a round looks.
#[test]
fn hot_block_does_not_keep_the_log_of_a_stream() {
    let default = OpenOptions::default().large_commit_bytes;
    let (used, written) = on_arm(default, async move |Open { engine, .. }: Open| {
        write_stream(&engine, 1, true).await;
        let stats = engine.stats();
        (stats.log_used_bytes, stats.log_bytes)
    });
    println!("{used} bytes of log in use, {written} written");
    // The first track is free again. A track has half of what the stream writes.
    assert!(used < written, "{used} of {written}");
}

#[test]
fn stream_of_writes_has_most_of_the_bandwidth() {
    for (blocks, hot) in [(1, false), (32, false), (256, false), (1, true), (32, true)] {
        let twice = share_of_bandwidth(blocks, hot, 0);
        let once = share_of_bandwidth(blocks, hot, OpenOptions::default().large_commit_bytes);
        println!(
            "{blocks} blocks a write, with a hot block: {hot}: {twice:.3} of the bandwidth written twice, {once:.3} once"
        );
        assert!(
            twice < 0.4 && once > 0.55,
            "{blocks} blocks, {hot}: {twice:.3} {once:.3}"
        );
    }
}
