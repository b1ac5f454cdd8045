//! Large commits whose blocks are written outside the log.

use super::fixture::{BLOCK, Log, Setup, replayed};
use crate::{IndirectBlock, IndirectSink, TrailError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_format::{EntryKind, LogState};
use tonearm_rt::{Boxed, Rt};

/// Takes blocks in order; their places are numbers from 100 on.
struct Sink {
    rt: Rt,
    taken: RefCell<Vec<IndirectBlock>>,
    /// Blocks that are durable.
    flushed: Cell<usize>,
    refuses: Cell<bool>,
    fails: Cell<bool>,
}

impl Sink {
    fn install(log: &Log) -> Rc<Self> {
        let sink = Rc::new(Self {
            rt: log.rt.clone(),
            taken: RefCell::default(),
            flushed: Cell::new(0),
            refuses: Cell::new(false),
            fails: Cell::new(false),
        });
        log.set_indirect(Rc::new(Handle(sink.clone())));
        sink
    }
}

struct Handle(Rc<Sink>);

impl IndirectSink for Handle {
    fn append(&self, blocks: Rc<[IndirectBlock]>) -> Boxed<'static, Option<Vec<u64>>> {
        let sink = self.0.clone();
        Box::pin(async move {
            sink.rt.sleep(Nanos::from_micros(200)).await;
            if sink.refuses.get() {
                return None;
            }
            let mut taken = sink.taken.borrow_mut();
            let first = 100 + taken.len() as u64;
            taken.extend(blocks.iter().cloned());
            Some((first..).take(blocks.len()).collect())
        })
    }

    fn flush(&self) -> Boxed<'static, Result<(), String>> {
        let sink = self.0.clone();
        Box::pin(async move {
            sink.rt.sleep(Nanos::from_micros(200)).await;
            if sink.fails.get() {
                return Err("the drive is gone".to_string());
            }
            sink.flushed.set(sink.taken.borrow().len());
            Ok(())
        })
    }
}

fn setup() -> Setup {
    let mut setup = Setup::new(32, 64);
    setup.options.large_commit_bytes = 4 * BLOCK as u64;
    setup.options.large_commit_quiet = Nanos::from_millis(10);
    setup
}

/// A block of a commit, and where it is when the log does not have it.
type Logged = (u64, Option<u64>);

/// The commits in the log.
fn logged(setup: &Setup) -> Vec<(u64, Vec<Logged>)> {
    let images = setup.world.images();
    let (commits, _) = replayed(images, &setup.geometry, 1, LogState::default());
    let entries = commits.into_iter().map(|commit| {
        let blocks = commit.changes.iter().map(|change| match change.kind {
            EntryKind::Indirect { place, .. } => (change.block, Some(place)),
            _ => (change.block, None),
        });
        (commit.lsn.0, blocks.collect())
    });
    entries.collect()
}

#[test]
fn log_names_the_places_of_large_commits() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        for commit in 0..6 {
            log.write(10 * commit, 5, 1).await;
            // One that is not large stays in the order.
            log.write(200 + 10 * commit, 1, 1).await;
        }
        log.rt.sleep(Nanos::from_millis(20)).await;
        log.wait(log.appended()).await;
        assert_eq!(sink.taken.borrow().len(), 30);
        assert_eq!(sink.flushed.get(), 30);
        assert_eq!(log.stats().indirect_bytes, 30 * BLOCK as u64);
        assert!(log.stats().bytes < 20 * BLOCK as u64, "{:?}", log.stats());
    });
    let found = logged(&setup);
    assert_eq!(found.len(), 12);
    for (index, (lsn, blocks)) in found.into_iter().enumerate() {
        let (index, pair) = (index as u64, index as u64 / 2);
        assert_eq!(lsn, index + 1);
        let large = (0..5).map(|at| (10 * pair + at, Some(100 + 5 * pair + at)));
        match index % 2 {
            0 => assert_eq!(blocks, large.collect::<Vec<_>>()),
            _ => assert_eq!(blocks, [(200 + 10 * pair, None)]),
        }
    }
}

