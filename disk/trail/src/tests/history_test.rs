//! The history of a running log, read while it is written.

use super::log_test::{append, device, geometry, start, world, write};
use crate::{FlushCause, History, HistoryError, Replay, Trail, TrailOptions, TrailStart};
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_format::LogState;
use tonearm_rt::Rt;
use tonearm_world::{SimOptions, SimWorld};

const READ: u64 = 64 << 10;

/// Appends commits up to `last`; each is released once it is durable.
async fn write_up_to(rt: &Rt, pool: &BufPool, trail: &Trail, last: u64) {
    while trail.appended() < Lsn(last) {
        let version = trail.appended().0 + 1;
        let changes = vec![write(pool, version % 7, 1 + version % 40, version)];
        append(trail, changes).await;
        if version.is_multiple_of(5) {
            trail.sync_written().await.unwrap();
            trail.advance();
        }
        if version.is_multiple_of(3) {
            rt.sleep(Nanos::from_micros(1000)).await;
        }
    }
}

/// Reads everything that is durable, and checks it against what was written.
async fn read_all(trail: &Trail, history: &mut History, bytes: u64) -> Result<u64, HistoryError> {
    let mut count = 0;
    loop {
        let commits = history.read(bytes).await?;
        if commits.is_empty() {
            return Ok(count);
        }
        for commit in commits {
            assert!(
                commit.lsn <= trail.durable(),
                "a commit that is not durable"
            );
            let version = commit.lsn.0;
            assert_eq!(commit.changes.len() as u64, 1 + version % 40);
            for (change, block) in commit.changes.iter().zip(version % 7..) {
                let data = change.data.as_ref().expect("content");
                assert_eq!(
                    (change.block, &data[..8]),
                    (block, &block.to_le_bytes()[..])
                );
                assert_eq!(data[8..16], version.to_le_bytes());
            }
            count += 1;
        }
    }
}

#[test]
fn reader_returns_each_commit_once_as_the_log_wraps() {
    let geometry = geometry(16, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&own, &pool, &geometry, 1, LogState::default());
        let mut history = History::open(&trail, Lsn(1)).await.unwrap();
        let (rt, writing, buffers) = (own.clone(), trail.clone(), pool.clone());
        let writer = own.spawn(async move { write_up_to(&rt, &buffers, &writing, 500).await });
        let (mut count, mut rounds) = (0, 0);
        while count < 500 {
            let bytes = [READ, 10 * READ][rounds % 2];
            count += read_all(&trail, &mut history, bytes).await.unwrap();
            own.sleep(Nanos::from_micros(300)).await;
            rounds += 1;
            if trail.appended() == Lsn(500) {
                trail
                    .wait_durable(Lsn(500), FlushCause::Commit)
                    .await
                    .unwrap();
            }
        }
        writer.await;
        assert_eq!((count, history.next()), (500, Lsn(501)));
        assert!(trail.stats().bytes > 5 * geometry.bytes());
    });
}

#[test]
fn a_reader_begins_anywhere_in_what_the_log_still_has() {
    let geometry = geometry(16, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&own, &pool, &geometry, 1, LogState::default());
        write_up_to(&own, &pool, &trail, 200).await;
        trail
            .wait_durable(Lsn(200), FlushCause::Commit)
            .await
            .unwrap();
        let mut readable = 0;
        for from in 1..=201 {
            match History::open(&trail, Lsn(from)).await {
                Ok(mut history) => {
                    let count = read_all(&trail, &mut history, 1 + from % 3 * READ)
                        .await
                        .unwrap();
                    assert_eq!(count, 201 - from);
                    readable += 1;
                }
                Err(error) => {
                    assert_eq!(error, HistoryError::Lost(Lsn(from)));
                    assert_eq!(readable, 0, "what follows a readable commit is readable");
                }
            }
        }
        assert!((20..150).contains(&readable), "{readable}");
    });
}

