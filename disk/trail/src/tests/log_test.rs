use crate::{
    Case, Change, FlushCause, LogGeometry, Replay, Trail, TrailOptions, TrailStart, WriteCache,
};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Waker};
use tonearm_base::{Buf, BufPool, Lsn, Nanos, Slice, crc32c};
use tonearm_device::{Device, RawDevice};
use tonearm_format::{EntryKind, LogState};
use tonearm_rt::{DeviceId, IoError, Op, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const BLOCK: usize = 4096;

const OFFSET: u64 = 1 << 20;

pub(super) fn geometry(tracks: u64, track_sectors: u64) -> LogGeometry {
    LogGeometry::even([5; 16], OFFSET, tracks, track_sectors, BLOCK)
}

pub(super) fn world(geometry: &LogGeometry) -> SimWorld {
    let size = OFFSET + geometry.bytes();
    SimWorld::new(SimOptions::default(), vec![DiskImage::new(size)])
}

pub(super) fn device(rt: &Rt) -> Rc<dyn Device> {
    Rc::new(RawDevice::new(rt, DeviceId(0), u64::MAX, 512, "log"))
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![(version % 251) as u8; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

pub(super) fn write(pool: &BufPool, first: u64, count: u64, version: u64) -> Change {
    let bytes: Vec<u8> = (first..first + count)
        .flat_map(|block| content(block, version))
        .collect();
    change(first, pool.copy_of(&bytes).share())
}

/// New content for the blocks from `first` on.
pub(super) fn change(first: u64, data: Slice) -> Change {
    let crcs = data.chunks(BLOCK).map(crc32c).collect();
    Change::Write { first, data, crcs }
}

pub(super) async fn append(trail: &Trail, changes: Vec<Change>) -> Lsn {
    let blocks = changes.iter().map(|change| match change {
        Change::Write { crcs, .. } => crcs.len() as u64,
        _ => 0,
    });
    let admission = trail.admit(blocks.sum(), changes.len() as u64, true).await;
    trail.append(admission.unwrap(), |_| changes)
}

pub(super) fn start(
    rt: &Rt,
    pool: &BufPool,
    geometry: &LogGeometry,
    epoch: u64,
    state: LogState,
) -> Trail {
    let options = TrailOptions::default();
    Trail::start(
        rt,
        pool,
        vec![device(rt)],
        geometry.clone(),
        TrailStart {
            epoch,
            state,
            ..TrailStart::default()
        },
        options,
    )
}

fn recovered(
    image: DiskImage,
    geometry: &LogGeometry,
    epoch: u64,
    state: LogState,
) -> (Vec<(u64, usize)>, Case, LogState) {
    let world = SimWorld::new(SimOptions::default(), vec![image]);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let devices = vec![device(&rt2)];
        let mut replay = Replay::start(&pool, devices, shape, epoch, state, false).await;
        let mut commits = Vec::new();
        while let Some(commit) = replay.next().await.unwrap() {
            for change in &commit.changes {
                if let (EntryKind::Data { .. }, Some(data)) = (&change.kind, &change.data) {
                    let data: &Buf = data;
                    assert_eq!(data[..8], change.block.to_le_bytes());
                }
            }
            commits.push((commit.lsn.0, commit.changes.len()));
        }
        let tail = replay.into_tail();
        (commits, tail.case, tail.state)
    })
}

#[test]
fn appended_commits_are_recovered_in_order() {
    let geometry = geometry(16, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        for version in 0..10 {
            append(&trail, vec![write(&pool, version, 1, version)]).await;
        }
        // Over several tracks, with a range besides the data.
        let last = append(
            &trail,
            vec![
                write(&pool, 100, 40, 7),
                Change::Trim {
                    first: 500,
                    count: 1 << 30,
                },
            ],
        )
        .await;
        trail.wait_durable(last, FlushCause::Commit).await.unwrap();
        assert_eq!((trail.durable(), trail.appended()), (Lsn(11), Lsn(11)));
        assert!(
            trail.stats().writes < 11,
            "what is queued shares device writes"
        );
    });
    let (commits, case, state) =
        recovered(world.images().remove(0), &geometry, 1, LogState::default());
    let expected: Vec<(u64, usize)> = (1..=10).map(|lsn| (lsn, 1)).chain([(11, 41)]).collect();
    assert_eq!((commits, case), (expected, Case::End));
    assert_eq!((state.log_end_lsn, state.log_start_seq), (11, 1));
}

