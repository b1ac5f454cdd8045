//! All connections in the transmission phase: where they are added, listed and stopped.

use super::execute::Session;
use super::link::Link;
use super::metrics::{Counters, Metrics, add};
use super::options::TransmissionOptions;
use super::receive::receive;
use super::shared::Shared;
use super::target::Target;
use crate::listen::{Client, ConnectionGuard};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{DeviceId, Rt};

/// The connections of one engine thread; clones are handles on the same.
#[derive(Clone)]
pub struct Connections(Rc<State>);

struct State {
    shared: Rc<Shared>,
    entries: RefCell<BTreeMap<u64, ConnectionInfo>>,
    next_id: Cell<u64>,
    stopping: Cell<bool>,
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
    /// Whether the client was told that the export is read-only.
    pub read_only: bool,
    /// When it was added, on the executor's clock.
    pub since: Nanos,
    /// What it has done so far.
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
    /// None yet. Buffers come from `pool`; tasks run on `rt`.
    pub fn new(rt: &Rt, pool: &BufPool, options: TransmissionOptions) -> Self {
        Self(Rc::new(State {
            shared: Shared::new(rt, pool, options),
            entries: RefCell::default(),
            next_id: Cell::new(1),
            stopping: Cell::new(false),
        }))
    }

    /// Serves `client` over `stream`, whose next byte is a request, until one side ends it; then the
    /// stream is closed and the client's guard dropped. Gives the connection's number. After
    /// [`Connections::stop`] the stream is closed at once.
    pub fn add<T: Target>(&self, stream: DeviceId, client: Client, target: T) -> u64 {
        let shared = &self.0.shared;
        let Client {
            export,
            peer,
            tls,
            read_only,
            negotiated,
            guard,
        } = client;
        let link = Rc::new(Link::new(shared.clone(), stream, negotiated));
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
        self.0.entries.borrow_mut().insert(id, info);
        shared.links.borrow_mut().insert(id, link.clone());
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
        shared.rt.spawn(serve(self.clone(), id, session, guard));
        id
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &Metrics {
        &self.0.shared.metrics
    }

    /// Bytes of memory of large payloads that are being received.
    pub fn partial_bytes(&self) -> u64 {
        self.0.shared.partial.used()
    }

    /// The open connections, oldest first.
    pub fn list(&self) -> Vec<ConnectionInfo> {
        self.0.entries.borrow().values().cloned().collect()
    }

    /// True when none is open.
    pub fn is_empty(&self) -> bool {
        self.0.entries.borrow().is_empty()
    }

    /// Begins the end: no new request is read, requests that were read but not started are refused
    /// with ESHUTDOWN, what is under way is answered, and the streams are closed.
    pub fn stop(&self) {
        self.0.stopping.set(true);
        for info in self.list() {
            info.link.stop();
        }
    }

    /// As [`Connections::stop`], for the connections to one export: for its deletion.
    pub fn stop_export(&self, export: &str) {
        for info in self.list().iter().filter(|info| info.export == export) {
            info.link.stop();
        }
    }

    /// Cuts a connection; false when there is none of this number.
    pub fn cut(&self, id: u64) -> bool {
        let info = self.0.entries.borrow().get(&id).cloned();
        info.as_ref().inspect(|info| info.link.close()).is_some()
    }

    /// Stops, and waits until all connections are gone. Clients that have not taken their replies
    /// after `grace` are cut; requests that are under way in the engine are waited for in any case.
    pub async fn shutdown(&self, grace: Nanos) {
        self.stop();
        let shared = &self.0.shared;
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
            // Notes this task; `gone` is not notified while it is polled.
            let _noted = Pin::new(&mut shared.gone.wait()).poll(context);
            Poll::Pending
        })
        .await;
    }
}

async fn serve<T: Target>(
    connections: Connections,
    id: u64,
    session: Rc<Session<T>>,
    guard: Option<ConnectionGuard>,
) {
    let shared = connections.0.shared.clone();
    let receiving = shared.rt.spawn(receive(session.clone()));
    session.link.send_replies().await;
    receiving.await;
    drop(session);
    connections.0.entries.borrow_mut().remove(&id);
    shared.links.borrow_mut().remove(&id);
    let open = &shared.metrics.connections_open;
    open.set(open.get() - 1);
    drop(guard);
    shared.gone.notify();
}
