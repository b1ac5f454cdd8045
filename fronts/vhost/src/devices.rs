//! The rings that run, on the engine's thread, and how sessions ask for them.

use crate::chain::Malformed;
use crate::execute::Executor;
use crate::inflight::Inflight;
use crate::ring::Ring;
use crate::shape::{PAYLOAD_BYTES_MAX, Shape};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use tonearm_base::BufPool;
use tonearm_disk::Disk;
use tonearm_requests::{Recorder, RequestMetrics, Requests};
use tonearm_rt::{Notify, Rt, Semaphore};
use tonearm_uring::{EventSender, UringHandle};
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;

/// Most bytes of reads under way, of all rings.
const READ_BYTES_MAX: u64 = 2 * PAYLOAD_BYTES_MAX;

/// Identity of a ring that runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RingId(u64);

/// What a session wants of the engine.
pub enum Ask {
    /// The shape of a volume.
    Shape(String, SyncSender<Result<Shape, String>>),
    /// A monitor has connected to a device of this volume.
    Connected(String),
    /// It has disconnected.
    Disconnected(String),
    /// Runs a ring.
    Start(Box<RingPlan>, SyncSender<Result<RingId, String>>),
    /// Stops a ring. The answer comes when its requests are used: the index of the next available one, and why it took no more.
    Stop(RingId, SyncSender<(u16, Option<Malformed>)>),
}

/// Passes what a session asks to [`Devices::answer`] on the engine's thread. False when that has ended.
pub type AskEngine = Arc<dyn Fn(Ask) -> bool + Send + Sync>;

/// A ring that is to run.
pub struct RingPlan {
    pub(crate) volume: String,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) queue: Queue,
    pub(crate) inflight: Option<Inflight>,
    /// Requests that another process has left.
    pub(crate) left: Vec<u16>,
    pub(crate) kick: OwnedFd,
    pub(crate) call: Option<OwnedFd>,
    pub(crate) connection: UnixStream,
    pub(crate) write_through: bool,
    pub(crate) serial: [u8; 20],
}

/// The rings of all devices. Clones are handles on the same.
#[derive(Clone)]
pub struct Devices(Rc<Inner>);

struct Inner {
    rt: Rt,
    pool: BufPool,
    handle: UringHandle,
    disk: Disk,
    /// Memory for data that is read, of all rings.
    budget: Semaphore,
    requests: Requests,
    rings: RefCell<BTreeMap<RingId, Rc<Ring>>>,
    /// Connected monitors by the volume of their device. One whose guest has no driver yet has no ring.
    clients: RefCell<BTreeMap<String, usize>>,
    next: Cell<u64>,
    has_ended: Cell<bool>,
}

impl Devices {
    /// Devices for volumes of `disk`, whose requests `recorder` records.
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
            rings: RefCell::default(),
            clients: RefCell::default(),
            next: Cell::new(0),
            has_ended: Cell::new(false),
        }))
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &RequestMetrics {
        self.0.requests.metrics()
    }

    /// Rings that run.
    pub fn rings(&self) -> usize {
        self.0.rings.borrow().len()
    }

    /// Monitors that are connected to a device of the volume `name`.
    pub fn clients(&self, name: &str) -> usize {
        self.0.clients.borrow().get(name).copied().unwrap_or(0)
    }

    /// Answers a session. The sessions wait for the answer, so each channel has room for it.
    pub fn answer(&self, ask: Ask) {
        match ask {
            Ask::Shape(volume, reply) => {
                // The session may have ended.
                let _ = reply.try_send(self.shape(&volume));
            }
            Ask::Connected(volume) => *self.0.clients.borrow_mut().entry(volume).or_default() += 1,
            Ask::Disconnected(volume) => {
                if let Some(count) = self.0.clients.borrow_mut().get_mut(&volume) {
                    *count = count.saturating_sub(1);
                }
            }
            Ask::Start(plan, reply) => {
                let _ = reply.try_send(self.start(*plan));
            }
            Ask::Stop(id, reply) => {
                let found = self.0.rings.borrow_mut().remove(&id);
                let Some(ring) = found else {
                    return;
                };
                self.0.rt.spawn_detached(async move {
                    let next = ring.stop().await;
                    let fault = *ring.fault.borrow();
                    let _ = reply.try_send((next, fault));
                });
            }
        }
    }

    /// Stops all rings; what they have taken is used then. No ring starts any more.
    pub async fn shut_down(&self) {
        self.0.has_ended.set(true);
        let rings = std::mem::take(&mut *self.0.rings.borrow_mut());
        for ring in rings.values() {
            ring.stop().await;
        }
    }

    fn shape(&self, name: &str) -> Result<Shape, String> {
        let volume = self
            .0
            .disk
            .volume(name)
            .map_err(|error| error.to_string())?;
        Ok(Shape {
            name: volume.name(),
            size_bytes: volume.size_bytes(),
            block_size: volume.block_size(),
            read_only: volume.read_only(),
        })
    }

    fn start(&self, plan: RingPlan) -> Result<RingId, String> {
        let Inner {
            rt,
            pool,
            handle,
            disk,
            ..
        } = &*self.0;
        if self.0.has_ended.get() {
            return Err("the server is shutting down".to_owned());
        }
        let volume = disk
            .volume(&plan.volume)
            .map_err(|error| error.to_string())?;
        let sender = |fd: &OwnedFd| EventSender::to(fd).map_err(|error| error.to_string());
        let call = plan.call.as_ref().map(sender).transpose()?;
        let kick = handle.add_foreign_event(plan.kick);
        let ring = Rc::new_cyclic(|own| Ring {
            contained: Ring::contained(own),
            rt: rt.clone(),
            executor: Executor {
                // The guest must not notice the end of this process.
                volume: volume.for_kernel_client(),
                memory: plan.memory,
                pool: pool.clone(),
                budget: self.0.budget.clone(),
                requests: self.0.requests.clone(),
                write_through: plan.write_through,
                serial: plan.serial,
                name: plan.volume,
            },
            queue: RefCell::new(plan.queue),
            inflight: plan.inflight,
            kick,
            call,
            connection: plan.connection,
            fault: RefCell::default(),
            under_way: Cell::new(0),
            is_stopping: Cell::new(false),
            has_ended: Cell::new(false),
            is_lost: Cell::new(false),
            changed: Notify::new(rt),
            call_is_due: Cell::new(false),
        });
        let id = RingId(self.0.next.get());
        self.0.next.set(id.0 + 1);
        self.0.rings.borrow_mut().insert(id, ring.clone());
        ring.begin(plan.left);
        Ok(id)
    }
}