#[test]
fn several_records_of_one_device_write_are_recovered() {
    let geometry = geometry(16, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let mut last = Lsn(0);
        // More ranges than one header has room for.
        for first in 0..1000 {
            last = append(&trail, vec![Change::Trim { first, count: 1 }]).await;
        }
        trail.wait_durable(last, FlushCause::Commit).await.unwrap();
        let stats = trail.stats();
        assert!(stats.records > stats.writes, "{stats:?}");
    });
    let (commits, case, _) = recovered(world.images().remove(0), &geometry, 1, LogState::default());
    assert_eq!((commits.len(), case), (1000, Case::End));
}

#[test]
fn a_full_log_waits_for_releases_and_wraps_many_times() {
    let geometry = geometry(8, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    let (last, released) = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let released = std::rc::Rc::new(std::cell::Cell::new(Lsn(0)));
        let (freer, count, timer) = (trail.clone(), released.clone(), rt2.clone());
        rt2.spawn(async move {
            loop {
                timer.sleep(tonearm_base::Nanos::from_micros(50)).await;
                freer.sync_written().await.unwrap();
                while count.get() < freer.durable() {
                    count.set(count.get() + 1);
                    freer.release(count.get());
                }
                freer.advance();
            }
        });
        for version in 0..1000u64 {
            let lsn = append(
                &trail,
                vec![write(&pool, version % 7, 1 + version % 9, version)],
            )
            .await;
            trail.hold(lsn);
        }
        let last = trail.appended();
        trail.wait_durable(last, FlushCause::Commit).await.unwrap();
        assert!(trail.stats().bytes > 10 * 8 * 16 * 4096);
        (last, released.get())
    });
    let (commits, ..) = recovered(world.images().remove(0), &geometry, 1, LogState::default());
    assert_eq!(commits.last().map(|commit| commit.0), Some(last.0));
    assert!(
        commits[0].0 <= released.0 + 1,
        "nothing that was held is missing"
    );
    assert!(commits.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
}

#[test]
fn log_space_is_granted_in_turn_past_dropped_waits() {
    let geometry = geometry(8, 16);
    let rt = Rt::new(world(&geometry).driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let served = Rc::new(RefCell::new(Vec::new()));
        let waiters: Vec<_> = (0..50u64)
            .map(|index| {
                let (trail, pool, served) = (trail.clone(), pool.clone(), served.clone());
                rt2.spawn(async move {
                    let lsn = append(&trail, vec![write(&pool, index, 1, index)]).await;
                    trail.hold(lsn);
                    served.borrow_mut().push(index);
                })
            })
            .collect();
        rt2.yield_now().await;
        let noop = &mut Context::from_waker(Waker::noop());
        let mut leaves = Box::pin(trail.admit(1, 0, false));
        assert!(leaves.as_mut().poll(noop).is_pending(), "the log is full");
        let (last, own) = (trail.clone(), served.clone());
        let last = rt2.spawn(async move {
            drop(last.admit(1, 0, false).await);
            own.borrow_mut().push(50);
        });
        rt2.yield_now().await;
        drop(leaves);
        assert!(trail.is_full() && served.borrow().len() < 50);
        for lsn in 1..=50 {
            trail
                .wait_durable(Lsn(lsn.min(trail.appended().0)), FlushCause::Commit)
                .await
                .unwrap();
            while trail.durable() < Lsn(lsn) {
                rt2.sleep(tonearm_base::Nanos::from_micros(50)).await;
            }
            trail.release(Lsn(lsn));
            trail.advance();
        }
        for waiter in waiters {
            waiter.await;
        }
        last.await;
        assert_eq!(*served.borrow(), Vec::from_iter(0..=50));
        assert!(!trail.is_full());
    });
}

#[test]
fn an_ordered_cache_needs_no_flush() {
    let geometry = geometry(16, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let options = TrailOptions {
            write_cache: WriteCache::Ordered,
            ..TrailOptions::default()
        };
        let start = TrailStart {
            epoch: 1,
            ..TrailStart::default()
        };
        let trail = Trail::start(&rt2, &pool, vec![device(&rt2)], shape, start, options);
        let lsn = append(&trail, vec![write(&pool, 1, 1, 1)]).await;
        trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
        assert_eq!(
            (trail.stats().flushes, trail.stats().durable_writes),
            (0, 0)
        );
    });
}

