//! Interleavings of threads that use a leader. `shuttle` runs the code of `leader.rs` itself, over a ring and a clock
//! of the test. It reports threads that wait for ever, and each run checks the results of the jobs.
//!
//! `state_test.rs` visits every interleaving of the state's events. This file tests what lies around them: locks,
//! condition variables, the watch of the ring, and which thread uses the engine when.

use super::engine::{Engine, Platform};
use super::sync::{Condvar, Mutex, locked, mark, wait, wait_for};
use super::{Kind, Leader};
use crate::error::StoreError;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner, thread};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tonearm_base::Nanos;
use tonearm_rt::{Completion, Data, DeviceId, Driver, Notify, Op, Request, Rt};

/// The world of a run.
struct World {
    /// In nanoseconds; every look advances it.
    clock: AtomicU64,
    ring: Mutex<Ring>,
    changed: Condvar,
    /// A thread is in the engine.
    in_engine: AtomicBool,
    /// Engines that have been dropped.
    dropped: AtomicUsize,
}

#[derive(Default)]
struct Ring {
    submitted: VecDeque<u64>,
    completed: VecDeque<u64>,
    interrupted: bool,
    stopped: bool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: AtomicU64::new(0),
            ring: Mutex::new(Ring::default()),
            changed: Condvar::new(),
            in_engine: AtomicBool::new(false),
            dropped: AtomicUsize::new(0),
        })
    }

    fn now(&self) -> Nanos {
        Nanos(self.clock.fetch_add(100_000, SeqCst))
    }

    /// Completes what is submitted, as the kernel does.
    fn run_kernel(&self) {
        let mut ring = locked(&self.ring);
        loop {
            if let Some(token) = ring.submitted.pop_front() {
                ring.completed.push_back(token);
                self.changed.notify_all();
                // Other threads may run first.
                drop(ring);
                ring = locked(&self.ring);
            } else if ring.stopped {
                return;
            } else {
                ring = wait(&self.changed, ring);
            }
        }
    }
}

/// A driver's calls.
#[derive(Clone, Default)]
struct Calls(Rc<RefCell<CallsOfDriver>>);

#[derive(Default)]
struct CallsOfDriver {
    waiting: VecDeque<u64>,
    made: Vec<u64>,
    under_way: usize,
}

struct ModelDriver {
    world: Arc<World>,
    calls: Calls,
}

impl ModelDriver {
    /// Another thread may run here; it must not enter the engine.
    fn enter(&self) {
        assert!(
            !self.world.in_engine.swap(true, SeqCst),
            "two threads are in the engine"
        );
        thread::yield_now();
        self.world.in_engine.store(false, SeqCst);
    }
}

impl Driver for ModelDriver {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn submit(&mut self, token: u64, request: Request) {
        self.enter();
        if request.op == Op::WriteDurable {
            let mut calls = self.calls.0.borrow_mut();
            calls.waiting.push_back(token);
            calls.under_way += 1;
            return;
        }
        locked(&self.world.ring).submitted.push_back(token);
        self.world.changed.notify_all();
    }

    fn wait(&mut self, _: Option<Nanos>, completions: &mut Vec<Completion>) {
        self.enter();
        let mut calls = self.calls.0.borrow_mut();
        let made = std::mem::take(&mut calls.made);
        calls.under_way -= made.len();
        let completed = std::mem::take(&mut locked(&self.world.ring).completed);
        completions.extend(made.into_iter().chain(completed).map(|token| Completion {
            token,
            result: Ok(0),
            data: Data::None,
        }));
    }
}

impl Drop for ModelDriver {
    fn drop(&mut self) {
        self.enter();
        self.world.dropped.fetch_add(1, SeqCst);
    }
}

/// What jobs get.
#[derive(Clone)]
struct Context {
    rt: Rt,
    /// Jobs that wait for the commits of others.
    committed: Notify,
    commits: Rc<Cell<usize>>,
}

impl Context {
    async fn io(&self, op: Op) {
        let request = Request {
            device: DeviceId(0),
            op,
            offset: 0,
            len: 0,
            data: Data::None,
        };
        let (result, _) = self.rt.io(request).await;
        result.unwrap();
    }
}

struct Model(Arc<World>);

impl Platform for Model {
    type Context = Context;
    type Calls = Calls;
    type Call = u64;
    type CallResult = u64;

    fn rt(context: &Context) -> &Rt {
        &context.rt
    }

    fn take_call(calls: &Calls) -> Option<u64> {
        calls.0.borrow_mut().waiting.pop_front()
    }

    fn end_call(calls: &Calls, made: u64) {
        calls.0.borrow_mut().made.push(made);
    }

