//! When rounds start, and with which blocks.

use crate::access::{Access, Busy};
use crate::pinned::{LogRetention, Order, Pinned};
use crate::round::Done;
use crate::write_back::{Reason, Schedule};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_layout::{HomeShape, RoundOrder};
use tonearm_rt::{IdleDriver, Rt};

struct NoAccount;

impl LogRetention for NoAccount {
    fn hold(&self, _: Lsn) {}
    fn release(&self, _: Lsn) {}
}

const SHAPE: HomeShape = HomeShape {
    block_size: 4096,
    size_blocks: 1000,
    group_blocks: 100,
    order: RoundOrder::OldestFirst,
};

/// Blocks, each written by the commit of its place in the list.
fn pinned(blocks: &[u64]) -> Pinned {
    let mut pinned = Pinned::default();
    for (lsn, block) in (1..).zip(blocks) {
        let data = BufPool::new(0).copy_of(&[1; 16]).share();
        pinned
            .slot(*block)
            .put(Lsn(lsn), Lsn(lsn), data, None, &NoAccount);
    }
    pinned
}

fn idle() -> Busy {
    Access::new(&Rt::new(Box::new(IdleDriver::default()))).busy()
}

fn next(
    schedule: &mut Schedule,
    pinned: &Pinned,
    durable: u64,
    most: usize,
    busy: &Busy,
) -> Vec<u64> {
    let mut oldest = Vec::new();
    match schedule.order(&SHAPE, pinned, Lsn(durable), most, busy, &mut oldest) {
        Order::Explicit(blocks) => blocks.to_vec(),
        Order::Sweep(_) => panic!("oldest first"),
    }
}

#[test]
fn round_starts_by_pressure_or_age_for_pinned_blocks() {
    let schedule = Schedule::default();
    let (none, some) = (Pinned::default(), pinned(&[1]));
    assert_eq!(schedule.reason(&none, true, true), None);
    assert_eq!(schedule.reason(&some, false, false), None);
    assert_eq!(schedule.reason(&some, false, true), Some(Reason::Age));
    assert_eq!(schedule.reason(&some, true, true), Some(Reason::Pressure));
}

#[test]
fn round_by_age_is_smaller_than_by_pressure() {
    assert_eq!(Schedule::blocks_max(16 << 20, 4096, Reason::Pressure), 4096);
    assert_eq!(Schedule::blocks_max(16 << 20, 4096, Reason::Age), 1024);
    assert_eq!(Schedule::blocks_max(8192, 4096, Reason::Age), 2);
}

#[test]
fn oldest_first_keeps_the_turn_of_busy_blocks() {
    let (mut schedule, pinned) = (Schedule::default(), pinned(&[50, 10, 40, 20, 30]));
    assert_eq!(next(&mut schedule, &pinned, 5, 2, &idle()), [10, 50]);
    // Block 40 is being read: it is passed over, and comes first once the read has ended.
    let access = Rc::new(Access::new(&Rt::new(Box::new(IdleDriver::default()))));
    let read = access.read(40, 1);
    assert_eq!(next(&mut schedule, &pinned, 5, 1, &access.busy()), [20]);
    drop(read);
    assert_eq!(next(&mut schedule, &pinned, 5, 1, &idle()), [40]);
}

#[test]
fn a_block_whose_commit_is_not_durable_is_not_chosen() {
    let (mut schedule, pinned) = (Schedule::default(), pinned(&[50, 10, 40]));
    assert_eq!(next(&mut schedule, &pinned, 0, 9, &idle()), [0; 0]);
    assert_eq!(next(&mut schedule, &pinned, 2, 9, &idle()), [10, 50]);
}

#[test]
fn age_restarts_when_the_sweep_wraps_around() {
    let (mut schedule, pinned) = (Schedule::default(), pinned(&[1]));
    schedule.committed(Nanos(5), Lsn(1), false);
    let mut round = |now, next| {
        let done = Done {
            blocks: 1,
            superseded: 0,
            next: Some(next),
        };
        let order = RoundOrder::Sweep;
        schedule.finished(Nanos(now), order, Reason::Age, false, &done, &pinned);
        schedule.lag(Nanos(100)).0
    };
    assert_eq!(round(10, 7), 95, "the sweep goes on");
    assert_eq!(round(20, 9), 95);
    assert_eq!(round(30, 4), 70, "it has come round");
}

#[test]
fn age_continues_after_a_round_chosen_by_the_layout() {
    let (mut schedule, pinned) = (Schedule::default(), pinned(&[1]));
    schedule.committed(Nanos(5), Lsn(1), false);
    for (is_sample, lag) in [(true, 95), (false, 90)] {
        let order = RoundOrder::OldestFirst;
        let done = Done {
            blocks: 1,
            superseded: 0,
            next: None,
        };
        schedule.finished(Nanos(10), order, Reason::Age, is_sample, &done, &pinned);
        assert_eq!(schedule.lag(Nanos(100)).0, lag);
    }
}

#[test]
fn round_size_halves_without_space_and_doubles_after() {
    let mut schedule = Schedule::default();
    let refuse = |schedule: &mut Schedule| {
        let waits = schedule.refused(RoundOrder::Sweep, 8);
        (schedule.limit, waits)
    };
    assert_eq!(refuse(&mut schedule), (Some(4), false));
    assert_eq!(refuse(&mut schedule), (Some(2), false));
    assert_eq!(refuse(&mut schedule), (Some(1), false));
    assert_eq!(refuse(&mut schedule), (Some(1), true));
    schedule.had_space(1, 8, false);
    assert_eq!(schedule.limit, Some(2));
    schedule.had_space(0, 8, false);
    assert_eq!(schedule.limit, Some(2), "nothing has tried the space below");
    schedule.had_space(2, 8, false);
    schedule.had_space(4, 8, false);
    assert_eq!(schedule.limit, Some(8));
    schedule.had_space(8, 8, false);
    assert_eq!(schedule.limit, None);
    // All that was ready went home.
    schedule.refused(RoundOrder::Sweep, 8);
    schedule.had_space(3, 8, false);
    assert_eq!(schedule.limit, None);
    schedule.refused(RoundOrder::Sweep, 8);
    schedule.had_space(0, 8, true);
    assert_eq!(schedule.limit, None);
    schedule.refused(RoundOrder::Sweep, 8);
    schedule.had_space(4, 8, true);
    assert_eq!(schedule.limit, None, "nothing is left");
}

#[test]
fn log_structured_layout_keeps_its_round_size() {
    let mut schedule = Schedule::default();
    assert!(schedule.refused(RoundOrder::OldestFirst, 8));
    assert_eq!(schedule.limit, Some(8));
}

#[test]
fn zeroes_that_are_not_durable_may_still_make_space() {
    let mut schedule = Schedule::default();
    assert!(!schedule.awaits_zeroes(Lsn(0)));
    schedule.committed(Nanos(1), Lsn(3), true);
    schedule.committed(Nanos(1), Lsn(4), false);
    assert!(schedule.awaits_zeroes(Lsn(2)) && !schedule.awaits_zeroes(Lsn(3)));
}