#[test]
fn commits_without_waiting_callers_share_a_write() {
    let geometry = geometry(16, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let options = TrailOptions {
            commit_delay: Nanos::from_millis(1),
            ..TrailOptions::default()
        };
        let start = TrailStart {
            epoch: 1,
            ..TrailStart::default()
        };
        let trail = Trail::start(&rt2, &pool, vec![device(&rt2)], shape, start, options);
        for block in 0..10 {
            append(&trail, vec![write(&pool, block, 1, 1)]).await;
            rt2.sleep(Nanos::from_micros(50)).await;
        }
        assert_eq!(trail.stats().writes, 0, "the commits are delayed");
        rt2.sleep(Nanos::from_millis(1)).await;
        assert_eq!((trail.stats().writes, trail.stats().commits), (1, 10));
        // A caller that waits gets its commit and all earlier ones written at once.
        append(&trail, vec![write(&pool, 20, 1, 1)]).await;
        let (lsn, began) = (
            append(&trail, vec![write(&pool, 21, 1, 1)]).await,
            rt2.now(),
        );
        trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
        assert!(rt2.now().since(began) < Nanos::from_millis(1));
        assert_eq!((trail.stats().writes, trail.stats().commits), (2, 12));
        // Without one that waits, all that is queued is written at once when a caller asks for it, and later commits are delayed.
        append(&trail, vec![write(&pool, 22, 1, 1)]).await;
        append(&trail, vec![write(&pool, 23, 1, 1)]).await;
        trail.write_now();
        rt2.sleep(Nanos::from_micros(500)).await;
        assert_eq!((trail.stats().writes, trail.stats().commits), (3, 14));
        append(&trail, vec![write(&pool, 24, 1, 1)]).await;
        rt2.sleep(Nanos::from_micros(500)).await;
        assert_eq!(trail.stats().writes, 3);
    });
}

#[test]
fn large_commits_are_not_delayed() {
    let writes = |pipeline_bytes: u64, blocks: u64| {
        let geometry = geometry(8, 16);
        let rt = Rt::new(world(&geometry).driver());
        let rt2 = rt.clone();
        rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let options = TrailOptions {
                commit_delay: Nanos::from_millis(3_600_000),
                pipeline_bytes,
                ..TrailOptions::default()
            };
            let start = TrailStart {
                epoch: 1,
                ..TrailStart::default()
            };
            let trail = Trail::start(&rt2, &pool, vec![device(&rt2)], geometry, start, options);
            let own = trail.clone();
            let appended = rt2.spawn(async move {
                for block in 0..blocks {
                    let lsn = append(&own, vec![write(&pool, block, 1, 1)]).await;
                    own.hold(lsn);
                }
            });
            rt2.sleep(Nanos::from_millis(100)).await;
            let found = (trail.stats().writes > 0, trail.is_full());
            drop(appended);
            found
        })
    };
    let (little, much) = (8, 200);
    assert_eq!(writes(1 << 20, little), (false, false));
    assert_eq!(writes(4 * BLOCK as u64, little), (true, false));
    assert_eq!(writes(1 << 20, much), (true, true));
}

#[test]
fn the_payload_may_be_a_copy_of_a_log() {
    let geometry = geometry(16, 16);
    let first = world(&geometry);
    let rt = Rt::new(first.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let last = append(&trail, vec![write(&pool, 0, 5, 1)]).await;
        trail.wait_durable(last, FlushCause::Commit).await.unwrap();
    });
    let mut log = vec![0; 8 * 4096];
    first.images()[0].read(OFFSET, &mut log);
    let second = world(&geometry);
    let rt = Rt::new(second.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let data = pool.copy_of(&log).share();
        let last = append(&trail, vec![change(40, data)]).await;
        trail.wait_durable(last, FlushCause::Commit).await.unwrap();
    });
    let world = SimWorld::new(SimOptions::default(), second.images());
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let mut replay = Replay::start(
            &pool,
            vec![device(&rt2)],
            shape,
            1,
            LogState::default(),
            false,
        )
        .await;
        let commit = replay.next().await.unwrap().unwrap();
        assert_eq!(commit.changes.len(), 8);
        assert!(tonearm_format::RecordHeader::looks_like_one(
            commit.changes[0].data.as_ref().unwrap()
        ));
        assert!(replay.next().await.unwrap().is_none());
    });
}

