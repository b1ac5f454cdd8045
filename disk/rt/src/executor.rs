//! Tasks, operations and timers.

use crate::contained::{Contained, Panics};
use crate::driver::{Completion, Data, DeviceId, Driver, IoError, Notifier, Op, Request};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_base::Nanos;

/// Identity of a task. The generation distinguishes the tasks that use a slot one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    slot: u32,
    generation: u32,
}

/// A boxed future, for the interface of a crate. The body of an `async fn` is compiled again in each crate that awaits
/// it; a boxed body is compiled once, where it is boxed.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

type TaskFuture = Boxed<'static, ()>;

impl TaskId {
    /// Number of its slot. Slots are reused, so the number is small.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

struct TaskSlot {
    generation: u32,
    /// True while the task is queued, so that it is queued once.
    queued: bool,
    live: bool,
    /// Empty while the task is being polled.
    future: Option<TaskFuture>,
    /// Its panics outside of the engine end it alone. Empty while the task is being polled.
    contained: Option<Contained>,
}

enum OpState {
    /// Under way, with the task to wake if one waits.
    Pending(Option<TaskId>),
    /// Completed, not yet collected.
    Done(Completion),
    /// Its future was dropped, so the completion is discarded.
    Orphaned,
}

struct Core {
    driver: RefCell<Box<dyn Driver>>,
    tasks: RefCell<Vec<TaskSlot>>,
    free_tasks: RefCell<Vec<u32>>,
    ready: RefCell<VecDeque<TaskId>>,
    current: Cell<Option<TaskId>>,
    ops: RefCell<Vec<Option<OpState>>>,
    free_ops: RefCell<Vec<u32>>,
    timers: RefCell<BTreeMap<(Nanos, u64), TaskId>>,
    timer_seq: Cell<u64>,
    in_flight: Cell<usize>,
    polls: Cell<u64>,
    /// Empty between calls; kept to reuse its memory.
    completions: RefCell<Vec<Completion>>,
    /// The driver must not be called now.
    held: Cell<bool>,
    /// Operations that were begun meanwhile.
    waiting: RefCell<Vec<(u64, Request)>>,
    panics: Panics,
}

/// Handle of the executor, for one thread. Cheap to clone.
#[derive(Clone)]
pub struct Rt(Rc<Core>);

impl Rt {
    /// An executor over `driver`.
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self(Rc::new(Core {
            driver: RefCell::new(driver),
            tasks: RefCell::default(),
            free_tasks: RefCell::default(),
            ready: RefCell::default(),
            current: Cell::new(None),
            ops: RefCell::default(),
            free_ops: RefCell::default(),
            timers: RefCell::default(),
            timer_seq: Cell::new(0),
            in_flight: Cell::new(0),
            polls: Cell::new(0),
            completions: RefCell::default(),
            held: Cell::new(false),
            waiting: RefCell::default(),
            panics: Panics::default(),
        }))
    }

    /// The driver's clock.
    pub fn now(&self) -> Nanos {
        self.0.driver.borrow().now()
    }