    fn calls_under_way(calls: &Calls) -> usize {
        calls.0.borrow().under_way
    }

    fn make(&self, call: u64) -> u64 {
        thread::yield_now();
        assert_eq!(
            self.0.dropped.load(SeqCst),
            0,
            "the memory of a call is gone"
        );
        call
    }

    fn watch(&self, until: Option<Nanos>) {
        let mut ring = locked(&self.0.ring);
        while ring.completed.is_empty() && !ring.interrupted {
            ring = match until {
                None => wait(&self.0.changed, ring),
                Some(until) if self.0.now() < until => {
                    wait_for(&self.0.ring, &self.0.changed, ring, Duration::ZERO)
                }
                Some(_) => break,
            };
        }
        ring.interrupted = false;
    }

    fn interrupt_watch(&self) {
        locked(&self.0.ring).interrupted = true;
        self.0.changed.notify_all();
    }

    fn now(&self) -> Nanos {
        self.0.now()
    }
}

/// What a thread does with the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    /// A look-up.
    Look,
    /// A durable write: a call of the device.
    Commit,
    /// Two at once: one by another thread, or by the same one after the first.
    TwoCommits,
    /// A read: the ring has it.
    Read,
    /// Waits for a timer that is due soon.
    Sleep,
    /// Waits for the commit of another thread.
    Follow,
    /// Returns while a write is under way.
    Leave,
    /// The job panics.
    Panic,
    /// A task of the engine panics.
    Break,
    Close,
}

/// Acts that end without an act of another thread.
const ALONE: [Act; 5] = [
    Act::Look,
    Act::Commit,
    Act::TwoCommits,
    Act::Read,
    Act::Sleep,
];

fn act(leader: &Leader<Model>, what: Act) -> Result<(), StoreError> {
    match what {
        Act::Look => assert_eq!(leader.run(|_| async { 7 })?, 7),
        Act::Commit => leader.run(|context: Context| async move {
            context.io(Op::WriteDurable).await;
            context.commits.set(context.commits.get() + 1);
            context.committed.notify();
        })?,
        Act::TwoCommits => leader.run(|context: Context| async move {
            let other = context.clone();
            let first = context
                .rt
                .spawn(async move { other.io(Op::WriteDurable).await });
            context.io(Op::WriteDurable).await;
            first.await;
        })?,
        Act::Read => leader.run(|context: Context| async move { context.io(Op::Read).await })?,
        Act::Sleep => leader.run(|context: Context| async move {
            context.rt.sleep(Nanos::from_micros(500)).await;
        })?,
        Act::Follow => leader.run(|context: Context| async move {
            while context.commits.get() == 0 {
                context.committed.wait().await;
            }
        })?,
        Act::Leave => leader.run(|context: Context| async move {
            let rt = context.rt.clone();
            rt.spawn_detached(async move {
                context.io(Op::Write).await;
                context.io(Op::WriteDurable).await;
                context.commits.set(context.commits.get() + 1);
                context.committed.notify();
            });
        })?,
        Act::Panic => {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                leader.run(|context: Context| async move {
                    context.io(Op::WriteDurable).await;
                    // Without a message on standard error.
                    std::panic::resume_unwind(Box::new(7));
                })
            }));
            match panicked {
                Err(panic) => assert_eq!(panic.downcast_ref(), Some(&7)),
                Ok(ended) => ended?,
            }
        }
        Act::Break => leader.run(|context: Context| async move {
            context
                .rt
                .spawn(async { std::panic::resume_unwind(Box::new(())) });
            context.io(Op::WriteDurable).await;
            context.committed.wait().await;
        })?,
        Act::Close => leader.close(|context: Context| async move {
            context.io(Op::WriteDurable).await;
            // Wakes the jobs that wait for the commit, as the engine does.
            context.commits.set(context.commits.get() + 1);
            context.committed.notify();
        })?,
    }
    Ok(())
}

