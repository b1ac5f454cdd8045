//! The queues that are served, on the engine's thread, and how other threads ask for them.

use super::execute::Executor;
use super::queue::Queue;
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::Disk;
use tonearm_requests::{Recorder, RequestMetrics, Requests};
use tonearm_rt::{Data, Notify, Op, Rt, Semaphore};
use tonearm_uring::UringHandle;

/// Most bytes of reads under way, of all queues.
const READ_BYTES_MAX: u64 = 32 << 20;

/// How long a queue may take to be refused by the kernel.
const REFUSAL: Nanos = Nanos::from_millis(1);

/// A queue that is to be served.
pub struct QueuePlan {
    /// Name of the volume.
    pub volume: String,
    /// /dev/ublkcN.
    pub device: OwnedFd,
    /// Requests under way at a time.
    pub depth: u16,
    /// Told when the queue has ended: of nothing when its device was stopped, or why it failed.
    pub ended: Sender<Option<String>>,
}

/// Serve a queue. The answer comes when the kernel has its commands.
pub struct Ask(pub Box<QueuePlan>, pub SyncSender<Result<(), String>>);

/// Passes what a thread asks to [`Queues::answer`] on the engine's thread. False when that has ended.
pub type AskEngine = Arc<dyn Fn(Ask) -> bool + Send + Sync>;

/// The queues of all devices. Clones are handles on the same.
#[derive(Clone)]
pub struct Queues(Rc<Inner>);

struct Inner {
    rt: Rt,
    pool: BufPool,
    handle: UringHandle,
    disk: Disk,
    /// Memory for data that is read, of all queues.
    budget: Semaphore,
    requests: Requests,
    queues: RefCell<Vec<Rc<Queue>>>,
    has_ended: Cell<bool>,
}

impl Inner {
    fn forget(&self, queue: &Rc<Queue>) {
        let mut queues = self.queues.borrow_mut();
        queues.retain(|other| !Rc::ptr_eq(other, queue));
    }
}

impl Queues {
    /// Queues for volumes of `disk`, whose requests `recorder` records. The thread must be the only one that enters the ring of `rt`.
    pub fn new(
        rt: &Rt,
        pool: &BufPool,
        handle: &UringHandle,
        disk: &Disk,
        recorder: &Recorder,
    ) -> Self {
        Self(Rc::new(Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            handle: handle.clone(),
            disk: disk.clone(),
            budget: Semaphore::new(rt, READ_BYTES_MAX),
            requests: Requests::new(rt, recorder),
            queues: RefCell::default(),
            has_ended: Cell::new(false),
        }))
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &RequestMetrics {
        self.0.requests.metrics()
    }

    /// Queues that are served.
    pub fn count(&self) -> usize {
        self.0.queues.borrow().len()
    }

    /// Whether a device of the volume `name` is served.
    pub fn serves(&self, name: &str) -> bool {
        let queues = self.0.queues.borrow();
        queues.iter().any(|queue| queue.executor.name == name)
    }

    /// Answers a thread, which waits for the answer.
    pub fn answer(&self, ask: Ask) {
        let Ask(plan, reply) = ask;
        let QueuePlan { depth, ended, .. } = *plan;
        let queue = match self.open(&plan.volume, plan.device) {
            Ok(queue) => queue,
            Err(why) => {
                let _ = reply.try_send(Err(why));
                return;
            }
        };
        let inner = self.0.clone();
        inner.queues.borrow_mut().push(queue.clone());
        queue.start(depth);
        self.0.rt.spawn_detached(async move {
            // Commands that the kernel refuses end as they are submitted.
            inner.rt.sleep(REFUSAL).await;
            let begun = queue.map(depth).map_err(|error| error.to_string());
            let is_begun = begun.is_ok();
            // The thread may have gone, as at the other ends below.
            let _ = reply.try_send(begun);
            // Of a queue that is refused, the thread ends the device.
            queue.ended().await;
            if queue.is_stopping.get() {
                // The tags have requests for the next server. The device goes on.
                return;
            }
            inner.forget(&queue);
            if is_begun && let Some(fault) = queue.fault.get() {
                let _ = ended.send(Some(fault.to_string()));
                return;
            }
            let close = inner.rt.stream(queue.device, Op::Close, Data::None);
            let _ = close.await;
            // The kernel keeps the device until all of this process's descriptors of it are closed.
            drop(queue);
            let _ = ended.send(None);
        });
    }

    /// Takes no more requests. What was taken is answered when this resolves.
    pub async fn shut_down(&self) {
        self.0.has_ended.set(true);
        let queues = self.0.queues.borrow().clone();
        for queue in queues {
            queue.stop().await;
        }
    }

    fn open(&self, volume: &str, device: OwnedFd) -> Result<Rc<Queue>, String> {
        let Inner {
            rt,
            pool,
            handle,
            disk,
            budget,
            requests,
            ..
        } = &*self.0;
        if self.0.has_ended.get() {
            return Err("the server is shutting down".to_owned());
        }
        let volume = disk.volume(volume).map_err(|error| error.to_string())?;
        let data = device.try_clone().map_err(|error| error.to_string())?;
        Ok(Rc::new(Queue {
            rt: rt.clone(),
            executor: Executor {
                name: volume.name(),
                volume: volume.for_kernel_client(),
                requests: requests.clone(),
                pool: pool.clone(),
                budget: budget.clone(),
                data,
            },
            device: handle.add_ublk(device),
            descriptors: OnceCell::new(),
            tags: Cell::new(0),
            under_way: Cell::new(0),
            is_stopping: Cell::new(false),
            fault: Cell::new(None),
            changed: Notify::new(rt),
        }))
    }
}
