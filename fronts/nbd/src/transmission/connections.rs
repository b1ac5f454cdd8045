//! All connections in the transmission phase: adds, lists, counts and stops them, has the state that they share, and
//! cuts clients that stall.
//!
//! Counters and latencies are plain cells of the engine thread, which also exports them.

use super::budgets::{Class, PartialPayloads, ReplyBudgets};
use super::execute::{Session, Target};
use super::link::Link;
use super::options::TransmissionOptions;
use super::receive::receive;
use crate::listen::{Client, ConnectionGuard};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_requests::{Counters, Recorder, RequestMetrics};
use tonearm_rt::{Contained, DeviceId, Notify, Rt};

const ZEROES_BYTES: usize = 64 << 10;

/// The connections of one engine thread; clones are handles on the same.
#[derive(Clone)]
pub struct Connections(Rc<Shared>);

/// An open connection.
#[derive(Clone)]
pub struct ConnectionInfo {
    /// Its number, never used again.
    pub id: u64,
    /// Canonical name of the export.
    pub export: String,
    /// The client, for people.
    pub peer: String,
    /// Whether the client's side is encrypted.
    pub tls: bool,
    /// Whether the client was told that the export is read-only.
    pub read_only: bool,
    /// When it was added, on the executor's clock.
    pub since: Nanos,
    /// Its counters since the start.
    pub counters: Rc<Counters>,
    link: Rc<Link>,
}

impl ConnectionInfo {
    /// Requests that are not yet answered.
    pub fn in_flight(&self) -> u64 {
        self.link.in_flight()
    }
}

impl Connections {
    /// No connections yet. Buffers come from `pool`; tasks run on `rt`.
    pub fn new(rt: &Rt, pool: &BufPool, options: TransmissionOptions) -> Self {
        Self(Rc::new(Shared {
            rt: rt.clone(),
            pool: pool.clone(),
            options,
            metrics: Metrics::default(),
            recorder: Recorder::new(rt),
            replies: ReplyBudgets::new(rt, &options),
            partial: PartialPayloads::new(rt, options.partial_payload_bytes_max),
            zeroes: pool.alloc_zeroed(ZEROES_BYTES).share(),
            open: RefCell::default(),
            next_id: Cell::new(1),
            stopping: Cell::new(false),
            gone: Notify::new(rt),
            watching: Cell::new(false),
        }))
    }

    /// Serves `client` over `stream`, whose next byte is a request, until one side ends it. Then the stream is closed
    /// and the client's guard dropped. Returns the connection's number. After [`Connections::stop`] the stream is
    /// closed at once.
    pub fn add<T: Target>(&self, stream: DeviceId, client: Client, target: T) -> u64 {
        let shared = &self.0;
        let Client {
            export,
            peer,
            tls,
            read_only,
            negotiated,
            guard,
        } = client;
        let link = Rc::new(Link::new(
            shared.clone(),
            stream,
            export.clone(),
            negotiated,
        ));
        let id = shared.next_id.get();
        shared.next_id.set(id + 1);
        let info = ConnectionInfo {
            id,
            export,
            peer,
            tls,
            read_only,
            since: shared.rt.now(),
            counters: link.counters.clone(),
            link: link.clone(),
        };
        shared.open.borrow_mut().insert(id, info);
        let metrics = &shared.metrics;
        add(&metrics.connections_opened, 1);
        add(&metrics.connections_open, 1);
        if shared.stopping.get() {
            link.close();
        }
        let session = Rc::new(Session {
            link,
            target,
            read_only,
        });
        let contained = {
            let (shared, link) = (shared.clone(), session.link.clone());
            Contained::new("a connection of NBD", move || {
                link.lose();
                shared.remove(id);
            })
        };
        let serving = serve(shared.clone(), id, session, guard, contained.clone());
        shared.rt.spawn_contained(&contained, serving);
        id
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The recorder of requests. Other front ends record with it, too.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// Bytes of memory of large payloads that are being received.
    pub fn partial_bytes(&self) -> u64 {
        self.0.partial.used()
    }

    /// The open connections, oldest first.
    pub fn list(&self) -> Vec<ConnectionInfo> {
        self.0.open.borrow().values().cloned().collect()
    }

    /// True when no connection is open.
    pub fn is_empty(&self) -> bool {
        self.0.open.borrow().is_empty()
    }

    /// Begins to stop: no new request is read, requests that were read but not started are refused with ESHUTDOWN,
    /// requests under way are answered, and the streams are closed.
    pub fn stop(&self) {
        self.0.stopping.set(true);
        for info in self.list() {
            info.link.stop();
        }
    }

    /// As [`Connections::stop`], for the connections to one export, which is about to be deleted.
    pub fn stop_export(&self, export: &str) {
        for info in self.list().iter().filter(|info| info.export == export) {
            info.link.stop();
        }
    }

    /// Cuts a connection; false when no connection has this number.
    pub fn cut(&self, id: u64) -> bool {
        let info = self.0.open.borrow().get(&id).cloned();
        info.as_ref().inspect(|info| info.link.close()).is_some()
    }

    /// Stops, and waits until all connections are gone. Clients that have not taken their replies after `grace` are
    /// cut. Requests that are under way in the engine are always waited for.
    pub async fn shutdown(&self, grace: Nanos) {
        self.stop();
        let shared = &self.0;
        let mut patience = pin!(shared.rt.sleep(grace));
        let mut cut = false;
        std::future::poll_fn(|context| {
            if self.is_empty() {
                return Poll::Ready(());
            }
            if !cut && patience.as_mut().poll(context).is_ready() {
                cut = true;
                for info in self.list() {
                    info.link.close();
                }
            }
            // Registers this task. `gone` is not notified while it is polled.
            let _noted = Pin::new(&mut shared.gone.wait()).poll(context);
            Poll::Pending
        })
        .await;
    }
}

async fn serve<T: Target>(
    shared: Rc<Shared>,
    id: u64,
    session: Rc<Session<T>>,
    guard: Option<ConnectionGuard>,
    contained: Contained,
) {
    let link = session.link.clone();
    let receiving = {
        let (session, link, contained) = (session.clone(), link.clone(), contained.clone());
        async move {
            receive(session, contained).await;
            link.set_receiver_ended();
        }
    };
    shared.rt.spawn_contained(&contained, receiving);
    link.send_replies().await;
    link.receiver_ended().await;
    drop(session);
    drop(guard);
    shared.remove(id);
}

/// State that all connections share.
pub(super) struct Shared {
    pub rt: Rt,
    pub pool: BufPool,
    pub options: TransmissionOptions,
    pub metrics: Metrics,
    pub recorder: Recorder,
    /// Bytes of replies of all connections.
    pub replies: ReplyBudgets,
    /// Bytes of large payloads that are being received.
    pub partial: PartialPayloads,
    pub zeroes: Slice,
    open: RefCell<BTreeMap<u64, ConnectionInfo>>,
    next_id: Cell<u64>,
    stopping: Cell<bool>,
    /// A connection has gone.
    gone: Notify,
    /// The task that watches for stalled clients is running.
    watching: Cell<bool>,
}

impl Shared {
    /// Forgets a connection.
    fn remove(&self, id: u64) {
        if self.open.borrow_mut().remove(&id).is_some() {
            let open = &self.metrics.connections_open;
            open.set(open.get() - 1);
            self.gone.notify();
        }
    }