#[test]
fn overtaken_reader_reports_the_lost_commit() {
    let geometry = geometry(8, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&own, &pool, &geometry, 1, LogState::default());
        let mut history = History::open(&trail, Lsn(1)).await.unwrap();
        write_up_to(&own, &pool, &trail, 5).await;
        trail
            .wait_durable(Lsn(5), FlushCause::Commit)
            .await
            .unwrap();
        assert_eq!(read_all(&trail, &mut history, READ).await, Ok(5));
        write_up_to(&own, &pool, &trail, 400).await;
        let lost = Err(HistoryError::Lost(Lsn(6)));
        assert_eq!(read_all(&trail, &mut history, READ).await, lost);
    });
}

/// After a power cut and after an orderly end, the log of the next opening has the commits of those before.
#[test]
fn history_goes_on_over_openings() {
    let geometry = geometry(16, 64);
    let mut image = world(&geometry).images().remove(0);
    let (mut state, mut live, mut last) = (LogState::default(), Vec::new(), 0);
    for epoch in 1..12 {
        let world = SimWorld::new(SimOptions::default(), vec![image]);
        let rt = Rt::new(world.driver());
        let (own, shape, records) = (rt.clone(), geometry.clone(), std::mem::take(&mut live));
        let ended = rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let start = TrailStart {
                epoch,
                state,
                live: records,
                heads: Vec::new(),
            };
            let options = TrailOptions::default();
            let trail = Trail::start(&own, &pool, vec![device(&own)], shape, start, options);
            trail.advance();
            let mut history = History::open(&trail, Lsn(last + 1)).await.unwrap();
            write_up_to(&own, &pool, &trail, last + 9).await;
            trail
                .wait_durable(Lsn(last + 9), FlushCause::Commit)
                .await
                .unwrap();
            assert_eq!(read_all(&trail, &mut history, READ).await, Ok(9));
            let earlier = Lsn(last.saturating_sub(12).max(1));
            let mut history = History::open(&trail, earlier).await.unwrap();
            let count = last + 10 - earlier.0;
            assert_eq!(read_all(&trail, &mut history, READ).await, Ok(count));
            if epoch % 2 == 0 {
                trail.advance();
                trail.finish().await.unwrap();
                return Some(trail.end_state());
            }
            // More that is on its way at the power cut.
            let changes = vec![write(
                &pool,
                (last + 10) % 7,
                1 + (last + 10) % 40,
                last + 10,
            )];
            append(&trail, changes).await;
            None
        });
        image = world.images().remove(0);
        (state, last) = match ended {
            Some(state) => (state, last + 9),
            None => {
                let world = SimWorld::new(SimOptions::default(), vec![image.clone()]);
                let rt = Rt::new(world.driver());
                let (own, shape) = (rt.clone(), geometry.clone());
                let tail = rt.block_on(async move {
                    let pool = BufPool::new(1 << 20);
                    let devices = vec![device(&own)];
                    let mut replay =
                        Replay::start(&pool, devices, shape, epoch, state, false).await;
                    while replay.next().await.unwrap().is_some() {}
                    replay.into_tail()
                });
                live = tail.records;
                (tail.state, tail.state.log_end_lsn)
            }
        };
    }
}

/// A reader may stop on its way through the commits of an earlier opening. Those of this opening are on the track after them, which
/// was empty when the reader last looked at it.
#[test]
fn reader_of_an_earlier_opening_sees_later_commits() {
    let geometry = geometry(8, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let durable = async |trail: &Trail, version| {
            let lsn = append(trail, vec![write(&pool, version, 1, version)]).await;
            trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
        };
        let first = start(&own, &pool, &geometry, 1, LogState::default());
        for version in 1..=3 {
            durable(&first, version).await;
        }
        first.advance();
        first.finish().await.unwrap();
        let state = first.end_state();
        first.stop();
        let second = start(&own, &pool, &geometry, 2, state);
        let mut history = History::open(&second, Lsn(1)).await.unwrap();
        let mut found = Vec::new();
        for version in 4..=6 {
            let commits = history.read(1).await.unwrap();
            found.extend(commits.into_iter().map(|commit| commit.lsn.0));
            durable(&second, version).await;
        }
        while history.next() <= Lsn(6) {
            let commits = history.read(1).await.unwrap();
            found.extend(commits.into_iter().map(|commit| commit.lsn.0));
        }
        assert_eq!(found, [1, 2, 3, 4, 5, 6]);
        second.stop();
    });
}
