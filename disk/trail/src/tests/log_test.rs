//! A log that is written, filled, released and opened again.

use super::fixture::{BLOCK, Log, OFFSET, Setup, change, geometry, replayed, write};
use crate::{Case, Change, FlushCause, WriteCache};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_base::{Lsn, Nanos};
use tonearm_format::{LogState, RecordHeader};
use tonearm_rt::{DeviceId, IoError, Op};

#[test]
fn appended_commits_are_recovered_in_order() {
    let mut setup = Setup::new(16, 16);
    setup.run(|log| async move {
        for version in 0..10 {
            log.write(version, 1, version).await;
        }
        // Over several tracks, with a range besides the data.
        let trim = Change::Trim {
            first: 500,
            count: 1 << 30,
        };
        let last = log.append(vec![write(&log.pool, 100, 40, 7), trim]).await;
        log.wait(last).await;
        assert_eq!((log.durable(), log.appended()), (Lsn(11), Lsn(11)));
        assert!(
            log.stats().writes < 11,
            "what is queued shares device writes"
        );
    });
    let (commits, case, state) = setup.recovered();
    let expected: Vec<(u64, usize)> = (1..=10).map(|lsn| (lsn, 1)).chain([(11, 41)]).collect();
    assert_eq!((commits, case), (expected, Case::End));
    assert_eq!((state.log_end_lsn, state.log_start_seq), (11, 1));
}

#[test]
fn several_records_of_one_device_write_are_recovered() {
    let mut setup = Setup::new(16, 16);
    setup.run(|log| async move {
        let mut last = Lsn(0);
        // More ranges than one header has room for.
        for first in 0..1000 {
            last = log.append(vec![Change::Trim { first, count: 1 }]).await;
        }
        log.wait(last).await;
        let stats = log.stats();
        assert!(stats.records > stats.writes, "{stats:?}");
    });
    let (commits, case, _) = setup.recovered();
    assert_eq!((commits.len(), case), (1000, Case::End));
}

