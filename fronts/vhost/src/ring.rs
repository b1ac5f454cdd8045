//! A ring that runs: takes the requests that the guest makes available, and returns them used.

use crate::chain::{Chain, Malformed};
use crate::execute::{Executor, Status};
use crate::inflight::Inflight;
use std::cell::{Cell, RefCell};
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use tonearm_rt::{Contained, Data, DeviceId, Notify, Op, Rt};
use tonearm_uring::EventSender;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

const NOT_READABLE: Malformed = Malformed::Ring("it is not in the guest's memory");
const LOST: Malformed = Malformed::Ring("the server has met a fault of its own");
const OVERRUN: Malformed =
    Malformed::Ring("the guest's index is further ahead than the ring is long");

/// One ring, on the engine's thread.
pub(crate) struct Ring {
    pub rt: Rt,
    pub executor: Executor,
    pub queue: RefCell<Queue>,
    pub inflight: Option<Inflight>,
    /// The guest's event.
    pub kick: DeviceId,
    /// Tells the guest of used requests. A guest that polls has none.
    pub call: Option<EventSender>,
    /// The connection, which a malformed request ends.
    pub connection: UnixStream,
    /// Why the ring takes no more requests.
    pub fault: RefCell<Option<Malformed>>,
    pub under_way: Cell<usize>,
    pub is_stopping: Cell<bool>,
    pub has_ended: Cell<bool>,
    /// A task has panicked, perhaps the one that would end it.
    pub is_lost: Cell<bool>,
    pub changed: Notify,
    pub call_is_due: Cell<bool>,
    pub contained: Contained,
}

/// A request under way.
struct UnderWay(Rc<Ring>);

impl UnderWay {
    fn begin(ring: &Rc<Ring>) -> Self {
        ring.under_way.set(ring.under_way.get() + 1);
        Self(ring.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Self(ring) = self;
        ring.under_way.set(ring.under_way.get() - 1);
        if ring.is_stopping.get() {
            ring.changed.notify();
        }
    }
}

impl Ring {
    /// What a panic of one of its tasks ends: the connection. The monitor then connects again, and gets new rings.
    pub fn contained(own: &Weak<Self>) -> Contained {
        let own = own.clone();
        Contained::new("a connection of a virtual machine's disk", move || {
            if let Some(ring) = own.upgrade() {
                ring.is_lost.set(true);
                ring.end_connection(LOST);
                ring.changed.notify();
            }
        })
    }

    /// Takes requests from now on, until [`Ring::stop`]. `left` are those that another process has left.
    pub fn begin(self: &Rc<Self>, left: Vec<u16>) {
        let runs = self.clone().run(left);
        self.rt.spawn_contained(&self.contained, runs);
    }

    async fn run(self: Rc<Self>, left: Vec<u16>) {
        // Another process may have died after a used request and before it notified the guest.
        self.call.iter().for_each(EventSender::notify);
        for head in left {
            self.start(head);
        }
        let mut buf = self.executor.pool.alloc(8);
        while !self.is_stopping.get() {
            match self.take() {
                // The guest has made some available meanwhile. Others get their turn first.
                Ok(true) => {
                    self.rt.yield_now().await;
                    continue;
                }
                Ok(false) => {}
                Err(fault) => self.end_connection(fault),
            }
            let (result, data) = self.rt.stream(self.kick, Op::Recv, Data::whole(buf)).await;
            buf = data.into_buf();
            if result.is_err() && !self.is_stopping.get() {
                self.end_connection(Malformed::Ring("its event cannot be read"));
                break;
            }
        }
        while self.under_way.get() > 0 || !self.is_stopping.get() {
            self.changed.wait().await;
        }
        self.has_ended.set(true);
        self.changed.notify();
    }

