//! All connections in the transmission phase: adds, lists, counts and stops them, and cuts clients that stall.

use super::budgets::Class;
use super::execute::Session;
use super::link::Link;
use super::options::TransmissionOptions;
use super::receive::receive;
use super::shared::{Metrics, Shared, add};
use super::target::Target;
use crate::listen::{Client, ConnectionGuard};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos};
use tonearm_requests::{Counters, Recorder};
use tonearm_rt::{Contained, DeviceId, Notify, Rt};

/// The connections of one engine thread; clones are handles on the same.
#[derive(Clone)]
pub struct Connections(Rc<State>);

struct State {
    shared: Rc<Shared>,
    open: RefCell<BTreeMap<u64, ConnectionInfo>>,
    next_id: Cell<u64>,
    stopping: Cell<bool>,
    /// A connection has gone.
    gone: Notify,
    /// The task that watches for stalled clients is running.
    watching: Cell<bool>,
}

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
    /// Whether the handshake said that the export is read-only.
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
        Self(Rc::new(State {
            shared: Rc::new(Shared::new(rt, pool, options)),
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
        let State { shared, .. } = &*self.0;
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
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
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
        self.0.open.borrow_mut().insert(id, info);
        let metrics = &shared.metrics;
        add(&metrics.connections_opened, 1);
        add(&metrics.connections_open, 1);
        if self.0.stopping.get() {
            link.close();
        }
        let session = Rc::new(Session {
            link,
            target,
            read_only,
        });
        let contained = {
            let (state, link) = (self.0.clone(), session.link.clone());
            Contained::new("a connection of NBD", move || {
                link.lose();
                state.remove(id);
            })
        };
        let serving = serve(self.0.clone(), id, session, guard, contained.clone());
        shared.rt.spawn_contained(&contained, serving);
        if !self.0.watching.replace(true) {
            shared.rt.spawn_detached(self.0.clone().watch());
        }
        id
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &Metrics {
        &self.0.shared.metrics
    }

    /// The recorder of requests. Other front ends record with it, too.
    pub fn recorder(&self) -> &Recorder {
        &self.0.shared.recorder
    }

    /// Bytes of memory of large payloads that are being received.
    pub fn partial_bytes(&self) -> u64 {
        self.0.shared.partial.used()
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
        let mut patience = pin!(self.0.shared.rt.sleep(grace));
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
            let _noted = Pin::new(&mut self.0.gone.wait()).poll(context);
            Poll::Pending
        })
        .await;
    }
}

async fn serve<T: Target>(
    state: Rc<State>,
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
    let rt = &state.shared.rt;
    rt.spawn_contained(&contained, receiving);
    link.send_replies().await;
    link.receiver_ended().await;
    drop(session);
    drop(guard);
    state.remove(id);
}

impl State {
    /// Forgets a connection.
    fn remove(&self, id: u64) {
        if self.open.borrow_mut().remove(&id).is_some() {
            let open = &self.shared.metrics.connections_open;
            open.set(open.get() - 1);
            self.gone.notify();
            self.shared.owing.notify();
        }
    }

    /// Cuts stalled connections. There is no timer while no client has a request or a reply to complete, so that an idle server
    /// sleeps. Ends with the last connection.
    async fn watch(self: Rc<Self>) {
        let Shared { rt, options, .. } = &*self.shared;
        let shortest = options.stall_timeout.min(options.shortage_timeout);
        while !self.open.borrow().is_empty() {
            if self.cut_stalled() {
                rt.sleep(Nanos((shortest.0 / 4).max(1))).await;
            } else {
                self.shared.owing.wait().await;
            }
        }
        self.watching.set(false);
    }

    /// Cuts the connections that stall for too long. False when no client has a request or a reply to complete.
    fn cut_stalled(&self) -> bool {
        let Shared {
            options,
            partial,
            replies,
            ..
        } = &*self.shared;
        let now = self.shared.rt.now();
        let mut owing = false;
        for link in self.links() {
            match link.stalling_since() {
                Some(since) if now.since(since) >= options.stall_timeout => self.cut(&link),
                Some(_) => owing = true,
                None => {}
            }
        }
        if owing {
            let links = self.links();
            let reserving = links.iter().filter_map(|link| link.reserving_since.get());
            let patience = options.shortage_timeout;
            let starved = reserving
                .min()
                .is_some_and(|since| now.since(since) >= patience);
            // Data that was written recently is sent from the memory that is charged for writes.
            self.make_room(now, u64::from(starved), Link::stalls_with_data);
            self.make_room(now, partial.missing(), Link::stalls_with_payload);
            for class in Class::ALL {
                self.make_room(now, replies.missing(class), |link| {
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

    /// Cuts connections that stall while others wait for `missing` bytes, until as much is free. `stalls` says since
    /// when a connection has been stalling, and how many bytes it holds.
    fn make_room(&self, now: Nanos, missing: u64, stalls: impl Fn(&Link) -> Option<(Nanos, u64)>) {
        if missing == 0 {
            return;
        }
        let patience = self.shared.options.shortage_timeout;
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
        add(&self.shared.metrics.connections_stalled, 1);
        link.close();
    }
}
