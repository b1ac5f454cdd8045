//! The writer's plan for states of the log, without devices and tasks.

use super::fixture::write;
use crate::log::state::{Live, State};
use crate::log::writer::{Step, Target, Waiters, WriteStep, plan};
use crate::pack::RecordPlace;
use crate::{LogGeometry, TrailOptions, TrailStart, WriteCache};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos, RecordSeq};
use tonearm_rt::{IdleDriver, Rt};

const NOW: Nanos = Nanos(1_000_000);

/// A log of 8 tracks of 16 sectors, whose current track is empty.
fn state(options: &TrailOptions) -> State {
    let geometry = Rc::new(LogGeometry::even([5; 16], 1 << 20, 8, 16, 4096));
    let mut state = State::new(
        &Rt::new(Box::new(IdleDriver::default())),
        geometry,
        TrailStart::default(),
        options,
    );
    state.ring.open(16);
    state
}

/// Queues `commits` commits of one block each.
fn queue(state: &mut State, commits: u64) {
    let pool = BufPool::new(0);
    for _ in 0..commits {
        let lsn = state.durability.appended() + 1;
        state.durability.append(lsn);
        state.retained.add_commit(lsn);
        let changes = vec![write(&pool, lsn.0, 1, 1)];
        let geometry = state.geometry.clone();
        state.queue.push(&geometry, lsn, 2, changes, u64::MAX);
    }
}

/// Notes a device write of `sectors` sectors with the queued commits up to `lsn`; gives its identity.
fn start_write(state: &mut State, lsn: u64, sectors: u64) -> u64 {
    let range = state.ring.first_fit(sectors, true).unwrap();
    state.ring.take(range.start..range.start + sectors);
    let seq = state.next_seq;
    state.next_seq += 1;
    state.live.push_back(Live {
        place: RecordPlace {
            seq,
            sector: 0,
            first_lsn: Lsn(lsn),
            last_lsn: Lsn(lsn),
        },
        track: state.ring.current(),
    });
    let end = crate::log::state::Point {
        lsn: Lsn(lsn),
        seq,
        sector: 0,
        track: state.ring.current(),
        log_start_track: state.log_start_track(),
        log_start_lsn: Lsn(1),
    };
    state.durability.start_write(end)
}

fn next(state: &State, options: &TrailOptions, waiters: Waiters) -> Step {
    plan(state, options, waiters, NOW).0
}

fn waiting_for(lsn: u64) -> Waiters {
    Waiters {
        count: 1,
        first: Some(Lsn(lsn)),
        ..Waiters::default()
    }
}

fn written(step: Step) -> WriteStep {
    match step {
        Step::Write(write) => write,
        other => panic!("{other:?} in place of a write"),
    }
}

#[test]
fn with_an_empty_queue_only_heads_move_until_the_log_ends() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    assert_eq!(next(&state, &options, Waiters::default()), Step::Reposition);
    state.ending = true;
    assert_eq!(next(&state, &options, Waiters::default()), Step::Wait(None));
}

#[test]
fn queued_commits_fill_the_current_track_then_the_next() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 1);
    let write = written(next(&state, &options, Waiters::default()));
    assert_eq!((write.min, write.wanted, write.marker), (2, 2, false));
    assert_eq!(write.target, Target::Current);
    state.ring.take(0..14);
    let write = written(next(&state, &options, Waiters::default()));
    assert_eq!(write.target, Target::Next, "the last sector is a marker's");
}

#[test]
fn write_uses_fua_when_a_wait_is_likely_and_cache_empty() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 2);
    for _ in 0..100 {
        state.waits.waited();
        state.waits.committed(true);
    }
    let fua = |state: &State| written(next(state, &options, Waiters::default())).fua_from;
    assert_eq!(fua(&state), Some(Lsn(0)));
    let id = start_write(&mut state, 1, 2);
    state.durability.finish_write(id, false);
    assert_eq!(
        fua(&state),
        None,
        "the first commit is in the drive's cache"
    );
    state.durability.finish_flush(state.durability.flushed());
    state.waits.committed(true);
    assert_eq!(fua(&state), None, "nobody waited for the last commit");
}

#[test]
fn write_completing_a_waited_commit_uses_fua() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 2);
    let fua = |state: &State, options, waiters| written(next(state, options, waiters)).fua_from;
    assert_eq!(fua(&state, &options, Waiters::default()), None);
    assert_eq!(fua(&state, &options, waiting_for(2)), Some(Lsn(2)));
    let ordered = TrailOptions {
        write_cache: WriteCache::Ordered,
        ..options
    };
    assert_eq!(fua(&state, &ordered, waiting_for(2)), None);
    // A completed write without FUA is in the drive's cache.
    let id = start_write(&mut state, 1, 2);
    state.durability.finish_write(id, false);
    assert_eq!(fua(&state, &options, waiting_for(2)), None);
    state.durability.finish_flush(state.durability.flushed());
    assert_eq!(fua(&state, &options, waiting_for(2)), Some(Lsn(2)));
}

