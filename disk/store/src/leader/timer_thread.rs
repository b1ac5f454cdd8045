//! The thread that runs the engine while no caller waits: for writes that are under way, write-back and timers.
//!
//! It never waits in the ring, so a caller that finds it leading waits for a short turn at most. While operations are
//! under way it looks every millisecond. After some looks that find no work it sleeps until the next timer, or until a
//! leader wakes it (`State::timer_woken`).

use super::engine::Platform;
use super::state::{NAP, Step, Thread};
use super::sync::{self, JoinHandle, locked};
use super::{Kind, Leader, StepOf, rest};
use std::io;
use std::sync::Arc;
use tonearm_base::Nanos;

/// Starts the timer thread of `leader`.
///
/// # Errors
/// When the system has no thread left.
pub(super) fn start<P: Platform>(leader: &Arc<Leader<P>>) -> io::Result<JoinHandle> {
    let leader = leader.clone();
    sync::spawn("tonearm-timer", move || match &leader.kind {
        Kind::Shared(platform) => leader.run_timer_thread(platform),
        Kind::OfOneThread(_) => {}
    })
}

impl<P: Platform> Leader<P> {
    fn run_timer_thread(&self, platform: &P) {
        let thread = Thread::Timer;
        let mut step = self.apply(|state| state.next(thread));
        loop {
            step = match step {
                Step::Lead => self.lead(thread),
                Step::Call(call) => {
                    let made = platform.make(call);
                    self.apply(|state| state.called(thread, made))
                }
                Step::TimerWait => self.timer_wait(platform),
                Step::Park { until, .. } => self.sleep(platform, until),
                Step::Done => return,
                Step::Watch(_) | Step::Terminal(_) => unreachable!("these are steps of waiters"),
            }
        }
    }

    fn timer_wait(&self, platform: &P) -> StepOf<P> {
        let mut shared = locked(&self.shared);
        if !shared.state.is_gone() {
            shared = rest(&self.shared, &self.timer, shared, Some(NAP));
        }
        let step = shared.state.timer_woken(platform.now());
        self.unlock(shared, step)
    }

    fn sleep(&self, platform: &P, until: Option<Nanos>) -> StepOf<P> {
        let mut shared = locked(&self.shared);
        while !shared.state.is_timer_woken() {
            let left = until.map(|until| until.since(platform.now()));
            shared = match left {
                Some(Nanos(0)) => break,
                left => rest(&self.shared, &self.timer, shared, left),
            };
        }
        let step = shared.state.timer_woken(platform.now());
        self.unlock(shared, step)
    }
}