    /// Stops, and returns the index of the next available request. All requests that it has taken are used then.
    pub async fn stop(&self) -> u16 {
        self.is_stopping.set(true);
        self.changed.notify();
        let close = self.rt.stream(self.kick, Op::Close, Data::None);
        // It was open. The wait for it ends with an error.
        let _ = close.await;
        let is_drained = || self.is_lost.get() && self.under_way.get() == 0;
        while !self.has_ended.get() && !is_drained() {
            self.changed.wait().await;
        }
        self.queue.borrow().next_avail()
    }

    /// Starts all requests that are available. True when the guest may have added one without a notification.
    fn take(self: &Rc<Self>) -> Result<bool, Malformed> {
        if self.fault.borrow().is_some() {
            return Ok(false);
        }
        let memory = &self.executor.memory;
        let mut heads = Vec::new();
        {
            let mut queue = self.queue.borrow_mut();
            queue
                .disable_notification(memory)
                .map_err(|_| NOT_READABLE)?;
            let available = queue.iter(memory).map_err(|_| OVERRUN)?;
            heads.extend(available.map(|chain| chain.head_index()));
        }
        for head in heads {
            let size = self.queue.borrow().size();
            if self.under_way.get() >= usize::from(size) {
                return Err(Malformed::TooMany { size });
            }
            if head >= size {
                let (next, size) = (head.into(), size.into());
                return Err(Malformed::Index { next, size });
            }
            if let Some(inflight) = &self.inflight {
                inflight.begin(head);
            }
            self.start(head);
        }
        let mut queue = self.queue.borrow_mut();
        queue.enable_notification(memory).map_err(|_| NOT_READABLE)
    }

    fn start(self: &Rc<Self>, head: u16) {
        let under_way = UnderWay::begin(self);
        self.rt.spawn_contained(&self.contained, async move {
            let ring = &under_way.0;
            if let Err(fault) = ring.serve(head).await {
                ring.end_connection(fault);
            }
        });
    }

    async fn serve(self: &Rc<Self>, head: u16) -> Result<(), Malformed> {
        let memory = &self.executor.memory;
        let (table, size) = {
            let queue = self.queue.borrow();
            (GuestAddress(queue.desc_table()), queue.size())
        };
        let chain = Chain::read(memory, table, size, head)?;
        let (status, written) = self.executor.execute(&chain).await?;
        self.finish(&chain, status, written)
    }

    /// Puts a request into the used ring.
    fn finish(
        self: &Rc<Self>,
        chain: &Chain,
        status: Status,
        written: u64,
    ) -> Result<(), Malformed> {
        let memory = &self.executor.memory;
        let last = chain.writable.bytes() - 1;
        chain.writable.copy_from(memory, last, &[status.byte()])?;
        if let Some(inflight) = &self.inflight {
            inflight.ending(chain.head);
        }
        let mut queue = self.queue.borrow_mut();
        // No more than 4 GiB, by the rules of chains.
        let length = u32::try_from(written + 1).unwrap_or(u32::MAX);
        queue
            .add_used(memory, chain.head, length)
            .map_err(|_| NOT_READABLE)?;
        if let Some(inflight) = &self.inflight {
            inflight.ended(chain.head, queue.next_used());
        }
        drop(queue);
        self.call_soon();
        Ok(())
    }

    /// Tells the guest of used requests, once for all that end in this turn of the engine.
    fn call_soon(self: &Rc<Self>) {
        if self.call.is_none() || self.call_is_due.replace(true) {
            return;
        }
        let ring = self.clone();
        self.rt.spawn_contained(&self.contained, async move {
            ring.call_is_due.set(false);
            let needed = {
                let mut queue = ring.queue.borrow_mut();
                queue.needs_notification(&ring.executor.memory)
            };
            match needed {
                Ok(false) => {}
                Ok(true) => ring.call.iter().for_each(EventSender::notify),
                Err(_) => ring.end_connection(NOT_READABLE),
            }
        });
    }

    /// Takes no more requests, and ends the connection. The session then stops all rings.
    fn end_connection(&self, fault: Malformed) {
        self.fault.borrow_mut().get_or_insert(fault);
        // The monitor may have gone already.
        let _ = self.connection.shutdown(std::net::Shutdown::Both);
    }
}