#[test]
fn one_write_is_under_way_until_much_is_queued() {
    let options = TrailOptions {
        pipeline_bytes: 8192,
        writes_in_flight_max: 2,
        ..TrailOptions::default()
    };
    let mut state = state(&options);
    queue(&mut state, 2);
    start_write(&mut state, 1, 2);
    written(next(&state, &options, waiting_for(2)));
    start_write(&mut state, 1, 2);
    let step = next(&state, &options, waiting_for(2));
    assert_eq!(step, Step::Wait(None), "two are the most");
    let more = TrailOptions {
        pipeline_bytes: 8193,
        writes_in_flight_max: 3,
        ..options
    };
    assert_eq!(next(&state, &more, waiting_for(2)), Step::Wait(None));
}

#[test]
fn unwaited_commits_are_delayed_for_a_limited_time() {
    let options = TrailOptions {
        commit_delay: Nanos(500),
        ..TrailOptions::default()
    };
    let mut state = state(&options);
    queue(&mut state, 1);
    let (step, delay) = plan(&state, &options, Waiters::default(), NOW);
    assert_eq!(step, Step::Wait(Some(NOW + 500)));
    state.delay = delay;
    let later = plan(&state, &options, Waiters::default(), NOW + 499).0;
    assert_eq!(later, Step::Wait(Some(NOW + 500)), "the end stays");
    written(plan(&state, &options, Waiters::default(), NOW + 500).0);
    written(plan(&state, &options, waiting_for(1), NOW).0);
    state.space_queue.push_back(0);
    written(plan(&state, &options, Waiters::default(), NOW).0);
}

#[test]
fn first_of_a_group_waits_for_the_others_when_idle() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 2);
    state.delay.group.sent = NOW;
    state.delay.group.released(NOW + 100, 2, 0);
    let at = |waiters, time| plan(&state, &options, waiters, time).0;
    let both = Waiters {
        count: 2,
        ..waiting_for(1)
    };
    assert_eq!(at(waiting_for(1), NOW + 150), Step::Wait(Some(NOW + 200)));
    written(at(both, NOW + 150));
    written(at(waiting_for(1), NOW + 200));
    written(at(Waiters::default(), NOW + 150));
}

#[test]
fn tail_at_the_recovery_limit_is_flushed_first() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 9);
    for lsn in 1..=3 {
        let id = start_write(&mut state, lsn, 15);
        state.durability.finish_write(id, false);
        if lsn < 3 {
            state.ring.open(16);
        }
    }
    // A quarter of 8 tracks is after the last durable record.
    assert_eq!(next(&state, &options, Waiters::default()), Step::Flush);
    state.durability.finish_flush(state.durability.flushed());
    written(next(&state, &options, Waiters::default()));
}

/// Fills the log with one commit for each track, all durable.
fn full(options: &TrailOptions) -> State {
    let mut state = state(options);
    queue(&mut state, 7);
    for lsn in 1..=6 {
        let id = start_write(&mut state, lsn, 15);
        state.durability.finish_write(id, true);
        if state.ring.is_next_free(false) {
            state.ring.open(16);
        }
    }
    for lsn in 1..=7 {
        state.retained.hold(Lsn(lsn));
    }
    state
}

#[test]
fn a_full_log_waits_until_a_marker_can_name_a_new_log_start() {
    let options = TrailOptions::default();
    let mut state = full(&options);
    let waiting = Waiters::default();
    assert!(!state.ring.is_next_free(false));
    assert_eq!(next(&state, &options, waiting), Step::Wait(None));
    state.retained.release(Lsn(1));
    state.advance_log_start();
    let marker = written(next(&state, &options, waiting));
    assert!(marker.marker && marker.target == Target::Current);
    // Once a written record names the new log start, it is enough to make that record durable.
    let id = start_write(&mut state, 6, 1);
    assert_eq!(next(&state, &options, waiting), Step::Wait(None));
    state.durability.finish_write(id, false);
    assert_eq!(next(&state, &options, waiting), Step::Flush);
}

#[test]
fn a_failed_log_writes_nothing() {
    let options = TrailOptions::default();
    let mut state = state(&options);
    queue(&mut state, 1);
    state.failed = Some(crate::TrailError::GivenUp(String::new()));
    assert_eq!(next(&state, &options, waiting_for(1)), Step::Wait(None));
    assert_eq!(state.next_seq, RecordSeq(1));
}
