//! Acceptor threads and the server that owns them.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use super::gate::Gate;
use super::serve::{Accepted, Incoming, serve};
use super::slots::Slots;
use super::socket::{ListenAddress, Listener};
use crate::catalog::Catalog;
use crate::handshake::HandshakeError;
use crate::tls::{Tls, timespec};

/// Stack of a handshake thread in bytes; the TLS handshake is its deepest use.
const STACK_BYTES: usize = 256 << 10;
/// Pause after the system has refused a descriptor, so that the thread does not spin until one is free.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// How a server treats its clients.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// The exports that clients may choose.
    pub catalog: Catalog,
    /// Whether TLS is off, allowed or required, on all listeners.
    pub tls: Tls,
    /// Most open connections, handshakes included; more are closed at once.
    pub connections_max: usize,
    /// Most handshakes at a time; more wait in the backlog.
    pub handshakes_max: usize,
    /// Longest handshake, TLS included.
    pub handshake_timeout: Duration,
}

impl ListenConfig {
    /// The defaults: no TLS, 1,024 connections, 128 handshakes of 30 s.
    pub fn new(catalog: Catalog) -> ListenConfig {
        ListenConfig {
            catalog,
            tls: Tls::Off,
            connections_max: 1024,
            handshakes_max: 128,
            handshake_timeout: Duration::from_secs(30),
        }
    }
}

/// Counts of a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections delivered.
    pub accepted: u64,
    /// Connections closed because too many were open.
    pub over_limit: u64,
    /// Handshakes that delivered nothing.
    pub refused: u64,
    /// Connections open now.
    pub open: usize,
    /// Handshakes open now.
    pub handshakes: usize,
}

type OnAccept = dyn Fn(Accepted) + Send + Sync;
type OnRefuse = dyn Fn(&str, &HandshakeError) + Send + Sync;

/// State that all threads of a server share.
pub(super) struct Shared {
    config: ListenConfig,
    gate: Arc<Gate>,
    slots: Arc<Slots>,
    on_accept: Box<OnAccept>,
    on_refuse: Box<OnRefuse>,
    accepted: AtomicU64,
    over_limit: AtomicU64,
    refused: AtomicU64,
    /// Readable for ever once the server stops.
    stop: OwnedFd,
}

impl Shared {
    pub(super) fn config(&self) -> &ListenConfig {
        &self.config
    }

    pub(super) fn accepted(&self, accepted: Accepted) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        (self.on_accept)(accepted);
    }

    pub(super) fn refused(&self, peer: &str, why: &HandshakeError) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        (self.on_refuse)(peer, why);
    }
}

/// A running set of listeners. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<ListenAddress>,
    acceptors: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Accepts connections on all `listeners`. `on_accept` gets each finished
    /// handshake and `on_refuse` each failed one, with the client's name; both
    /// are called from handshake threads and must not block for long.
    pub fn start(
        config: ListenConfig,
        listeners: Vec<Listener>,
        on_accept: impl Fn(Accepted) + Send + Sync + 'static,
        on_refuse: impl Fn(&str, &HandshakeError) + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let shared = Arc::new(Shared {
            gate: Gate::new(config.connections_max),
            slots: Slots::new(config.handshakes_max),
            config,
            on_accept: Box::new(on_accept),
            on_refuse: Box::new(on_refuse),
            accepted: AtomicU64::new(0),
            over_limit: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let mut server = Server {
            shared,
            addresses: Vec::new(),
            acceptors: Vec::new(),
        };
        for listener in listeners {
            server.addresses.push(listener.address().clone());
            let shared = Arc::clone(&server.shared);
            let acceptor = thread::Builder::new()
                .name("nbd-accept".to_owned())
                .spawn(move || accept_all(&shared, &listener))?;
            server.acceptors.push(acceptor);
        }
        Ok(server)
    }

    /// The addresses at which clients connect, in the order of the listeners.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// The counts since the start.
    pub fn counts(&self) -> Counts {
        Counts {
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            over_limit: self.shared.over_limit.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            open: self.shared.gate.open(),
            handshakes: self.shared.slots.taken(),
        }
    }

    /// Stops accepting, closes the listeners, removes the files of Unix
    /// sockets, and cuts handshakes. Connections that were delivered stay.
    pub fn stop(&mut self) {
        // Any number but zero, in either byte order. Fails only when the counter is at its maximum, and so readable.
        let _ = rustix::io::write(&self.shared.stop, &[1; 8]);
        self.shared.slots.stop();
        for acceptor in self.acceptors.drain(..) {
            // A panic of an acceptor was reported by its thread.
            let _ = acceptor.join();
        }
    }

    /// Waits until every delivered connection is gone, TLS ones with their last
    /// bytes sent; false when the time is over first.
    pub fn wait_connections(&self, timeout: Duration) -> bool {
        self.shared.gate.wait_empty(timeout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The acceptor thread. Runs until the server stops.
fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        let mut fds = [
            PollFd::new(&shared.stop, PollFlags::IN),
            PollFd::new(listener.fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => pause(shared),
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        if fds[1].revents().is_empty() {
            continue;
        }
        // A connection waits: it stays in the backlog until a slot is free.
        let Some(mut slot) = shared.slots.reserve() else {
            return;
        };
        let (socket, peer) = match listener.accept() {
            Ok(connection) => connection,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                drop(slot);
                pause(shared);
                continue;
            }
            // The client has gone between readiness and acceptance.
            Err(_) => continue,
        };
        let Some(guard) = shared.gate.enter() else {
            shared.over_limit.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let socket = slot.occupy(socket);
        let incoming = Incoming {
            socket,
            slot,
            guard,
            peer,
        };
        let shared = Arc::clone(shared);
        // Without a thread the connection is dropped, which closes it.
        let _ = thread::Builder::new()
            .name("nbd-handshake".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&shared, incoming));
    }
}

/// Waits a moment, or until the server stops.
fn pause(shared: &Shared) {
    let mut fds = [PollFd::new(&shared.stop, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&timespec(EXHAUSTED_PAUSE)));
}
