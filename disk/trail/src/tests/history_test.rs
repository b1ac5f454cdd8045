//! The history of a running log, read while it is written.

use super::fixture::{Log, Setup, replayed};
use crate::{History, HistoryError, TrailOptions, TrailStart};
use tonearm_base::{Lsn, Nanos};
use tonearm_format::LogState;
use tonearm_world::{SimOptions, SimWorld};

const READ: u64 = 64 << 10;

/// Appends commits up to `last`; each is released once it is durable.
async fn write_up_to(log: &Log, last: u64) {
    while log.appended() < Lsn(last) {
        let version = log.appended().0 + 1;
        log.write(version % 7, 1 + version % 40, version).await;
        if version.is_multiple_of(5) {
            log.sync_written().await.unwrap();
            log.advance();
        }
        if version.is_multiple_of(3) {
            log.rt.sleep(Nanos::from_micros(1000)).await;
        }
    }
}

/// Reads everything that is durable, and checks it against what was written.
async fn read_all(log: &Log, history: &mut History, bytes: u64) -> Result<u64, HistoryError> {
    let mut count = 0;
    loop {
        let commits = history.read(bytes).await?;
        if commits.is_empty() {
            return Ok(count);
        }
        for commit in commits {
            assert!(commit.lsn <= log.durable(), "a commit that is not durable");
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
    let mut setup = Setup::new(16, 64);
    setup.run(|log| async move {
        let mut history = History::open(&log, Lsn(1)).await.unwrap();
        let writing = log.clone();
        let writer = log
            .rt
            .spawn(async move { write_up_to(&writing, 500).await });
        let (mut count, mut rounds) = (0, 0);
        while count < 500 {
            let bytes = [READ, 10 * READ][rounds % 2];
            count += read_all(&log, &mut history, bytes).await.unwrap();
            log.rt.sleep(Nanos::from_micros(300)).await;
            rounds += 1;
            if log.appended() == Lsn(500) {
                log.wait(Lsn(500)).await;
            }
        }
        writer.await;
        assert_eq!((count, history.next()), (500, Lsn(501)));
        assert!(log.stats().bytes > 5 * log.geometry().bytes());
    });
}

#[test]
fn a_reader_begins_anywhere_in_what_the_log_still_has() {
    let mut setup = Setup::new(16, 64);
    setup.run(|log| async move {
        write_up_to(&log, 200).await;
        log.wait(Lsn(200)).await;
        let mut readable = 0;
        for from in 1..=201 {
            match History::open(&log, Lsn(from)).await {
                Ok(mut history) => {
                    let count = read_all(&log, &mut history, 1 + from % 3 * READ)
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
    let mut setup = Setup::new(8, 64);
    setup.run(|log| async move {
        let mut history = History::open(&log, Lsn(1)).await.unwrap();
        write_up_to(&log, 5).await;
        log.wait(Lsn(5)).await;
        assert_eq!(read_all(&log, &mut history, READ).await, Ok(5));
        write_up_to(&log, 400).await;
        let lost = Err(HistoryError::Lost(Lsn(6)));
        assert_eq!(read_all(&log, &mut history, READ).await, lost);
    });
}

/// After a power cut and after an orderly end, the log of the next opening has the commits of those before.
#[test]
fn history_goes_on_over_openings() {
    let mut setup = Setup::new(16, 64);
    let (mut state, mut live, mut last) = (LogState::default(), Vec::new(), 0);
    for epoch in 1..12 {
        setup.start = TrailStart {
            epoch,
            state,
            live: std::mem::take(&mut live),
            heads: Vec::new(),
        };
        let ended = setup.run(|log| async move {
            log.advance();
            let mut history = History::open(&log, Lsn(last + 1)).await.unwrap();
            write_up_to(&log, last + 9).await;
            log.wait(Lsn(last + 9)).await;
            assert_eq!(read_all(&log, &mut history, READ).await, Ok(9));
            let earlier = Lsn(last.saturating_sub(12).max(1));
            let mut history = History::open(&log, earlier).await.unwrap();
            let count = last + 10 - earlier.0;
            assert_eq!(read_all(&log, &mut history, READ).await, Ok(count));
            if epoch % 2 == 0 {
                log.advance();
                log.finish().await.unwrap();
                return Some(log.end_state());
            }
            // More that is on its way at the power cut.
            let next = last + 10;
            log.write(next % 7, 1 + next % 40, next).await;
            None
        });
        (state, last) = match ended {
            Some(state) => (state, last + 9),
            None => {
                let (_, tail) = replayed(vec![setup.image()], &setup.geometry, epoch, state);
                live = tail.records;
                (tail.state, tail.state.log_end_lsn)
            }
        };
        setup = Setup::on(
            setup.geometry.clone(),
            SimWorld::new(SimOptions::default(), setup.world.images()),
        );
    }
}

/// A reader may stop on its way through the commits of an earlier opening. Those of this opening are on the track after them, which
/// was empty when the reader last looked at it.
#[test]
fn reader_of_an_earlier_opening_sees_later_commits() {
    let mut setup = Setup::new(8, 64);
    setup.run(|first| async move {
        let durable =
            async |log: &Log, version| log.wait(log.write(version, 1, version).await).await;
        for version in 1..=3 {
            durable(&first, version).await;
        }
        first.advance();
        first.finish().await.unwrap();
        let start = TrailStart {
            epoch: 2,
            state: first.end_state(),
            ..TrailStart::default()
        };
        first.stop();
        let second = Log::open(&first.rt, first.geometry(), start, TrailOptions::default());
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
