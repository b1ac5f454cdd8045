//! Which device writes count as durable, which flush makes them so, and which commits the log keeps.

use crate::log::state::{Durability, PinnedCommits, Point};
use tonearm_base::{Lsn, RecordSeq};

/// The end of the `n`-th device write, which holds commit `n` in record `n`.
fn end(n: u64) -> Point {
    Point {
        lsn: Lsn(n),
        seq: RecordSeq(n),
        ..Point::default()
    }
}

/// A log with `commits` commits queued, on a drive that keeps order or not.
fn log(commits: u64, ordered: bool) -> Durability {
    let mut log = Durability::new(Point::default(), ordered);
    (1..=commits).for_each(|lsn| log.append(Lsn(lsn)));
    log
}

fn positions(log: &Durability) -> (u64, u64) {
    (log.flushed().lsn.0, log.durable().lsn.0)
}

#[test]
fn fua_write_after_cached_writes_needs_a_flush() {
    let mut log = log(3, false);
    let plain = log.start_write(end(1));
    let fua = log.start_write(end(2));
    assert!(!log.finish_write(plain, false));
    assert!(!log.finish_write(fua, true));
    assert_eq!(positions(&log), (2, 0));
    log.finish_flush(log.flushed());
    assert_eq!(positions(&log), (2, 2));
    // Nothing is in the cache any more.
    let fua = log.start_write(end(3));
    assert!(log.finish_write(fua, true));
    assert_eq!(positions(&log), (3, 3));
}

#[test]
fn a_write_counts_once_all_earlier_writes_are_done() {
    let mut log = log(3, false);
    let writes: Vec<u64> = (1..=3).map(|n| log.start_write(end(n))).collect();
    assert!(!log.finish_write(writes[2], true));
    assert_eq!(positions(&log), (0, 0));
    assert!(log.finish_write(writes[0], true));
    assert_eq!(positions(&log), (1, 1));
    assert!(log.finish_write(writes[1], true));
    assert_eq!((positions(&log), log.writes_in_flight()), ((3, 3), 0));
}

#[test]
fn a_flush_covers_what_was_done_when_it_was_issued() {
    let mut log = log(2, false);
    let writes: Vec<u64> = (1..=2).map(|n| log.start_write(end(n))).collect();
    log.finish_write(writes[0], false);
    let covered = log.flushed();
    log.finish_write(writes[1], false);
    log.finish_flush(covered);
    assert_eq!(positions(&log), (2, 1));
    // A flush that was sent earlier and ends later changes nothing.
    log.finish_flush(log.flushed());
    log.finish_flush(covered);
    assert_eq!(positions(&log), (2, 2));
}

#[test]
fn with_an_ordered_cache_a_completed_write_is_durable() {
    let mut log = log(2, true);
    let writes: Vec<u64> = (1..=2).map(|n| log.start_write(end(n))).collect();
    assert!(!log.finish_write(writes[1], false));
    assert!(log.finish_write(writes[0], false));
    assert_eq!(positions(&log), (2, 2));
}

#[test]
fn a_commit_stays_until_it_is_durable_and_has_no_hold() {
    let mut retained = PinnedCommits::new(Lsn(1));
    (1..=3).for_each(|lsn| retained.add_commit(Lsn(lsn)));
    retained.hold(Lsn(2));
    // The first commit has no hold, but it is not durable.
    assert_eq!(retained.advance(Lsn(0)), Lsn(1));
    assert_eq!(retained.advance(Lsn(3)), Lsn(2));
    retained.release(Lsn(2));
    assert_eq!(retained.advance(Lsn(2)), Lsn(3));
    assert_eq!((retained.advance(Lsn(3)), retained.len()), (Lsn(4), 0));
}