/// A marker names the place where recovery begins. Queued commits come after it, and must be replayed.
#[test]
fn marker_is_numbered_before_queued_commits() {
    let geometry = geometry(8, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    let (markers, durable) = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        // The commits fill the log: no track may be opened any more while some are queued.
        for version in 0..12u64 {
            let admission = trail.admit(1, 0, false).await.unwrap();
            let lsn = trail.append(admission, |_| vec![write(&pool, version * 10, 10, version)]);
            trail.hold(lsn);
        }
        rt2.sleep(Nanos::from_millis(20)).await;
        assert!(trail.flushed() < trail.appended(), "some are queued");
        trail.sync_written().await.unwrap();
        let durable = trail.durable();
        for lsn in 1..=durable.0 {
            trail.release(Lsn(lsn));
        }
        trail.advance();
        trail
            .wait_durable(trail.appended(), FlushCause::Commit)
            .await
            .unwrap();
        assert_eq!(trail.replayed_from(), durable + 1);
        (trail.stats().markers, durable)
    });
    assert!(markers > 0, "a marker was needed");
    let (commits, case, _) = recovered(world.images().remove(0), &geometry, 1, LogState::default());
    assert_eq!(case, Case::End);
    assert_eq!(commits.first().map(|commit| commit.0), Some(durable.0 + 1));
    // Every record without entries has the number of the commit that comes next.
    let mut records = Vec::new();
    for sector in 0..8 * 16 {
        let mut bytes = vec![0; 4096];
        world.images()[0].read(OFFSET + sector * 4096, &mut bytes);
        if let Ok((header, _)) = tonearm_format::RecordHeader::decode(&bytes) {
            records.push((header.seq, header.first_lsn, header.entries.is_empty()));
        }
    }
    records.sort();
    for pair in records.windows(2) {
        if pair[0].2 && pair[0].0 + 1 == pair[1].0 {
            assert_eq!(pair[0].1, pair[1].1, "record {:?}", pair[0].0);
        }
    }
}

#[test]
fn returned_log_space_goes_to_waiting_commits() {
    let geometry = geometry(8, 16);
    let rt = Rt::new(world(&geometry).driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let all = trail
            .admit(shape.commit_blocks_max(), 0, false)
            .await
            .unwrap();
        let served = Rc::new(std::cell::Cell::new(0));
        for _ in 0..3 {
            let (trail, served) = (trail.clone(), served.clone());
            rt2.spawn(async move {
                drop(trail.admit(20, 0, false).await.unwrap());
                served.set(served.get() + 1);
            });
        }
        rt2.sleep(Nanos::from_millis(1)).await;
        assert_eq!(served.get(), 0);
        // No write happens, and no commit becomes durable.
        drop(all);
        rt2.sleep(Nanos::from_millis(1)).await;
        assert_eq!(served.get(), 3);
    });
}

#[test]
fn data_leaves_log_space_to_commits_that_free_space() {
    let geometry = geometry(8, 16);
    let rt = Rt::new(world(&geometry).driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        let noop = &mut Context::from_waker(Waker::noop());
        let mut waiting = loop {
            let mut admit = Box::pin(trail.admit(1, 0, false));
            match admit.as_mut().poll(noop) {
                std::task::Poll::Ready(admission) => {
                    let lsn = trail.append(admission.unwrap(), |_| vec![write(&pool, 1, 1, 1)]);
                    trail.hold(lsn);
                    trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
                }
                std::task::Poll::Pending => break admit,
            }
        };
        assert!(waiting.as_mut().poll(noop).is_pending());
        drop(waiting);
        let trim = Change::Trim { first: 0, count: 9 };
        let lsn = append(&trail, vec![trim]).await;
        trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
    });
}

#[test]
fn unflushed_tail_stays_within_recovery_lookahead() {
    let geometry = geometry(32, 16);
    let rt = Rt::new(world(&geometry).driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        // 7 records on each track.
        let most = 7 * (crate::unflushed_tracks_max(32) + 1);
        for version in 0..150 {
            let lsn = append(&trail, vec![write(&pool, 1, 1, version)]).await;
            trail.hold(lsn);
            // No caller waits for it, so it is not flushed for its own sake.
            rt2.sleep(Nanos::from_millis(1)).await;
            let undurable = trail.flushed().0 - trail.durable().0;
            assert!(undurable <= most, "{undurable} of {lsn:?}");
        }
        assert!(trail.flushed() == Lsn(150) && trail.durable() > Lsn(0));
    });
}

/// Makes commits 1 to 40 of one block, and holds each.
async fn hold_forty(trail: &Trail, pool: &BufPool) {
    for version in 0..40 {
        trail.hold(append(trail, vec![write(pool, 1, 1, version)]).await);
    }
}

fn release_forty(trail: &Trail) {
    for lsn in 1..=40 {
        trail.release(Lsn(lsn));
    }
    trail.advance();
}

