//! Chooses the next of the waiting requests.

use crate::mechanism::{Arm, Mechanism};
use std::collections::VecDeque;
use tonearm_base::Nanos;
use tonearm_drive_file::Scheduler;
use tonearm_world::{DriveRequest, Kind};

/// A waiting request, with the data that schedulers use.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The request.
    pub request: DriveRequest,
    cylinder: u32,
    head: u32,
    angle: u64,
}

/// When the arm could move.
#[derive(Clone, Copy, Debug)]
pub struct Starts {
    /// For a read.
    pub read: Nanos,
    /// For a write.
    pub write: Nanos,
}

/// Requests in order of arrival. A flush is a barrier: no request passes it.
pub struct Queue {
    scheduler: Scheduler,
    /// Requests among which it chooses.
    depth: usize,
    waiting: VecDeque<Waiting>,
    flushes: usize,
    /// The arm sweeps towards higher cylinders.
    upwards: bool,
}

impl Queue {
    /// An empty queue. The scheduler chooses among the `depth` oldest requests; 0 for all.
    pub fn new(scheduler: Scheduler, depth: u32) -> Self {
        Self {
            scheduler,
            depth: match depth {
                0 => usize::MAX,
                depth => depth as usize,
            },
            waiting: VecDeque::new(),
            flushes: 0,
            upwards: true,
        }
    }

    /// Adds a request.
    #[inline]
    pub fn push(&mut self, request: DriveRequest, mechanism: &Mechanism) {
        let mut waiting = Waiting {
            request,
            cylinder: 0,
            head: 0,
            angle: 0,
        };
        if request.kind == Kind::Flush {
            self.flushes += 1;
        } else if self.scheduler != Scheduler::Fcfs {
            let extent = mechanism.geometry.extent(request.lba);
            (waiting.cylinder, waiting.head) = (extent.cylinder, extent.head);
            waiting.angle = extent.angle;
        }
        self.waiting.push_back(waiting);
    }

    /// True when nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the next request, for an arm at `arm` that can move at `starts`.
    #[inline]
    pub fn pop(&mut self, starts: Starts, arm: Arm, mechanism: &mut Mechanism) -> Option<Waiting> {
        if self.scheduler == Scheduler::Fcfs {
            return self.take(0);
        }
        let eligible = if self.flushes == 0 {
            self.waiting.len()
        } else {
            let barrier = |waiting: &Waiting| waiting.request.kind == Kind::Flush;
            self.waiting
                .iter()
                .position(barrier)
                .unwrap_or(self.waiting.len())
        };
        let eligible = eligible.min(self.depth);
        if eligible == 0 || (eligible == 1 && !self.sweeps()) {
            return self.take(0);
        }
        let index = match self.scheduler {
            Scheduler::Fcfs => 0,
            Scheduler::Sstf => self.least(eligible, |waiting| {
                u64::from(waiting.cylinder.abs_diff(arm.cylinder))
            }),
            Scheduler::Scan => self.sweep(eligible, arm, mechanism.geometry.cylinders()),
            Scheduler::VR(share) => {
                let turn = (f64::from(mechanism.geometry.cylinders()) * share) as u32;
                self.sweep(eligible, arm, turn)
            }
            Scheduler::CLook => self.least(eligible, |waiting| {
                let is_below = waiting.cylinder < arm.cylinder;
                (u64::from(is_below) << 32) + u64::from(waiting.cylinder)
            }),
            Scheduler::Sptf => {
                let now = starts.read.min(starts.write);
                let waits = [starts.read.0 - now.0, starts.write.0 - now.0];
                let under = mechanism.rotation.angle(now);
                let speed = mechanism.rotation.speed();
                let seek = &mechanism.seek;
                self.least(eligible, |waiting| {
                    let distance = waiting.cylinder.abs_diff(arm.cylinder);
                    let write = waiting.request.kind == Kind::Write;
                    let moved = seek.time(distance, waiting.head != arm.head, write).0;
                    let moved = waits[usize::from(write)] + moved;
                    let then = under.wrapping_add(moved.wrapping_mul(speed));
                    // In units of 2^-32 revolutions. Whole turns during the seek count too.
                    let turns = ((u128::from(moved) * u128::from(speed)) >> 32) as u64;
                    turns + (waiting.angle.wrapping_sub(then) >> 32)
                })
            }
        };
        self.take(index)
    }

    /// True if the direction of the arm affects later choices, even when there is one request.
    fn sweeps(&self) -> bool {
        matches!(self.scheduler, Scheduler::Scan | Scheduler::VR(_))
    }

    fn take(&mut self, index: usize) -> Option<Waiting> {
        let taken = match index {
            0 => self.waiting.pop_front(),
            _ => self.waiting.remove(index),
        }?;
        if taken.request.kind == Kind::Flush {
            self.flushes -= 1;
        }
        Some(taken)
    }

    /// The oldest of the first `eligible` requests with the least `cost`.
    #[inline]
    fn least(&self, eligible: usize, cost: impl Fn(&Waiting) -> u64) -> usize {
        let (mut best, mut least) = (0, u64::MAX);
        for (index, waiting) in self.waiting.iter().take(eligible).enumerate() {
            let cost = cost(waiting);
            if cost < least {
                (best, least) = (index, cost);
            }
        }
        best
    }

    /// The nearest request, where those against the sweep count as `turn` cylinders farther.
    fn sweep(&mut self, eligible: usize, arm: Arm, turn: u32) -> usize {
        let upwards = self.upwards;
        let best = self.least(eligible, |waiting| {
            let distance = u64::from(waiting.cylinder.abs_diff(arm.cylinder));
            let against = match waiting.cylinder.cmp(&arm.cylinder) {
                std::cmp::Ordering::Equal => false,
                std::cmp::Ordering::Greater => !upwards,
                std::cmp::Ordering::Less => upwards,
            };
            distance + if against { u64::from(turn) } else { 0 }
        });
        let cylinder = self.waiting[best].cylinder;
        if cylinder != arm.cylinder {
            self.upwards = cylinder > arm.cylinder;
        }
        best
    }
}

#[cfg(test)]
#[path = "queue_test.rs"]
mod queue_test;