    /// Starts the task that cuts stalled connections, unless it is running. It ends when no client has a request or a
    /// reply to complete, so that an idle server has no timer.
    pub fn watch(self: &Rc<Self>) {
        if self.watching.replace(true) {
            return;
        }
        let shared = self.clone();
        self.rt.spawn(async move {
            while shared.cut_stalled() {
                let options = &shared.options;
                let shortest = options.stall_timeout.min(options.shortage_timeout);
                shared.rt.sleep(Nanos((shortest.0 / 4).max(1))).await;
            }
            shared.watching.set(false);
        });
    }

    /// Cuts the connections that stall for too long. False when no client has a request or a reply to complete.
    fn cut_stalled(&self) -> bool {
        let now = self.rt.now();
        let mut owing = false;
        for link in self.links() {
            match link.stalling_since() {
                Some(since) if now.since(since) >= self.options.stall_timeout => self.cut(&link),
                Some(_) => owing = true,
                None => {}
            }
        }
        if owing {
            let links = self.links();
            let reserving = links.iter().filter_map(|link| link.reserving_since.get());
            let patience = self.options.shortage_timeout;
            let starved = reserving
                .min()
                .is_some_and(|since| now.since(since) >= patience);
            // Data that was written recently is sent from the memory that is charged for writes.
            self.make_room(now, u64::from(starved), Link::stalls_with_data);
            self.make_room(now, self.partial.missing(), Link::stalls_with_payload);
            for class in Class::ALL {
                self.make_room(now, self.replies.missing(class), |link| {
                    link.stalls_with_replies(class)
                });
            }
        }
        owing
    }

    /// Connections that are not being closed.
    fn links(&self) -> Vec<Rc<Link>> {
        let open = self.open.borrow();
        let links = open.values().map(|info| info.link.clone());
        links.filter(|link| !link.is_closed()).collect()
    }

    /// Cuts connections that stall while others wait for `missing` bytes, until as much is free. `stalls` tells since
    /// when a connection has been stalling, and how many bytes it holds.
    fn make_room(&self, now: Nanos, missing: u64, stalls: impl Fn(&Link) -> Option<(Nanos, u64)>) {
        if missing == 0 {
            return;
        }
        let patience = self.options.shortage_timeout;
        let links = self.links().into_iter();
        let mut stalled: Vec<_> = links
            .filter_map(|link| stalls(&link).map(|(since, bytes)| (since, bytes, link)))
            .filter(|(since, bytes, _)| *bytes > 0 && now.since(*since) >= patience)
            .collect();
        stalled.sort_by_key(|(since, ..)| *since);
        let mut freed = 0;
        for (_, bytes, link) in stalled {
            if freed >= missing {
                break;
            }
            freed += bytes;
            self.cut(&link);
        }
    }

    fn cut(&self, link: &Link) {
        add(&self.metrics.connections_stalled, 1);
        link.close();
    }
}

/// Counters of all connections of one [`super::Connections`].
#[derive(Default)]
pub struct Metrics {
    /// Their requests, those of connections that are gone included.
    pub requests: RequestMetrics,
    /// Connections open now.
    pub connections_open: Cell<u64>,
    /// Connections ever added.
    pub connections_opened: Cell<u64>,
    /// Connections cut because the client stalled.
    pub connections_stalled: Cell<u64>,
    /// Connections ended because the client broke the protocol.
    pub connections_violated: Cell<u64>,
    /// `Send` operations: replies divided by it is the size of a batch.
    pub sends: Cell<u64>,
    /// `Recv` and `RecvAll` operations.
    pub receives: Cell<u64>,
}

pub(super) fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}