/// All commits are at home, and a marker alone says where the log begins. The next opening goes on with their numbers.
#[test]
fn marker_only_log_keeps_the_last_commit_number() {
    let geometry = geometry(8, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    let last = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        hold_forty(&trail, &pool).await;
        let waits = trail.clone();
        let waiting = rt2.spawn(async move { waits.admit(50, 0, false).await.is_ok() });
        trail
            .wait_durable(trail.appended(), FlushCause::Commit)
            .await
            .unwrap();
        release_forty(&trail);
        assert!(waiting.await, "the marker has made room");
        assert_eq!((trail.stats().markers, trail.replayed_from()), (1, Lsn(41)));
        trail.durable()
    });
    let image = world.images().remove(0);
    let (commits, case, state) = recovered(image.clone(), &geometry, 1, LogState::default());
    assert_eq!((commits, case), (Vec::new(), Case::End));
    assert_eq!(Lsn(state.log_end_lsn), last);
    // The next opening makes no commit. The one after it goes on, too.
    let (_, _, state) = recovered(image, &geometry, 2, state);
    assert_eq!(Lsn(state.log_end_lsn), last);
}

#[test]
fn ending_log_flushes_without_writing_a_marker() {
    let geometry = geometry(8, 16);
    let rt = Rt::new(world(&geometry).driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        hold_forty(&trail, &pool).await;
        // A commit waits for log space, so a marker is due once the log start can move.
        let waits = trail.clone();
        let waiting = rt2.spawn(async move { waits.admit(50, 0, false).await.is_ok() });
        rt2.yield_now().await;
        assert!(trail.is_full());
        trail.finish().await.unwrap();
        assert_eq!(trail.durable(), Lsn(40));
        release_forty(&trail);
        rt2.sleep(Nanos::from_millis(1)).await;
        assert_eq!(trail.stats().markers, 0);
        assert_eq!(trail.end_state().log_end_lsn, 40);
        trail.stop();
        drop(waiting);
    });
}

/// A wait for the device's write ends without a flush, also for commits that are delayed, and with an error when the log has failed.
#[test]
fn a_commit_is_written_before_it_is_durable() {
    let geometry = geometry(8, 16);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, shape) = (rt.clone(), geometry.clone());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &shape, 1, LogState::default());
        for block in 0..3 {
            let lsn = append(&trail, vec![write(&pool, block, 1, 1)]).await;
            trail.wait_flushed(lsn).await.unwrap();
            assert!(trail.flushed() >= lsn);
            assert_eq!(trail.durable(), Lsn(0));
        }
        assert_eq!(trail.stats().flushes, 0);
        let lsn = append(&trail, vec![write(&pool, 9, 1, 1)]).await;
        let waits = trail.clone();
        let waiting = rt2.spawn(async move { waits.wait_flushed(lsn).await });
        rt2.yield_now().await;
        trail.give_up("a home has failed");
        // It is known by then whether the write has ended.
        let ended = waiting.await;
        assert!(ended.is_err() || trail.flushed() >= lsn);
        trail.stop();
    });
}

/// A log of several drives is durable when all of them have flushed. Which of them fails, and which flush ends last, makes no
/// difference.
#[test]
fn a_flush_that_fails_on_any_drive_makes_no_commit_durable() {
    for drive in 0..3 {
        let mut geometry = geometry(18, 16);
        geometry.members = vec![geometry.members[0].clone(); 3];
        let size = OFFSET + geometry.bytes();
        let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(size); 3]);
        let rt = Rt::new(world.driver());
        let own = rt.clone();
        world.set_fault(move |request| {
            let fails = request.op == Op::Flush && request.device == DeviceId(drive);
            fails.then_some(IoError::EIO)
        });
        rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let device = |index| {
                let raw = RawDevice::new(&own, DeviceId(index), u64::MAX, 512, "log");
                Rc::new(raw) as Rc<dyn Device>
            };
            let start = TrailStart {
                epoch: 1,
                ..TrailStart::default()
            };
            let devices = (0..3).map(device).collect();
            let options = TrailOptions::default();
            let trail = Trail::start(&own, &pool, devices, geometry, start, options);
            // Written commits without a waiting caller: a flush makes them durable, not a write with FUA.
            let lsn = append(&trail, vec![write(&pool, 1, 1, 1)]).await;
            trail.wait_flushed(lsn).await.unwrap();
            let ended = trail.sync_written().await;
            assert!(ended.is_err(), "drive {drive}");
            assert_eq!(trail.durable(), Lsn(0), "drive {drive}");
            let waited = trail.wait_durable(lsn, FlushCause::Commit).await;
            assert!(waited.is_err(), "drive {drive}");
        });
    }
}