#[test]
fn a_full_log_waits_for_releases_and_wraps_many_times() {
    let mut setup = Setup::new(8, 16);
    let (last, released) = setup.run(|log| async move {
        let released = Rc::new(Cell::new(Lsn(0)));
        let (freer, count) = (log.clone(), released.clone());
        log.rt.spawn(async move {
            loop {
                freer.rt.sleep(Nanos::from_micros(50)).await;
                freer.sync_written().await.unwrap();
                while count.get() < freer.durable() {
                    count.set(count.get() + 1);
                    freer.release(count.get());
                }
                freer.advance();
            }
        });
        for version in 0..1000u64 {
            let lsn = log.write(version % 7, 1 + version % 9, version).await;
            log.hold(lsn);
        }
        let last = log.appended();
        log.wait(last).await;
        assert!(log.stats().bytes > 10 * 8 * 16 * 4096);
        (last, released.get())
    });
    let (commits, ..) = setup.recovered();
    assert_eq!(commits.last().map(|commit| commit.0), Some(last.0));
    assert!(
        commits[0].0 <= released.0 + 1,
        "nothing that was held is missing"
    );
    assert!(commits.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
}

#[test]
fn log_space_is_granted_in_turn_past_dropped_waits() {
    let mut setup = Setup::new(8, 16);
    setup.run(|log| async move {
        let served = Rc::new(RefCell::new(Vec::new()));
        let waiters: Vec<_> = (0..50u64)
            .map(|index| {
                let (own, served) = (log.clone(), served.clone());
                log.rt.spawn(async move {
                    own.hold(own.write(index, 1, index).await);
                    served.borrow_mut().push(index);
                })
            })
            .collect();
        log.rt.yield_now().await;
        let noop = &mut Context::from_waker(Waker::noop());
        let mut leaves = Box::pin(log.admit(1, 0, false));
        assert!(leaves.as_mut().poll(noop).is_pending(), "the log is full");
        let (last, own) = (log.clone(), served.clone());
        let last = log.rt.spawn(async move {
            drop(last.admit(1, 0, false).await);
            own.borrow_mut().push(50);
        });
        log.rt.yield_now().await;
        drop(leaves);
        assert!(log.is_full() && served.borrow().len() < 50);
        for lsn in 1..=50 {
            log.wait(Lsn(lsn.min(log.appended().0))).await;
            while log.durable() < Lsn(lsn) {
                log.rt.sleep(Nanos::from_micros(50)).await;
            }
            log.release(Lsn(lsn));
            log.advance();
        }
        for waiter in waiters {
            waiter.await;
        }
        last.await;
        assert_eq!(*served.borrow(), Vec::from_iter(0..=50));
        assert!(!log.is_full());
    });
}

#[test]
fn an_ordered_cache_needs_no_flush() {
    let mut setup = Setup::new(16, 16);
    setup.options.write_cache = WriteCache::Ordered;
    setup.run(|log| async move {
        let lsn = log.write(1, 1, 1).await;
        log.wait(lsn).await;
        assert_eq!((log.stats().flushes, log.stats().durable_writes), (0, 0));
    });
}

#[test]
fn commits_without_waiting_callers_share_a_write() {
    let mut setup = Setup::new(16, 64);
    setup.options.commit_delay = Nanos::from_millis(1);
    setup.run(|log| async move {
        for block in 0..10 {
            log.write(block, 1, 1).await;
            log.rt.sleep(Nanos::from_micros(50)).await;
        }
        assert_eq!(log.stats().writes, 0, "the commits are delayed");
        log.rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!((log.stats().writes, log.stats().commits), (1, 10));
        // A caller that waits gets its commit and all earlier ones written at once.
        log.write(20, 1, 1).await;
        let (lsn, began) = (log.write(21, 1, 1).await, log.rt.now());
        log.wait(lsn).await;
        assert!(log.rt.now().since(began) < Nanos::from_millis(1));
        assert_eq!((log.stats().writes, log.stats().commits), (2, 12));
        // Without one that waits, all that is queued is written at once when a caller asks for it, and later commits are delayed.
        log.write(22, 1, 1).await;
        log.write(23, 1, 1).await;
        log.write_now();
        log.rt.sleep(Nanos::from_micros(500)).await;
        assert_eq!((log.stats().writes, log.stats().commits), (3, 14));
        log.write(24, 1, 1).await;
        log.rt.sleep(Nanos::from_micros(500)).await;
        assert_eq!(log.stats().writes, 3);
    });
}

#[test]
fn large_commits_are_not_delayed() {
    let writes = |pipeline_bytes: u64, blocks: u64| {
        let mut setup = Setup::new(8, 16);
        setup.options.commit_delay = Nanos::from_millis(3_600_000);
        setup.options.pipeline_bytes = pipeline_bytes;
        setup.run(|log| async move {
            let own = log.clone();
            let appended = log.rt.spawn(async move {
                for block in 0..blocks {
                    let lsn = own.write(block, 1, 1).await;
                    own.hold(lsn);
                }
            });
            log.rt.sleep(Nanos::from_millis(100)).await;
            let found = (log.stats().writes > 0, log.is_full());
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
    let mut first = Setup::new(16, 16);
    first.run(|log| async move { log.wait(log.write(0, 5, 1).await).await });
    let mut copy = vec![0; 8 * 4096];
    first.image().read(OFFSET, &mut copy);
    let mut second = Setup::new(16, 16);
    second.run(|log| async move {
        let data = log.pool.copy_of(&copy).share();
        log.wait(log.append(vec![change(40, data)]).await).await;
    });
    let images = second.world.images();
    let (commits, _) = replayed(images, &second.geometry, 1, LogState::default());
    assert_eq!((commits.len(), commits[0].changes.len()), (1, 8));
    let data = commits[0].changes[0].data.as_ref();
    assert!(RecordHeader::looks_like_one(data.unwrap()));
}

/// A marker names the place where recovery begins. Queued commits come after it, and must be replayed.
#[test]
fn marker_is_numbered_before_queued_commits() {
    let mut setup = Setup::new(8, 16);
    let (markers, durable) = setup.run(|log| async move {
        // The commits fill the log: no track may be opened any more while some are queued.
        for version in 0..12u64 {
            let admission = log.admit(1, 0, false).await.unwrap();
            let lsn = log.trail.append(admission, |_| {
                vec![write(&log.pool, version * 10, 10, version)]
            });
            log.hold(lsn);
        }
        log.rt.sleep(Nanos::from_millis(20)).await;
        assert!(log.flushed() < log.appended(), "some are queued");
        log.sync_written().await.unwrap();
        let durable = log.durable();
        for lsn in 1..=durable.0 {
            log.release(Lsn(lsn));
        }
        log.advance();
        log.wait(log.appended()).await;
        assert_eq!(log.replayed_from(), durable + 1);
        (log.stats().markers, durable)
    });
    assert!(markers > 0, "a marker was needed");
    let (commits, case, _) = setup.recovered();
    assert_eq!(case, Case::End);
    assert_eq!(commits.first().map(|commit| commit.0), Some(durable.0 + 1));
    // Every record without entries has the number of the commit that comes next.
    let mut records = Vec::new();
    for sector in 0..8 * 16 {
        let mut bytes = vec![0; 4096];
        setup.image().read(OFFSET + sector * 4096, &mut bytes);
        if let Ok((header, _)) = RecordHeader::decode(&bytes) {
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
    let mut setup = Setup::new(8, 16);
    setup.run(|log| async move {
        let all = log
            .admit(log.geometry().commit_blocks_max(), 0, false)
            .await
            .unwrap();
        let served = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let (own, served) = (log.clone(), served.clone());
            log.rt.spawn(async move {
                drop(own.admit(20, 0, false).await.unwrap());
                served.set(served.get() + 1);
            });
        }
        log.rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(served.get(), 0);
        // No write happens, and no commit becomes durable.
        drop(all);
        log.rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(served.get(), 3);
    });
}

#[test]
fn data_leaves_log_space_to_commits_that_free_space() {
    let mut setup = Setup::new(8, 16);
    setup.run(|log| async move {
        let noop = &mut Context::from_waker(Waker::noop());
        let mut waiting = loop {
            let mut admit = Box::pin(log.admit(1, 0, false));
            match admit.as_mut().poll(noop) {
                Poll::Ready(admission) => {
                    let lsn = log
                        .trail
                        .append(admission.unwrap(), |_| vec![write(&log.pool, 1, 1, 1)]);
                    log.hold(lsn);
                    log.wait(lsn).await;
                }
                Poll::Pending => break admit,
            }
        };
        assert!(waiting.as_mut().poll(noop).is_pending());
        drop(waiting);
        let trim = Change::Trim { first: 0, count: 9 };
        let lsn = log.append(vec![trim]).await;
        log.wait(lsn).await;
    });
}

#[test]
fn unflushed_tail_stays_within_recovery_lookahead() {
    let mut setup = Setup::new(32, 16);
    setup.run(|log| async move {
        // 7 records on each track.
        let most = 7 * (crate::unflushed_tracks_max(32) + 1);
        for version in 0..150 {
            let lsn = log.write(1, 1, version).await;
            log.hold(lsn);
            // No caller waits for it, so it is not flushed for its own sake.
            log.rt.sleep(Nanos::from_millis(1)).await;
            let undurable = log.flushed().0 - log.durable().0;
            assert!(undurable <= most, "{undurable} of {lsn:?}");
        }
        assert!(log.flushed() == Lsn(150) && log.durable() > Lsn(0));
    });
}

/// Makes commits 1 to 40 of one block, and holds each.
async fn hold_forty(log: &Log) {
    for version in 0..40 {
        log.hold(log.write(1, 1, version).await);
    }
}

fn release_forty(log: &Log) {
    for lsn in 1..=40 {
        log.release(Lsn(lsn));
    }
    log.advance();
}

/// All commits are at home, and a marker alone says where the log begins. The next opening goes on with their numbers.
#[test]
fn marker_only_log_keeps_the_last_commit_number() {
    let mut setup = Setup::new(8, 16);
    let last = setup.run(|log| async move {
        hold_forty(&log).await;
        let waits = log.clone();
        let waiting = log
            .rt
            .spawn(async move { waits.admit(50, 0, false).await.is_ok() });
        log.wait(log.appended()).await;
        release_forty(&log);
        assert!(waiting.await, "the marker has made room");
        assert_eq!((log.stats().markers, log.replayed_from()), (1, Lsn(41)));
        log.durable()
    });
    let (commits, case, state) = setup.recovered();
    assert_eq!((commits, case), (Vec::new(), Case::End));
    assert_eq!(Lsn(state.log_end_lsn), last);
    // The next opening makes no commit. The one after it goes on, too.
    let (_, tail) = replayed(vec![setup.image()], &setup.geometry, 2, state);
    assert_eq!(Lsn(tail.state.log_end_lsn), last);
}

#[test]
fn ending_log_flushes_without_writing_a_marker() {
    let mut setup = Setup::new(8, 16);
    setup.run(|log| async move {
        hold_forty(&log).await;
        // A commit waits for log space, so a marker is due once the log start can move.
        let waits = log.clone();
        let waiting = log
            .rt
            .spawn(async move { waits.admit(50, 0, false).await.is_ok() });
        log.rt.yield_now().await;
        assert!(log.is_full());
        log.finish().await.unwrap();
        assert_eq!(log.durable(), Lsn(40));
        release_forty(&log);
        log.rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(log.stats().markers, 0);
        assert_eq!(log.end_state().log_end_lsn, 40);
        log.stop();
        drop(waiting);
    });
}

/// A wait for the device's write ends without a flush, also for commits that are delayed, and with an error when the log has failed.
#[test]
fn a_commit_is_written_before_it_is_durable() {
    let mut setup = Setup::new(8, 16);
    setup.run(|log| async move {
        for block in 0..3 {
            let lsn = log.write(block, 1, 1).await;
            log.wait_flushed(lsn).await.unwrap();
            assert!(log.flushed() >= lsn);
            assert_eq!(log.durable(), Lsn(0));
        }
        assert_eq!(log.stats().flushes, 0);
        let lsn = log.write(9, 1, 1).await;
        let waits = log.clone();
        let waiting = log.rt.spawn(async move { waits.wait_flushed(lsn).await });
        log.rt.yield_now().await;
        log.give_up("a home has failed");
        // It is known by then whether the write has ended.
        let ended = waiting.await;
        assert!(ended.is_err() || log.flushed() >= lsn);
        log.stop();
    });
}

/// A log of several drives is durable when all of them have flushed. Which of them fails, and which flush ends last, makes no
/// difference.
#[test]
fn a_flush_that_fails_on_any_drive_makes_no_commit_durable() {
    for drive in 0..3 {
        let mut geometry = geometry(18, 16);
        geometry.members = vec![geometry.members[0].clone(); 3];
        let mut setup = Setup::of(geometry);
        setup.world.set_fault(move |request| {
            let fails = request.op == Op::Flush && request.device == DeviceId(drive);
            fails.then_some(IoError::EIO)
        });
        setup.run(|log| async move {
            // Written commits without a waiting caller: a flush makes them durable, not a write with FUA.
            let lsn = log.write(1, 1, 1).await;
            log.wait_flushed(lsn).await.unwrap();
            let ended = log.sync_written().await;
            assert!(ended.is_err(), "drive {drive}");
            assert_eq!(log.durable(), Lsn(0), "drive {drive}");
            let waited = log.wait_durable(lsn, FlushCause::Commit).await;
            assert!(waited.is_err(), "drive {drive}");
        });
    }
}