#[test]
fn commits_that_a_caller_waits_for_go_to_the_log() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        for commit in 0..6 {
            log.write(10 * commit, 5, 1).await;
        }
        log.wait(log.appended()).await;
        assert_eq!(sink.taken.borrow().len(), 0);
    });
    let direct = |(_, blocks): &(u64, Vec<Logged>)| blocks.iter().all(|(_, place)| place.is_none());
    assert!(logged(&setup).iter().all(direct));
}

/// A caller waits for the append that is under way. The commits that follow go to the log, also for a while after it.
#[test]
fn waiting_caller_ends_the_appends() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        let write = async |commits: u64| {
            for commit in 0..commits {
                log.write(10 * commit, 5, 1).await;
            }
        };
        write(100).await;
        log.rt.sleep(Nanos::from_micros(300)).await;
        let taken = sink.taken.borrow().len();
        assert!((1..200).contains(&taken), "{taken}");
        log.wait(log.appended()).await;
        let taken = sink.taken.borrow().len();
        assert!(taken <= 200 && sink.flushed.get() == taken, "{taken}");
        log.rt.sleep(Nanos::from_millis(5)).await;
        write(20).await;
        log.rt.sleep(Nanos::from_millis(3)).await;
        assert_eq!(sink.taken.borrow().len(), taken, "so soon after a wait");
        log.rt.sleep(Nanos::from_millis(20)).await;
        write(20).await;
        log.rt.sleep(Nanos::from_millis(20)).await;
        assert!(sink.taken.borrow().len() > taken);
    });
}

#[test]
fn few_large_commits_go_to_the_log() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        log.write(0, 15, 1).await;
        log.rt.sleep(Nanos::from_millis(20)).await;
        assert_eq!((sink.taken.borrow().len(), log.flushed()), (0, Lsn(1)));
    });
}

#[test]
fn no_commit_is_large_without_a_bound_or_with_a_huge_one() {
    for bound in [0, u64::MAX] {
        let mut setup = setup();
        setup.options.large_commit_bytes = bound;
        setup.run(|log| async move {
            let sink = Sink::install(&log);
            for commit in 0..20 {
                log.write(10 * commit, 5, 1).await;
            }
            log.rt.sleep(Nanos::from_millis(50)).await;
            assert_eq!((log.flushed(), sink.taken.borrow().len()), (Lsn(20), 0));
        });
    }
}

#[test]
fn commits_that_home_does_not_take_go_to_the_log() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        sink.refuses.set(true);
        for commit in 0..20 {
            log.write(10 * commit, 5, 1).await;
        }
        log.rt.sleep(Nanos::from_millis(50)).await;
        assert_eq!((log.flushed(), log.stats().indirect_bytes), (Lsn(20), 0));
    });
    assert_eq!(logged(&setup).len(), 20);
}

#[test]
fn stream_of_large_commits_is_logged_in_between() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        let own = log.clone();
        let writer = log.rt.spawn(async move {
            for commit in 0..400 {
                own.write(10 * (commit % 50), 5, 1).await;
                own.rt.sleep(Nanos::from_micros(10)).await;
            }
        });
        log.rt.sleep(Nanos::from_millis(3)).await;
        let flushed = log.flushed();
        assert!(Lsn(0) < flushed && flushed < log.appended(), "{flushed}");
        writer.await;
        log.wait(log.appended()).await;
        let taken = sink.taken.borrow().len();
        assert!(taken > 1000, "{taken}");
    });
}

