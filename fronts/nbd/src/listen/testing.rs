//! A server that collects its connections, for tests.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::handshake::testing::{Client, catalog};

/// Longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) accepted: Receiver<Accepted>,
    pub(crate) refused: Receiver<String>,
    folder: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(|_| {})
    }

    /// A server on a Unix socket, with a changed configuration.
    pub(crate) fn with(change: impl FnOnce(&mut ListenConfig)) -> Rig {
        let folder = tempfile::tempdir().expect("folder");
        let listener = Listener::unix(&folder.path().join("socket")).expect("listener");
        let mut config = ListenConfig::new(catalog());
        change(&mut config);
        Rig::on(config, vec![listener], folder)
    }

    pub(crate) fn on(config: ListenConfig, listeners: Vec<Listener>, folder: TempDir) -> Rig {
        let (accept, accepted) = channel();
        let (refuse, refused) = channel();
        let server = Server::start(
            config,
            listeners,
            move |connection| drop(accept.send(connection)),
            move |_, why| drop(refuse.send(why.to_string())),
        )
        .expect("server");
        Rig {
            server,
            accepted,
            refused,
            folder,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream
    }

    pub(crate) fn next(&self) -> Accepted {
        self.accepted
            .recv_timeout(PATIENCE)
            .expect("a finished handshake")
    }

    pub(crate) fn next_refusal(&self) -> String {
        self.refused
            .recv_timeout(PATIENCE)
            .expect("a failed handshake")
    }
}

/// Goes to `main` over a connected stream.
pub(crate) fn go(stream: &mut (impl Read + Write)) {
    stream.write_all(&Client::new().go("main").0).expect("sent");
    // Greeting, REP_INFO, REP_ACK.
    let mut replies = [0; 18 + 32 + 20];
    stream.read_exact(&mut replies).expect("replies");
}
