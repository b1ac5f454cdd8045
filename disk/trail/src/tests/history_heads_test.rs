//! The history of a log whose drives' heads are followed.

use super::fixture::Log;
use super::heads_test::{Shared, geometry, heads, map, setup, write};
use crate::{History, TrailStats};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_head::Access;
use tonearm_rt::{IoError, Op};

const TRACKS: u64 = 64;

/// Reads what is durable, in steps of a few commits. The blocks of commits follow each other from 1 on.
async fn read_all(log: &Log, history: &mut History) {
    loop {
        let commits = history.read(10_000).await.unwrap();
        if commits.is_empty() {
            assert_eq!(history.next(), log.durable() + 1);
            return;
        }
        for commit in commits {
            assert!(commit.lsn <= log.durable(), "a commit that is not durable");
            let change = &commit.changes[0];
            assert_eq!(change.block, commit.lsn.0);
            let data = change.data.as_ref().expect("content");
            assert!(data.iter().all(|byte| *byte == change.block as u8));
        }
    }
}

/// Writes 120 commits, round the log. A reader begins before commit `from`, and reads after each `every` commits.
fn read_beside_writes(drives: usize, from: u64, every: u64) -> (TrailStats, Vec<Shared>) {
    let (heads, seen) = heads(drives, false, true);
    let mut setup = setup(geometry(drives, TRACKS), heads);
    let stats = setup.run(move |log| async move {
        let mut history = None;
        for block in 1..=120 {
            if block == from {
                history = Some(History::open(&log, Lsn(1)).await.unwrap());
            }
            // The reader also reads while commits are on their way.
            let (own, writer) = (log.clone(), log.clone());
            let write = log.rt.spawn(async move { write(&writer, block).await });
            if let Some(history) = history.as_mut().filter(|_| block.is_multiple_of(every)) {
                let commits = history.read(1).await.unwrap();
                assert!(commits.len() <= 1 || commits[0].lsn <= own.durable());
                assert!(
                    commits
                        .iter()
                        .all(|commit| commit.changes[0].block == commit.lsn.0)
                );
            }
            let lsn = write.await;
            log.release(lsn);
            log.advance();
            if let Some(history) = history.as_mut().filter(|_| block.is_multiple_of(every)) {
                read_all(&log, history).await;
            }
            log.rt.sleep(Nanos::from_millis(5)).await;
        }
        log.stats()
    });
    (stats, seen)
}

#[test]
fn reader_that_keeps_up_reads_no_track() {
    for drives in [1, 2] {
        let (stats, seen) = read_beside_writes(drives, 1, 1);
        assert_eq!(stats.tracks_read, 0);
        let reads: usize = seen.iter().map(|seen| seen.borrow().reads.len()).sum();
        assert_eq!(reads as u64, stats.repositions + stats.refreshes);
    }
}

#[test]
fn reads_of_tracks_take_turns_with_writes() {
    for drives in [1, 2] {
        let (stats, seen) = read_beside_writes(drives, 40, 1);
        assert!(stats.tracks_read >= 20, "{stats:?}");
        let mut tracks = 0;
        for seen in seen {
            let seen = seen.borrow();
            let mut all: Vec<Access> = seen.writes.iter().chain(&seen.reads).copied().collect();
            all.sort_by_key(|access| access.sent);
            for pair in all.windows(2) {
                assert!(pair[0].done <= pair[1].sent, "{pair:?} at the same time");
            }
            tracks += seen.reads.iter().filter(|read| read.sectors >= 40).count();
        }
        assert_eq!(tracks as u64, stats.tracks_read, "the head knows of each");
    }
}

/// The file system has no space for the second record. What the drive has of the track lacks it until the record is repeated.
#[test]
fn reader_that_begins_beside_a_refused_record_gets_it() {
    let (heads, _) = heads(1, false, false);
    let mut setup = setup(geometry(1, TRACKS), heads);
    let world = setup.world.clone();
    setup.run(|log| async move {
        write(&log, 1).await;
        let full = Rc::new(Cell::new(true));
        let is_full = full.clone();
        world.set_fault(move |request| {
            let is_write = matches!(request.op, Op::Write | Op::WriteDurable);
            (is_full.get() && is_write).then_some(IoError::ENOSPC)
        });
        let (wanted, writer, opener) = (log.space_below_wanted(), log.clone(), log.clone());
        let writing = log.rt.spawn(async move { write(&writer, 2).await });
        wanted.await;
        let opening = log
            .rt
            .spawn(async move { History::open(&opener, Lsn(1)).await });
        log.rt.sleep(Nanos::from_secs(2)).await;
        full.set(false);
        writing.await;
        let mut history = opening.await.unwrap();
        read_all(&log, &mut history).await;
        assert_eq!(history.next(), Lsn(3));
    });
}

#[test]
fn track_that_was_open_when_a_reader_began_is_read_once() {
    let (heads, _) = heads(1, false, false);
    setup(geometry(1, TRACKS), heads).run(|log| async move {
        write(&log, 1).await;
        let mut history = History::open(&log, Lsn(1)).await.unwrap();
        write(&log, 2).await;
        assert_eq!(
            map(TRACKS).track(0).sectors,
            60,
            "both are on the first track"
        );
        read_all(&log, &mut history).await;
        assert_eq!(history.next(), Lsn(3));
        assert_eq!(log.stats().tracks_read, 1);
        // A second reader begins, the first one ends, and the track is kept.
        for block in 3..=8 {
            write(&log, block).await;
        }
        let before = log.stats().tracks_read;
        let mut second = History::open(&log, Lsn(8)).await.unwrap();
        drop(history);
        read_all(&log, &mut second).await;
        assert_eq!((second.next(), log.stats().tracks_read), (Lsn(9), before));
    });
}