/// Small writes of adjacent blocks are one large write, also with a few others between them; those of other blocks are not.
#[test]
fn stream_of_small_commits_is_large() {
    for (step, expected) in [(1, true), (3, true), (9, false)] {
        let mut setup = setup();
        setup.options.commit_delay = Nanos::from_millis(1);
        setup.run(async move |log| {
            let sink = Sink::install(&log);
            for block in 0..40 {
                log.write(step * block, 1, 1).await;
            }
            log.rt.sleep(Nanos::from_millis(20)).await;
            assert_eq!(sink.taken.borrow().len(), if expected { 40 } else { 0 });
            log.wait(log.appended()).await;
        });
        let found = logged(&setup).into_iter().flat_map(|(_, blocks)| blocks);
        let expected = (0..40).map(|at| (step * at, expected.then_some(100 + at)));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

/// Each of several streams is large, and what is written beside them is not.
#[test]
fn streams_side_by_side_are_large() {
    let mut setup = setup();
    setup.options.commit_delay = Nanos::from_millis(1);
    setup.run(async move |log| {
        let sink = Sink::install(&log);
        for at in 0..40 {
            log.write(at, 1, 1).await;
            log.write(100 * at + 50, 1, 1).await;
            log.write(20_000 + at, 1, 1).await;
        }
        log.rt.sleep(Nanos::from_millis(20)).await;
        log.wait(log.appended()).await;
        assert_eq!(sink.taken.borrow().len(), 80);
    });
    for (lsn, blocks) in logged(&setup) {
        assert_eq!(blocks[0].1.is_some(), lsn % 3 != 2, "{lsn}");
    }
}

/// A stream becomes large when later commits have their places already. Its first commits are logged, in their order.
#[test]
fn stream_that_grows_beside_placed_commits_keeps_the_order() {
    let mut setup = setup();
    setup.options.commit_delay = Nanos::from_millis(1);
    setup.run(async move |log| {
        let sink = Sink::install(&log);
        log.write(20_000, 1, 1).await;
        for commit in 0..6 {
            log.write(100 * commit, 5, 1).await;
        }
        // The append of these is under way, then done.
        for (wait, first) in [(1_100, 20_001), (200, 20_009), (0, 20_017)] {
            log.rt.sleep(Nanos::from_micros(wait)).await;
            log.write(first, 4, 1).await;
            log.write(first + 4, 4, 1).await;
        }
        log.rt.sleep(Nanos::from_millis(20)).await;
        log.wait(log.appended()).await;
        assert!(sink.taken.borrow().len() >= 30);
    });
    let found = logged(&setup);
    assert_eq!(found.len(), 13);
    assert!(found.iter().map(|(lsn, _)| *lsn).eq(1..=13));
    assert_eq!(found[0].1, [(20_000, None)]);
}

/// What home has no space for is logged before home is asked again: by then it may have some.
#[test]
fn home_is_asked_again_after_the_refused_commits_are_logged() {
    let mut setup = setup();
    setup.options.commit_delay = Nanos::from_millis(1);
    setup.run(async move |log| {
        let sink = Sink::install(&log);
        for commit in 0..60 {
            log.write(10 * commit, 4, 1).await;
        }
        let flushed_at = |commits: u64| {
            let log = log.clone();
            async move {
                while log.flushed() < Lsn(commits) {
                    log.rt.sleep(Nanos::from_micros(10)).await;
                }
            }
        };
        sink.refuses.set(true);
        flushed_at(1).await;
        sink.refuses.set(false);
        flushed_at(60).await;
        assert_eq!(
            (log.flushed(), sink.taken.borrow().len()),
            (Lsn(60), 44 * 4)
        );
    });
    let places = logged(&setup).into_iter().map(|(_, blocks)| blocks[0].1);
    let refused = places.take_while(Option::is_none).count();
    assert_eq!(refused, 16);
}

/// The places may not be durable, so no record may name them.
#[test]
fn failed_flush_of_home_ends_the_log() {
    let mut setup = setup();
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        sink.fails.set(true);
        for commit in 0..20 {
            log.write(10 * commit, 5, 1).await;
        }
        log.rt.sleep(Nanos::from_millis(50)).await;
        let reason = TrailError::GivenUp("the drive is gone".to_string());
        assert_eq!(log.check(), Err(reason.clone()));
        assert_eq!(log.stats().writes, 0);
    });
    assert_eq!(logged(&setup).len(), 0);
}

/// Space that was promised for blocks is free again, for commits that wait for it.
#[test]
fn large_commits_free_log_space_before_they_are_written() {
    let mut setup = Setup::new(8, 16);
    setup.options.large_commit_bytes = 4 * BLOCK as u64;
    setup.run(|log| async move {
        let sink = Sink::install(&log);
        for commit in 0..100u64 {
            let lsn = log.write(10 * commit, 8, 1).await;
            log.hold(lsn);
        }
        assert!(!sink.taken.borrow().is_empty());
        assert!(log.appended() == Lsn(100), "the log has 128 sectors");
    });
}