/// One run: each thread does its acts in turn, beside the kernel; then the store is closed.
fn run(threads: &[Vec<Act>], with_timer_thread: bool) {
    let world = World::new();
    let calls = Calls::default();
    let driver = ModelDriver {
        world: world.clone(),
        calls: calls.clone(),
    };
    let rt = Rt::new(Box::new(driver));
    let context = Context {
        committed: Notify::new(&rt),
        commits: Rc::default(),
        rt,
    };
    let (engine, model) = (Engine::new(context, Some(calls)), Model(world.clone()));
    let leader = if with_timer_thread {
        Leader::start(engine, model).unwrap()
    } else {
        Arc::new(Leader::new(engine, Kind::Shared(model)))
    };
    let kernel = thread::spawn({
        let world = world.clone();
        move || world.run_kernel()
    });
    let ends = |acts: &[Act]| {
        let ends = |act: &Act| matches!(act, Act::Close | Act::Break);
        acts.iter().any(ends)
    };
    let may_end = threads.iter().any(|acts| ends(acts));
    let running: Vec<_> = threads
        .iter()
        .map(|acts| {
            let (leader, acts) = (leader.clone(), acts.clone());
            thread::spawn(move || {
                for what in acts {
                    match act(&leader, what) {
                        Ok(()) => {}
                        Err(StoreError::Closed | StoreError::Panicked) if may_end => {}
                        Err(error) => panic!("{what:?}: {error}"),
                    }
                }
            })
        })
        .collect();
    running
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    if !may_end {
        act(&leader, Act::Close).unwrap();
    }
    assert_eq!(world.dropped.load(SeqCst), 1, "the engine is taken down");
    assert!(leader.run(|_| async {}).is_err());
    locked(&world.ring).stopped = true;
    world.changed.notify_all();
    kernel.join().unwrap();
}

/// Explores `threads` by random schedules, and by schedules with few changes of thread.
fn explore(threads: &[&[Act]], with_timer_thread: bool, rounds: usize) {
    let threads: Vec<Vec<Act>> = threads.iter().map(|acts| acts.to_vec()).collect();
    let config = || {
        let mut config = Config::new();
        config.max_steps = MaxSteps::FailAfter(100_000);
        config.stack_size = 256 << 10;
        config
    };
    let once = move || run(&threads, with_timer_thread);
    Runner::new(RandomScheduler::new(rounds), config()).run(once.clone());
    Runner::new(PctScheduler::new(3, rounds), config()).run(once);
}

#[test]
fn two_threads_end_their_jobs_without_the_timer_thread() {
    for first in ALONE {
        for second in ALONE {
            explore(&[&[first], &[second]], false, 60);
            explore(&[&[first, second], &[second, first]], false, 20);
        }
    }
    explore(&[&[Act::Follow], &[Act::Commit]], false, 500);
    explore(&[&[Act::Follow, Act::Sleep], &[Act::Commit]], false, 500);
}

#[test]
fn three_threads_end_their_jobs_without_the_timer_thread() {
    for first in ALONE {
        for second in ALONE {
            for third in ALONE {
                explore(&[&[first], &[second], &[third]], false, 10);
            }
            explore(
                &[&[first, Act::Commit], &[second], &[Act::Follow]],
                false,
                30,
            );
        }
    }
}

#[test]
fn work_left_by_a_job_is_completed() {
    // The thread has returned while the write is under way.
    explore(&[&[Act::Leave], &[Act::Follow]], true, 300);
    // The timer thread is not needed while a waiter waits.
    explore(&[&[Act::Leave], &[Act::Follow]], false, 300);
    explore(&[&[Act::Leave], &[Act::Look, Act::Follow]], true, 300);
    explore(&[&[Act::Leave, Act::Follow]], true, 300);
    explore(&[&[Act::Leave], &[Act::Sleep], &[Act::Read]], true, 300);
}

#[test]
fn the_timer_thread_does_without_callers() {
    let once = || {
        let acts = [vec![Act::Leave]];
        run(&acts, true);
    };
    shuttle::check_random(once, 300);
}

#[test]
fn a_close_meets_jobs() {
    for other in ALONE.into_iter().chain([Act::Leave, Act::Close]) {
        explore(&[&[Act::Close], &[other, other]], true, 100);
        explore(&[&[Act::Commit, Act::Close], &[other]], false, 100);
        explore(
            &[&[Act::Close], &[other], &[Act::Commit, Act::Read]],
            true,
            50,
        );
    }
    explore(&[&[Act::Close], &[Act::Follow]], true, 300);
}

#[test]
fn panics_reach_their_caller_and_no_other() {
    for other in ALONE {
        explore(&[&[Act::Panic, Act::Look], &[other]], false, 100);
        explore(&[&[Act::Panic], &[Act::Panic], &[other]], true, 50);
    }
}

#[test]
fn a_panic_of_the_engine_ends_the_calls_of_all() {
    for other in ALONE.into_iter().chain([Act::Close, Act::Leave]) {
        explore(&[&[Act::Break], &[other, other]], true, 100);
        explore(&[&[Act::Break], &[other], &[Act::Commit]], false, 50);
    }
    explore(&[&[Act::Break], &[Act::Follow]], false, 300);
    explore(&[&[Act::Break], &[Act::Break]], true, 300);
}

#[test]
fn threads_have_distinct_marks() {
    let once = || {
        let seen = mark();
        assert_eq!(seen, mark());
        assert_ne!(seen, thread::spawn(mark).join().unwrap());
    };
    shuttle::check_random(once, 10);
}