    /// Starts a task that runs beside the present one.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let shared = Rc::new(JoinState {
            result: RefCell::new(None),
            waiter: Cell::new(None),
        });
        let (rt, out) = (self.clone(), shared.clone());
        let task = async move {
            let result = future.await;
            *out.result.borrow_mut() = Some(result);
            if let Some(waiter) = out.waiter.take() {
                rt.wake(waiter);
            }
        };
        self.spawn_boxed(Box::pin(task), None);
        JoinHandle {
            rt: self.clone(),
            shared,
        }
    }

    /// Starts a task for whose end no task waits.
    pub fn spawn_detached(&self, future: impl Future<Output = ()> + 'static) {
        self.spawn_boxed(Box::pin(future), None);
    }

    pub(crate) fn spawn_boxed(&self, future: TaskFuture, contained: Option<Contained>) {
        let mut tasks = self.0.tasks.borrow_mut();
        let slot = self.0.free_tasks.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(TaskSlot {
                generation: 0,
                queued: false,
                live: false,
                future: None,
                contained: None,
            });
            (tasks.len() - 1) as u32
        });
        let task = &mut tasks[slot as usize];
        task.future = Some(future);
        task.contained = contained;
        task.live = true;
        task.queued = true;
        let id = TaskId {
            slot,
            generation: task.generation,
        };
        self.0.ready.borrow_mut().push_back(id);
    }

    /// Starts an operation at once. The future resolves at its completion.
    pub fn io(&self, request: Request) -> Io {
        let slot = {
            let mut ops = self.0.ops.borrow_mut();
            let slot = self.0.free_ops.borrow_mut().pop().unwrap_or_else(|| {
                ops.push(None);
                (ops.len() - 1) as u32
            });
            ops[slot as usize] = Some(OpState::Pending(None));
            slot
        };
        self.0.in_flight.set(self.0.in_flight.get() + 1);
        if self.0.held.get() {
            self.0.waiting.borrow_mut().push((slot.into(), request));
        } else {
            self.0.driver.borrow_mut().submit(slot.into(), request);
        }
        Io {
            rt: self.clone(),
            slot: Some(slot),
        }
    }

    /// Operation of a stream with one buffer: `op` is `Recv`, `RecvAll` or `Send`.
    pub fn stream(&self, stream: DeviceId, op: Op, data: Data) -> Io {
        self.io(Request {
            device: stream,
            op,
            offset: 0,
            len: 0,
            data,
        })
    }

    /// Adds an event to the driver. That begins nothing, so it may be done where the driver must not be called.
    pub(crate) fn event(&self) -> io::Result<(DeviceId, Notifier)> {
        self.0.driver.borrow_mut().event()
    }

    /// Resolves when the clock has reached `at`.
    pub fn sleep_until(&self, at: Nanos) -> Sleep {
        Sleep {
            rt: self.clone(),
            at,
            key: None,
        }
    }

    /// Resolves `span` from now.
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now() + span.0)
    }

    /// Lets the other ready tasks run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            self.wake(self.current_task());
            Poll::Pending
        })
        .await;
    }

    /// Operations under way.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.get()
    }

    /// Number of polls of tasks so far. Tests use it to measure the cost of wake-ups.
    pub fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// Runs `future` and every spawned task until `future` ends. Other tasks stay where they are.
    ///
    /// # Panics
    /// On a deadlock: no task is ready, no operation is under way and no timer is set.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let handle = self.spawn(future);
        loop {
            self.run_ready();
            if let Some(result) = handle.take() {
                return result;
            }
            let moved = self.wait(None);
            assert!(
                moved || self.in_flight() > 0,
                "deadlock: no task is ready, no operation is under way, no timer is set"
            );
        }
    }

    /// Waits for a completion, for a timer, or until `limit`, whichever comes first, and makes the tasks ready that
    /// waited for it. For callers that drive the executor themselves, in turn with [`Rt::run_ready`]. False when no
    /// operation has completed and no timer is set: then only an operation under way can make a task ready.
    pub fn wait(&self, limit: Option<Nanos>) -> bool {
        let timer = self.next_timer();
        let deadline = timer.into_iter().chain(limit).min();
        // Taken out, because a completion's memory may call back when it is dropped.
        let mut completions = self.0.completions.take();
        let mut driver = self.0.driver.borrow_mut();
        for (token, request) in self.0.waiting.take() {
            driver.submit(token, request);
        }
        driver.wait(deadline, &mut completions);
        drop(driver);
        let fired = self.fire_timers();
        let moved = fired || !completions.is_empty() || timer.is_some();
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.0.completions.replace(completions);
        moved
    }

    /// Time of the next timer.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.0.timers.borrow().keys().next().map(|(at, _)| *at)
    }

    /// Drops every task, in any state, and the driver: for the end of the program, or a simulated power cut.
    /// Tasks, leases and the executor hold each other, so without this call none of them is ever released.
    pub fn shut_down(&self) {
        loop {
            let next = self.0.tasks.borrow_mut().iter_mut().find_map(|task| {
                let future = task.future.take()?;
                (task.live, task.generation) = (false, task.generation.wrapping_add(1));
                Some(future)
            });
            match next {
                // Dropped outside of the borrow, because it may call back.
                Some(future) => drop(future),
                None => break,
            }
        }
        self.0.ready.borrow_mut().clear();
        self.0.timers.borrow_mut().clear();
        self.0.waiting.borrow_mut().clear();
        let now = self.now();
        let driver = self.0.driver.replace(Box::new(Ended(now)));
        // The driver waits for operations under way, and releases their memory.
        drop(driver);
    }

    /// Polls ready tasks until no task is ready.
    pub fn run_ready(&self) {
        loop {
            let next = self.0.ready.borrow_mut().pop_front();
            let Some(id) = next else { return };
            let (future, contained) = {
                let mut tasks = self.0.tasks.borrow_mut();
                let task = &mut tasks[id.slot as usize];
                if task.generation != id.generation || !task.live {
                    continue;
                }
                task.queued = false;
                (task.future.take(), task.contained.take())
            };
            let Some(mut future) = future else { continue };
            self.0.current.set(Some(id));
            self.0.polls.set(self.0.polls.get() + 1);
            let mut poll = || {
                let future = future.as_mut();
                future.poll(&mut Context::from_waker(Waker::noop()))
            };
            let polled = match contained {
                None => Ok(poll()),
                Some(_) => catch_unwind(AssertUnwindSafe(poll)),
            };
            self.0.current.set(None);
            let polled = match polled {
                Err(panic) if self.0.panics.is_in_engine() => resume_unwind(panic),
                polled => polled.ok(),
            };
            let mut tasks = self.0.tasks.borrow_mut();
            let task = &mut tasks[id.slot as usize];
            if polled == Some(Poll::Pending) {
                (task.future, task.contained) = (Some(future), contained);
                continue;
            }
            task.live = false;
            task.generation = task.generation.wrapping_add(1);
            self.0.free_tasks.borrow_mut().push(id.slot);
            drop(tasks);
            // Dropping the future may call back into the executor, so no borrow is held here.
            drop(future);
            if let Some(contained) = contained.filter(|_| polled.is_none()) {
                self.0.panics.end(&contained);
            }
        }
    }

    /// As [`Rt::run_ready`], on a thread that must not call the driver. Operations that begin here are submitted by the next
    /// [`Rt::wait`].
    pub fn run_without_driver(&self) {
        self.0.held.set(true);
        self.run_ready();
        self.0.held.set(false);
    }

    /// True when operations wait to be submitted.
    pub fn has_waiting_operations(&self) -> bool {
        !self.0.waiting.borrow().is_empty()
    }

    /// True when a task is ready.
    pub fn has_ready(&self) -> bool {
        !self.0.ready.borrow().is_empty()
    }

    fn fire_timers(&self) -> bool {
        let now = self.now();
        let mut fired = false;
        loop {
            let task = {
                let mut timers = self.0.timers.borrow_mut();
                match timers.first_entry() {
                    Some(entry) if entry.key().0 <= now => entry.remove(),
                    _ => return fired,
                }
            };
            fired = true;
            self.wake(task);
        }
    }

    fn complete(&self, completion: Completion) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        let slot = completion.token as usize;
        let waiter = {
            let mut ops = self.0.ops.borrow_mut();
            match ops[slot].take() {
                Some(OpState::Pending(waiter)) => {
                    ops[slot] = Some(OpState::Done(completion));
                    waiter
                }
                Some(OpState::Orphaned) => {
                    self.0.free_ops.borrow_mut().push(slot as u32);
                    None
                }
                _ => panic!("a completion for an operation that is not under way"),
            }
        };
        if let Some(task) = waiter {
            self.wake(task);
        }
    }

    pub(crate) fn panics(&self) -> &Panics {
        &self.0.panics
    }

    pub(crate) fn current_task(&self) -> TaskId {
        self.0
            .current
            .get()
            .expect("only the executor polls its futures")
    }

    pub(crate) fn wake(&self, id: TaskId) {
        let mut tasks = self.0.tasks.borrow_mut();
        let task = &mut tasks[id.slot as usize];
        if task.live && task.generation == id.generation && !task.queued {
            task.queued = true;
            self.0.ready.borrow_mut().push_back(id);
        }
    }
}

