//! One connection, from acceptance to delivery.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustls::{ServerConfig, ServerConnection, Stream};

use super::accept::Shared;
use super::gate::ConnectionGuard;
use super::slots::Slot;
use super::timed::TimedSocket;
use crate::handshake::{HandshakeError, Negotiation, Selection, Step, drive};
use crate::proto::Negotiated;
use crate::tls::pump;

/// A connection ready for the transmission phase.
#[derive(Debug)]
pub struct Accepted {
    /// The socket to serve: the client's own, or one end of the TLS pump. The
    /// next byte on it is a request. In blocking mode.
    pub socket: OwnedFd,
    /// The client's identity and what was negotiated.
    pub client: Client,
}

/// The results of a handshake.
#[derive(Debug)]
pub struct Client {
    /// Canonical name of the chosen export, which may have been deleted or
    /// resized since.
    pub export: String,
    /// Name of the client, for people.
    pub peer: String,
    /// Whether the client's side is encrypted.
    pub tls: bool,
    /// Whether the handshake said that the export is read-only.
    pub read_only: bool,
    /// What was negotiated.
    pub negotiated: Negotiated,
    /// The place among the open connections, dropped with the socket. `None` for a connection that came from elsewhere.
    pub guard: Option<ConnectionGuard>,
}

/// A connection that was just accepted.
pub(super) struct Incoming {
    pub(super) socket: Arc<OwnedFd>,
    pub(super) slot: Slot,
    pub(super) guard: ConnectionGuard,
    pub(super) peer: String,
}

/// Runs the handshake and delivers the connection; with TLS, then carries it
/// until its end.
pub(super) fn serve(shared: &Shared, incoming: Incoming) {
    let Incoming {
        socket,
        slot,
        guard,
        peer,
    } = incoming;
    let (selection, tls) = match negotiate(shared, &socket) {
        Ok(negotiated) => negotiated,
        Err(error) => {
            shared.refused(&peer, &error);
            return;
        }
    };
    // The connection was cut to make room, or because the server stops.
    let Some(net) = slot.release(socket) else {
        shared.refused(&peer, &HandshakeError::Disconnected);
        return;
    };
    let Some(tls) = tls else {
        shared.accepted(accepted(net, selection, peer, false, guard));
        return;
    };
    let pair = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    match pair {
        Ok((ours, theirs)) => {
            let held = guard.share();
            shared.accepted(accepted(theirs, selection, peer, true, guard));
            // The way in which a connection ends is not an error here; the served socket has seen the end.
            let _ = pump(*tls, net, ours);
            drop(held);
        }
        Err(errno) => shared.refused(&peer, &HandshakeError::Io(errno.into())),
    }
}

/// Runs the handshake, with the upgrade to TLS within it.
fn negotiate(
    shared: &Shared,
    socket: &OwnedFd,
) -> Result<(Selection, Option<Box<ServerConnection>>), HandshakeError> {
    let config = shared.config();
    let mut socket = TimedSocket {
        fd: socket,
        deadline: Instant::now() + config.handshake_timeout,
    };
    let mut negotiation = Negotiation::new(config.catalog.clone(), config.tls.policy());
    match (drive(&mut socket, &mut negotiation)?, config.tls.config()) {
        (Step::Transmit(selection), _) => Ok((selection, None)),
        (Step::StartTls, Some(tls)) => {
            let (selection, tls) = negotiate_tls(tls, &mut socket, &mut negotiation)?;
            Ok((selection, Some(tls)))
        }
        (step, _) => unreachable!("the handshake cannot end in {step:?} here"),
    }
}

fn negotiate_tls(
    config: &Arc<ServerConfig>,
    socket: &mut TimedSocket<'_>,
    negotiation: &mut Negotiation,
) -> Result<(Selection, Box<ServerConnection>), HandshakeError> {
    let mut tls = ServerConnection::new(Arc::clone(config)).map_err(HandshakeError::Tls)?;
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    negotiation.tls_started();
    match drive(&mut Stream::new(&mut tls, socket), negotiation) {
        Ok(Step::Transmit(selection)) => Ok((selection, Box::new(tls))),
        Ok(step) => unreachable!("the handshake cannot end in {step:?} under TLS"),
        Err(error) => {
            tls.send_close_notify();
            // The connection is about to be dropped. The alert is only for the client's information.
            let _ = tls.write_tls(socket);
            Err(error)
        }
    }
}

fn accepted(
    socket: OwnedFd,
    selection: Selection,
    peer: String,
    tls: bool,
    guard: ConnectionGuard,
) -> Accepted {
    let client = Client {
        read_only: selection.export.read_only,
        export: selection.export.name,
        peer,
        tls,
        negotiated: selection.negotiated,
        guard: Some(guard),
    };
    Accepted { socket, client }
}