/// The driver of an executor that has been shut down.
struct Ended(Nanos);

impl Driver for Ended {
    fn now(&self) -> Nanos {
        self.0
    }

    fn submit(&mut self, _: u64, request: Request) {
        // All devices have gone.
        assert!(
            request.op == Op::Close,
            "an operation after the executor was shut down"
        );
    }

    fn wait(&mut self, _: Option<Nanos>, _: &mut Vec<Completion>) {}
}

struct JoinState<T> {
    result: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
}

/// A wait for a task's result. The task continues when the handle is dropped.
pub struct JoinHandle<T> {
    rt: Rt,
    shared: Rc<JoinState<T>>,
}

impl<T> JoinHandle<T> {
    /// The result, if the task has ended. It can be taken once.
    pub fn take(&self) -> Option<T> {
        self.shared.result.borrow_mut().take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        match self.shared.result.borrow_mut().take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.shared.waiter.set(Some(self.rt.current_task()));
                Poll::Pending
            }
        }
    }
}

/// An operation under way.
pub struct Io {
    rt: Rt,
    slot: Option<u32>,
}

impl Future for Io {
    type Output = (Result<usize, IoError>, Data);
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.slot.expect("an operation is not polled after its end");
        let core = self.rt.0.clone();
        let mut ops = core.ops.borrow_mut();
        match ops[slot as usize].take() {
            Some(OpState::Done(completion)) => {
                core.free_ops.borrow_mut().push(slot);
                self.slot = None;
                Poll::Ready((completion.result, completion.data))
            }
            _ => {
                ops[slot as usize] = Some(OpState::Pending(Some(self.rt.current_task())));
                Poll::Pending
            }
        }
    }
}

impl Io {
    /// The result alone. The memory is released.
    pub async fn done(self) -> Result<(), IoError> {
        self.await.0.map(|_| ())
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let mut ops = self.rt.0.ops.borrow_mut();
        // Taken out before it is dropped, because leases in the completion's memory may have side effects.
        let state = ops[slot as usize].take();
        match state {
            Some(OpState::Done(completion)) => {
                self.rt.0.free_ops.borrow_mut().push(slot);
                drop(ops);
                drop(completion);
            }
            _ => ops[slot as usize] = Some(OpState::Orphaned),
        }
    }
}

/// A timer.
pub struct Sleep {
    rt: Rt,
    at: Nanos,
    key: Option<(Nanos, u64)>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.rt.now() >= self.at {
            return Poll::Ready(());
        }
        let core = self.rt.0.clone();
        let key = match self.key {
            Some(key) => key,
            None => {
                let seq = core.timer_seq.get();
                core.timer_seq.set(seq + 1);
                self.key = Some((self.at, seq));
                (self.at, seq)
            }
        };
        core.timers.borrow_mut().insert(key, self.rt.current_task());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.rt.0.timers.borrow_mut().remove(&key);
        }
    }
}
